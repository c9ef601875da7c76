"""The probability that a pair of train is wrong, by scorers or by a regression."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from coder_core.api import Run, open_run
from coder_core.api.data_quality import TRAIN, cross_fitted, error_probability, small_losses
from coder_core.api.regression import regression_suspicion
from coder_core.api.reviews import ReviewedSplit
from coder_core.cleaning.scorers import by_regression
from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.data.reviews import image_keys
from coder_core.data.split import Split
from coder_core.model.device import choose_device
from coder_core.model.reader import data_folder, read_splits

HOPELESS = 0.9  # above this share of wrong pairs, the scorers have learned too little


def probabilities(scorers: Sequence[Path], config: Config, found: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per pair: caption and image (rows of train), its name in reviews (`pair`), the `probability` that
    the caption belongs to another image, and the `scorer`. `found`: by a regression, if it was already tried. InputError:
    nearly all pairs are considered wrong."""
    if by_regression(config):
        split = train_split(config)
        table = found
        if table is None:
            table = regression_suspicion(split.features, split.captions, split.image_of_text)
        _refuse_hopeless(table, config, "the regression", "use --clean-by halves")
        return _with_pairs(table, named_samples(split))

    runs = [open_run(scorer) for scorer in scorers]
    table = _scored_by_runs(runs, config)
    fix = "train longer (--epochs), or choose another --clean-loss, under a new --name"
    _refuse_hopeless(table, config, " and ".join(run.name for run in runs), fix)
    return _with_pairs(table, ReviewedSplit.of(runs[0], TRAIN))


def _scored_by_runs(runs: Sequence[Run], config: Config) -> pd.DataFrame:
    """Score the pairs by one run of small losses, or by two runs of halves, each on the pairs of the other's half."""
    if config.cleaning.clean_by == "small-loss":
        return small_losses(runs[0])
    first, second = runs
    table = cross_fitted(first, second, device=str(choose_device(config.training.device)))
    table["probability"] = error_probability(table["random"].to_numpy())
    return table


def _refuse_hopeless(table: pd.DataFrame, config: Config, scored_by: str, fix: str) -> None:
    """Refuse (InputError) probabilities by which nearly all pairs are wrong, in sum or one by one."""
    probability = table["probability"]
    expected = float(probability.mean())
    left_out = float((probability >= config.cleaning.clean_above).mean())
    share = max(expected, left_out)
    if share > HOPELESS:
        fact = f"cannot tell pairs from random ones: they consider {share:.0%} of train wrong"
        raise InputError.at(scored_by, fact, fix=fix)


def _with_pairs(table: pd.DataFrame, names: ReviewedSplit) -> pd.DataFrame:
    """Add the names of the pairs in reviews."""
    rows = zip(table["image"], table["caption"], strict=True)
    table["pair"] = [names.pair(int(image), int(caption)) for image, caption in rows]
    return table


def train_split(config: Config) -> Split:
    """Read the train split of region features, with the captions that the configuration exchanges."""
    return read_splits(config, data_folder(config.data.data), None, (TRAIN,)).splits[TRAIN]


def named_samples(split: Split) -> ReviewedSplit:
    """Name the samples of a split as reviews do."""
    names = split.image_names or []
    owner = split.image_of_text
    return ReviewedSplit(image_keys(names, split.captions, owner, split.n_images), split.captions, owner)
