"""The runs that score the pairs of a run: their names, their settings, and how they are trained."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from coder_core.api.data_quality import TRAIN
from coder_core.cleaning.origin import Origin, given_scorers, trained_on_other_pairs
from coder_core.config.checks import problems
from coder_core.config.data import CleaningConfig
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, replaced, settings
from coder_core.config.training import BoostingConfig, WeightingConfig
from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import ProgressFile, silent
from coder_core.console.signals import StoppedBySignalError
from coder_core.queue.planned import PlannedRun, check_same_values, state_of
from coder_core.queue.running import QueueProgress, log_of, run_all, watched, workers_for
from coder_core.runs.load import read_config
from coder_core.training.reviewed import FINGERPRINT

# suffixes of the scorers' names
HALVES = {"half": False, "other-half": True}
WARM_UP = "warm-up"
TEMPERATURE = 0.07  # for scorers trained with InfoNCE, the usual value
WARM_UP_SHARE = 4  # small-loss scorers train for a quarter of the epochs
MOST_ROUNDS = 2  # without a given number; a third gained nothing with 60% of wrong captions
EMBEDDINGS_ONLY = "0"  # queries of train to rank: cleaning reads the scorers' embeddings, and no ranks
PARTS_OF_THE_FINAL_MODEL = (
    "bank_size",
    "bank_anchors",
    "prototypes",
    "prototype_recluster",
    "concepts",
    "concept_list",
    "scorer",
    "embeddings",
    "weight_heads",
    "weight_mmd",
)
"""Settings that have their defaults in scorers."""


def scorer_runs(config: Config, origin: Origin, ending: str = "") -> list[PlannedRun]:
    """Plan the scorers of a round: the run's model with the scorers' loss, without parts that only the final model
    needs. Finished scorers of another run are used as they are; that run's own configuration, if it exists, determines
    those to train. InputError: a scorer was started with other values, reviews or data."""
    asked = config
    if origin.shared and state_of(origin.base) != "new":
        stop_on_errors(trained_on_other_pairs([origin.base], asked))
        of_round = {"reviews": asked.data.reviews, "clean_by": asked.cleaning.clean_by}
        config = replaced(read_config(origin.base)[0], of_round)

    runs = []
    folders = scorer_folders(origin.base, config, ending)
    for folder, values in zip(folders, _kinds(config).values(), strict=True):
        scorer = replace(replaced(_plain(config), values), name=folder.name)
        stop_on_errors(problems(scorer))
        if origin.shared and state_of(folder) == "finished":
            stop_on_errors(trained_on_other_pairs([folder], asked))
        else:
            check_same_values(folder, scorer, fitted=True)
        planned = PlannedRun(folder, scorer, next(iter(PRESETS)), fit_warmup=True, rank=EMBEDDINGS_ONLY)
        runs.append(planned)

    _check_same_reviews(runs)
    return runs


def scorer_folders(base: Path, config: Config, ending: str) -> list[Path]:
    """Return the folders of a round's scorers, beside the run `base`."""
    return [base.with_name(f"{base.name}-{kind}{ending}") for kind in _kinds(config)]


def endings(config: Config) -> list[str]:
    """Return what names of each round end in, for as many rounds as there may be."""
    rounds = config.cleaning.clean_rounds
    if rounds == 0:
        once = given_scorers(config) or by_regression(config)
        rounds = 1 if once else MOST_ROUNDS
    return ["", *(f"-{number}" for number in range(2, rounds + 1))]


def _kinds(config: Config) -> dict[str, dict[str, Any]]:
    """Map the suffix of each scorer's name to the settings in which scorers differ; {} for a regression."""
    if by_regression(config):
        return {}
    if config.cleaning.clean_by == "small-loss":
        return {WARM_UP: {"epochs": max(1, config.training.epochs // WARM_UP_SHARE)}}
    return {name: {"train_part": 0.5, "other_part": other} for name, other in HALVES.items()}


def by_regression(config: Config) -> bool:
    return config.cleaning.clean_by == "regression"


def _plain(config: Config) -> Config:
    """Return what all scorers of a run have in common."""
    objective = config.objective
    loss = config.cleaning.clean_loss
    defaults = Config()
    values = {key: settings()[key].of(defaults) for key in PARTS_OF_THE_FINAL_MODEL}
    values["loss"] = loss
    values["weight_instance"] = objective.weight_instance or 1.0
    values["warmup_steps"] = config.training.warmup_steps // 2
    if loss != objective.loss:
        values["temperature"] = TEMPERATURE if loss == "infonce" else defaults.objective.temperature
        values["learn_scale"] = False
    without_parts = replace(
        config, boosting=BoostingConfig(), weighting=WeightingConfig(), cleaning=CleaningConfig()
    )
    return replaced(without_parts, values)


def _check_same_reviews(runs: Sequence[PlannedRun]) -> None:
    """Refuse (InputError) scorers that train with different reviews; people may have added to one file in between."""
    files = []
    fingerprints = []
    for run in runs:
        config = run.config
        fingerprint = None
        if state_of(run.folder) != "new":
            config, about = read_config(run.folder)
            fingerprint = about.get(FINGERPRINT, "") if about else None
        files.append(config.data.reviews)
        fingerprints.append(fingerprint)
    if len(set(files)) > 1 and len(set(fingerprints)) > 1:
        where = " and ".join(str(run.folder) for run in runs)
        fact = f"have different --reviews: {' and '.join(map(repr, files))}"
        fix = "give those of the one that began first, or remove its folder to train it again"
        raise InputError.at(where, fact, "the same", fix)


def train_scorers(
    scorers: Sequence[PlannedRun], config: Config, console: Console, progress_file: Path | None
) -> None:
    """Train the scorers and embed train with them."""
    record = ProgressFile(progress_file) if progress_file else silent
    with watched(console, len(scorers), "scorers") as show:

        def tell(progress: QueueProgress) -> None:
            show(progress)
            phase = f"training scorers: {len(progress.done)} of {len(scorers)} done"
            if progress.seconds_left is not None:
                phase += f", about {timedelta(seconds=round(progress.seconds_left))} left"
            record(progress.share, 1.0, phase)

        progress, interrupted = run_all(scorers, TRAIN, workers_for(config), tell)
    if interrupted:
        raise StoppedBySignalError("stopped, and saved. Continue with the same command.")
    for run in progress.failed:
        log = log_of(run.folder)
        _, _, last = log.read_text("utf-8", "replace").strip().rpartition("\n")
        raise InputError.at(run.folder, f"failed: {last.removeprefix('error: ')}", fix=f"read {log}")
