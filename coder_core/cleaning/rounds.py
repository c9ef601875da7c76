"""Clean the train split before a run: decide what scores its pairs, score them, and write reviews, round by round."""

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

import pandas as pd
from rich.console import Console

from coder_core.api import open_run
from coder_core.api.data_quality import TRAIN
from coder_core.api.regression import regression_suspicion, tells_apart
from coder_core.cleaning.origin import Origin, given_scorers, trained_on_other_pairs
from coder_core.cleaning.pair_reviews import add_people, check_rule, write_reviews
from coder_core.cleaning.scorers import endings, scorer_folders, scorer_runs, train_scorers
from coder_core.cleaning.scores import probabilities, train_split
from coder_core.config.checks import problems
from coder_core.config.schema import Config, replaced, settings
from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import say
from coder_core.data.reviews import read_reviews
from coder_core.queue.planned import state_of
from coder_core.queue.running import LOGS
from coder_core.runs.load import read_config
from coder_core.runs.record import RunLock
from coder_core.training.launch import check_new_run


def without_wrong_pairs(
    config: Config, root: Path, console: Console, progress_file: Path | None = None
) -> Config:
    """Score the train pairs of a run below `root`, and return its configuration with a reviews file that leaves out (or
    weighs) suspicious pairs. InputError: impossible values, unusable data, or scorers that failed, learned too little
    or were started with other values. StoppedBySignalError: a signal ended it early. `progress_file`: JSON with the
    progress of the scorers."""
    stop_on_errors(problems(config))
    check_new_run(root / config.name)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        fix = "clean with one process, then run torchrun … --reviews with the file that it wrote"
        raise InputError.at("--clean", "is given under torchrun", "one process", fix)
    given = given_scorers(config)
    stop_on_errors(trained_on_other_pairs(given, config))
    origin = Origin.of(config, root)
    config, table = _with_kind_of_scorers(config, origin, console)

    logs = origin.base.parent / LOGS
    logs.mkdir(parents=True, exist_ok=True)
    lock = logs / f"{origin.base.name}-cleaned.lock"
    reviews = config.data.reviews
    scorers = list[Path]()
    own = list[Path]()
    with RunLock(origin.base, lock, console if origin.shared else None):
        for ending in endings(config):
            file = origin.reviews(config, ending)
            decides = ending and not config.cleaning.clean_rounds
            if decides and not _needs_another_round(Path(reviews), scorers, file):
                break

            scorers = given or scorer_folders(origin.base, config, ending)
            if not given and not origin.shared:
                own += scorers
            if file.exists():
                check_rule(file, config)
                add_people(file, config)
            else:
                planned = [] if given else scorer_runs(replaced(config, {"reviews": reviews}), origin, ending)
                if planned:
                    train_scorers(planned, config, console, progress_file)
                write_reviews(file, probabilities(scorers, config, table), config, console)
            reviews = str(file)

        if not config.cleaning.keep_scorers:
            for folder in filter(Path.exists, own):
                rmtree(folder)
    say(console, f"reviews of train: {reviews}")
    return replaced(config, {"reviews": reviews})


def _with_kind_of_scorers(
    config: Config, origin: Origin, console: Console
) -> tuple[Config, pd.DataFrame | None]:
    """Decide what scores the pairs if that is left open ("auto"). A run that shares another's scorers takes its kind.
    Otherwise it is a regression if its evidence is strong enough, and two runs on halves if not. Return the configuration
    with the decision, and what the regression found; None if it was not tried or is not used."""
    if config.cleaning.clean_by != "auto":
        return config, None
    halves = replaced(config, {"clean_by": "halves"})
    if origin.shared and state_of(origin.base) != "new":
        kind = read_config(origin.base)[0].cleaning.clean_by
        if kind == "auto":
            return halves, None
        return replaced(config, {"clean_by": kind}), None

    has_scorers = origin.shared or given_scorers(config)
    has_begun = any(folder.exists() for folder in scorer_folders(origin.base, halves, ""))
    if has_scorers or has_begun or config.towers.any or _asks_for_halves(config):
        return halves, None

    say(console, "scoring the pairs of train by a regression …")
    split = train_split(config)
    try:
        table = regression_suspicion(split.features, split.captions, split.image_of_text)
    except InputError:  # too little data for it
        return halves, None
    if tells_apart(table):
        say(console, "pairs of train are scored by a regression (--clean-by halves: by two runs)")
        return replaced(config, {"clean_by": "regression"}), table
    say(console, "pairs of train are scored by two runs: a regression cannot tell them from random ones")
    return halves, None


def _asks_for_halves(config: Config) -> bool:
    """True if a setting that only scorers have was given."""
    given = (settings()[key] for key in ("clean_loss", "clean_rounds"))
    return any(setting.of(config) != setting.default for setting in given)


def _needs_another_round(reviews: Path, scorers: Sequence[Path], following: Path) -> bool:
    """Return True if the `reviews` of a round leave out more than half of the train pairs, so that most of what its
    scorers learned from was wrong. They are removed only when all rounds are done: the `following` file tells then."""
    if not all(scorer.exists() for scorer in scorers):
        return following.exists()
    left_out = sum(review.verdict == "wrong-caption" for review in read_reviews(reviews).all)
    return left_out > len(open_run(scorers[0]).captions(TRAIN)) / 2
