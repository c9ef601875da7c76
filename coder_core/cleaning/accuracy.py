"""What the cleaning before a finished run cost, and how many exchanged captions it found."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coder_core.api import open_run
from coder_core.api.data_quality import TRAIN
from coder_core.api.reviews import ReviewedSplit
from coder_core.cleaning.origin import Origin, given_scorers
from coder_core.cleaning.scorers import endings, scorer_folders
from coder_core.cleaning.scores import named_samples, train_split
from coder_core.config.data import DataConfig
from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.data.augmentation import exchange_captions
from coder_core.runs.load import read_known_config
from coder_core.runs.record import read_status
from coder_core.training.reviewed import reviews_of_run, weights_by_verdict


@dataclass(frozen=True)
class Cleaned:
    """Cost and quality of the cleaning before a run."""

    seconds: float  # training time of the scorers
    precision: float  # percentage of exchanged pairs among those left out
    recall: float  # percentage of pairs left out among those exchanged


def read_cleaning(folder: Path) -> Cleaned | None:
    """Return the cost and the accuracy of the cleaning before a finished run; None without --clean. All are NaN if the
    scorers were removed; precision and recall also if no caption was exchanged, pairs were weighed or a regression's data
    cannot be read, precision if none was left out. A regression takes seconds, which are not counted."""
    config, about, _ = read_known_config(folder)
    if not config.cleaning.clean:
        return None
    scorers = _scorers_of(folder, config)
    statuses = [read_status(scorer) or {} for scorer in scorers]
    if not all(statuses):
        return Cleaned(np.nan, np.nan, np.nan)
    seconds = sum((float(status.get("seconds", np.nan)) for status in statuses), 0.0)

    unknown = Cleaned(seconds, np.nan, np.nan)
    reviews = reviews_of_run(folder, config, config, about)
    share = config.data.wrong_captions
    if not share or reviews is None or config.cleaning.clean_weigh:
        return unknown
    try:
        train = (
            ReviewedSplit.of(open_run(scorers[0]), TRAIN) if scorers else named_samples(train_split(config))
        )
    except InputError:
        return unknown

    owner = train.image_of_text
    pairs = [train.pair(image, row) for row, image in enumerate(owner.tolist())]
    weights = weights_by_verdict(pairs, reviews, DataConfig())  # by default, only wrong captions are left out
    left_out = weights == 0
    exchanged = exchange_captions(owner, share, config.training.seed) != np.arange(len(owner))
    found = 100 * (left_out & exchanged).sum()
    precision = float(found / left_out.sum()) if left_out.any() else np.nan
    return Cleaned(seconds, precision, float(found / exchanged.sum()))


def _scorers_of(folder: Path, config: Config) -> list[Path]:
    """Return the folders of a finished run's scorers; those that a moved run names are found beside it."""
    scorers = given_scorers(config)
    if not scorers:
        origin = Origin(Path(config.cleaning.clean_scorers or folder), shared=False)
        for ending in endings(config):
            scorers += scorer_folders(origin.base, config, ending)
            if origin.reviews(config, ending).name == Path(config.data.reviews).name:
                break
    return [scorer if scorer.exists() else folder.with_name(scorer.name) for scorer in scorers]
