"""Find pairs of the train split whose caption probably belongs to another image, and write them as reviews.

A regression scores the pairs if its evidence is strong enough. Otherwise scorers do, which are ordinary runs, each in
its own process. For a run NAME they are NAME-half and NAME-other-half, trained on complementary halves of the train
images, or NAME-warm-up for small-loss selection. The reviews go to NAME-cleaned.jsonl, or to NAME-weighed.jsonl with
weights (names of a second round end in -2, and so on).
Existing files are reused, so the same command continues after an interruption. Two finished runs of halves can replace
new scorers.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from glob import escape
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from coder_core.api import open_run
from coder_core.api.data_quality import TRAIN, cross_fitted, error_probability, small_losses
from coder_core.api.regression import regression_suspicion, tells_apart
from coder_core.api.reviews import ReviewedSplit
from coder_core.config.checks import problems
from coder_core.config.data import CleaningConfig, DataConfig
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, replaced, settings
from coder_core.config.training import BoostingConfig, WeightingConfig
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import ProgressFile, print_faults, say, silent
from coder_core.console.signals import StoppedBySignalError
from coder_core.data.augmentation import exchange_captions
from coder_core.data.reviews import (
    CLEANING,
    LONGEST_TAG,
    WEIGHT,
    Review,
    Verdict,
    image_keys,
    merge,
    read_reviews,
)
from coder_core.data.split import Split
from coder_core.files.atomic import replace_file
from coder_core.model.device import choose_device
from coder_core.model.reader import data_folder, read_splits
from coder_core.queue.planned import PlannedRun, check_same_values, state_of
from coder_core.queue.running import LOGS, QueueProgress, log_of, run_all, watched, workers_for
from coder_core.runs.load import read_config, read_known_config
from coder_core.runs.record import RunLock, read_status
from coder_core.training.launch import check_new_run
from coder_core.training.reviewed import FINGERPRINT, reviews_of_run, weights_by_verdict

# suffixes of the scorers' names
HALVES = {"half": False, "other-half": True}
WARM_UP = "warm-up"
TEMPERATURE = 0.07  # for scorers trained with InfoNCE, the usual value
WARM_UP_SHARE = 4  # small-loss scorers train for a quarter of the epochs
LEAST = 0.05  # least probability of being wrong for which --clean-weigh weighs a pair
MOST_ROUNDS = 2  # without a given number; a third gained nothing with 60% of wrong captions
EMBEDDINGS_ONLY = "0"  # queries of train to rank: cleaning reads the scorers' embeddings, and no ranks
HOPELESS = 0.9  # above this share of wrong pairs, the scorers have learned too little
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


@dataclass(frozen=True)
class Cleaned:
    """Cost and quality of the cleaning before a run."""

    seconds: float  # training time of the scorers
    precision: float  # percentage of exchanged pairs among those left out
    recall: float  # percentage of pairs left out among those exchanged


@dataclass(frozen=True)
class Origin:
    """The run whose scorers and reviews a run uses: itself, or another cleaned run that shares them."""

    base: Path
    shared: bool

    @classmethod
    def of(cls, config: Config, root: Path) -> "Origin":
        """Return the origin of a run's scorers below `root`. InputError: the run that shares them does not exist."""
        named = "" if _given_scorers(config) else config.cleaning.clean_scorers
        base = Path(named or root / config.name)
        if named and not any(base.parent.glob(f"{escape(base.name)}*")):
            raise InputError.at(
                f"--clean-scorers {named}", "does not exist", "a cleaned run", "check the path"
            )
        return cls(base, bool(named))

    def reviews(self, config: Config, ending: str) -> Path:
        """Return the file of a round's reviews."""
        how = "weighed" if config.cleaning.clean_weigh else "cleaned"
        return self.base.with_name(f"{self.base.name}-{how}{ending}.jsonl")


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
    given = _given_scorers(config)
    stop_on_errors(_trained_on_other_pairs(given, config))
    origin = Origin.of(config, root)
    config, table = _with_kind_of_scorers(config, origin, console)
    logs = origin.base.parent / LOGS
    logs.mkdir(parents=True, exist_ok=True)
    lock = logs / f"{origin.base.name}-cleaned.lock"
    reviews = config.data.reviews
    scorers = list[Path]()
    own = list[Path]()
    with RunLock(origin.base, lock, console if origin.shared else None):
        for ending in _endings(config):
            file = origin.reviews(config, ending)
            decides = ending and not config.cleaning.clean_rounds
            if decides and not _needs_another_round(Path(reviews), scorers, file):
                break
            scorers = given or _scorer_folders(origin.base, config, ending)
            own += [] if given or origin.shared else scorers
            if file.exists():
                _check_rule(file, config)
                _add_people(file, config)
            else:
                if not given:
                    planned = scorer_runs(replaced(config, {"reviews": reviews}), origin, ending)
                    if planned:
                        _train(planned, config, console, progress_file)
                write_reviews(file, _scored(scorers, config, table), config, console)
            reviews = str(file)
        for folder in own:
            if folder.exists() and not config.cleaning.keep_scorers:
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
        return (halves if kind == "auto" else replaced(config, {"clean_by": kind})), None
    has_scorers = origin.shared or _given_scorers(config)
    has_begun = any(folder.exists() for folder in _scorer_folders(origin.base, halves, ""))
    if has_scorers or has_begun or config.towers.any or _asks_for_halves(config):
        return halves, None
    say(console, "scoring the pairs of train by a regression …")
    split = _train_split(config)
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


def _endings(config: Config) -> list[str]:
    """Return what names of each round end in, for as many rounds as there may be."""
    rounds = config.cleaning.clean_rounds
    if rounds == 0:
        once = _given_scorers(config) or _by_regression(config)
        rounds = 1 if once else MOST_ROUNDS
    return ["", *(f"-{number}" for number in range(2, rounds + 1))]


def _needs_another_round(reviews: Path, scorers: Sequence[Path], following: Path) -> bool:
    """Return True if the `reviews` of a round leave out more than half of the train pairs, so that most of what its
    scorers learned from was wrong. They are removed only when all rounds are done: the `following` file tells then."""
    if not all(scorer.exists() for scorer in scorers):
        return following.exists()
    left_out = sum(review.verdict == "wrong-caption" for review in read_reviews(reviews).all)
    return left_out > len(open_run(scorers[0]).captions(TRAIN)) / 2


def scorer_runs(config: Config, origin: Origin, ending: str = "") -> list[PlannedRun]:
    """Plan the scorers of a round: the run's model with the scorers' loss, without parts that only the final model
    needs. Finished scorers of another run are used as they are; that run's own configuration, if it exists, determines
    those to train. InputError: a scorer was started with other values, reviews or data."""
    asked = config
    if origin.shared and state_of(origin.base) != "new":
        stop_on_errors(_trained_on_other_pairs([origin.base], asked))
        of_round = {"reviews": asked.data.reviews, "clean_by": asked.cleaning.clean_by}
        config = replaced(read_config(origin.base)[0], of_round)
    runs = []
    folders = _scorer_folders(origin.base, config, ending)
    for folder, values in zip(folders, _kinds(config).values(), strict=True):
        scorer = replace(replaced(_plain(config), values), name=folder.name)
        stop_on_errors(problems(scorer))
        if origin.shared and state_of(folder) == "finished":
            stop_on_errors(_trained_on_other_pairs([folder], asked))
        else:
            check_same_values(folder, scorer, fitted=True)
        planned = PlannedRun(folder, scorer, next(iter(PRESETS)), fit_warmup=True, rank=EMBEDDINGS_ONLY)
        runs.append(planned)
    _check_same_reviews(runs)
    return runs


def _scorer_folders(base: Path, config: Config, ending: str) -> list[Path]:
    """Return the folders of a round's scorers, beside the run `base`."""
    return [base.with_name(f"{base.name}-{kind}{ending}") for kind in _kinds(config)]


def _kinds(config: Config) -> dict[str, dict[str, Any]]:
    """Map the suffix of each scorer's name to the settings in which scorers differ; {} for a regression."""
    if _by_regression(config):
        return {}
    if config.cleaning.clean_by == "small-loss":
        return {WARM_UP: {"epochs": max(1, config.training.epochs // WARM_UP_SHARE)}}
    return {name: {"train_part": 0.5, "other_part": other} for name, other in HALVES.items()}


def _by_regression(config: Config) -> bool:
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
        config, about = read_config(run.folder) if state_of(run.folder) != "new" else (run.config, {})
        files.append(config.data.reviews)
        fingerprints.append(about.get(FINGERPRINT, "") if about else None)
    if len(set(files)) > 1 and len(set(fingerprints)) > 1:
        where = " and ".join(str(run.folder) for run in runs)
        fact = f"have different --reviews: {' and '.join(map(repr, files))}"
        fix = "give those of the one that began first, or remove its folder to train it again"
        raise InputError.at(where, fact, "the same", fix)


def _given_scorers(config: Config) -> list[Path]:
    """Return the folders of the two finished runs in `clean_scorers`; [] if it does not name two."""
    paths = config.cleaning.clean_scorers.split(os.pathsep)
    return [Path(path) for path in paths] if len(paths) > 1 else []


def _trained_on_other_pairs(scorers: Sequence[Path], config: Config) -> Iterator[Fault]:
    """Yield a fault for each scorer whose data folder's name or exchanged captions differ from the run's."""
    own = _pairs_of(config)
    for scorer in scorers:
        theirs = _pairs_of(read_config(scorer)[0])
        if theirs != own:
            yield Fault(str(scorer), f"was trained on {theirs}", own, "choose other --clean-scorers")


def _pairs_of(config: Config) -> str:
    """Describe the train pairs of a run: data, and which of its captions are exchanged."""
    share = config.data.wrong_captions
    data = Path(config.data.data).name
    return f"{data}, --wrong-captions {share:g}" + (f", --seed {config.training.seed}" if share else "")


def _train(
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


def _scored(scorers: Sequence[Path], config: Config, found: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per pair: caption and image (rows of train), its name in reviews (`pair`), the `probability` that
    the caption belongs to another image, and the `scorer`. `found`: by a regression, if it was already tried."""
    runs = [open_run(scorer) for scorer in scorers]
    where = " and ".join(run.name for run in runs)
    fix = "train longer (--epochs), or choose another --clean-loss, under a new --name"
    if _by_regression(config):
        where = "the regression"
        fix = "use --clean-by halves"
        split = _train_split(config)
        table = found
        if table is None:
            table = regression_suspicion(split.features, split.captions, split.image_of_text)
        names = _named(split)
    elif config.cleaning.clean_by == "small-loss":
        table = small_losses(runs[0])
        names = ReviewedSplit.of(runs[0], TRAIN)
    else:
        first, second = runs
        names = ReviewedSplit.of(first, TRAIN)
        table = cross_fitted(first, second, device=str(choose_device(config.training.device)))
        table["probability"] = error_probability(table["random"].to_numpy())
    probability = table["probability"]
    share = max(float(probability.mean()), float((probability >= config.cleaning.clean_above).mean()))
    if share > HOPELESS:
        fact = f"cannot tell pairs from random ones: they consider {share:.0%} of train wrong"
        raise InputError.at(where, fact, fix=fix)
    pairs = zip(table["image"], table["caption"], strict=True)
    table["pair"] = [names.pair(int(image), int(caption)) for image, caption in pairs]
    return table


def _train_split(config: Config) -> Split:
    """Read the train split of region features, with the captions that the configuration exchanges."""
    return read_splits(config, data_folder(config.data.data), None, (TRAIN,)).splits[TRAIN]


def _named(split: Split) -> ReviewedSplit:
    """Name the samples of a split as reviews do."""
    names = split.image_names or []
    owner = split.image_of_text
    return ReviewedSplit(image_keys(names, split.captions, owner, split.n_images), split.captions, owner)


def write_reviews(file: Path, table: pd.DataFrame, config: Config, console: Console) -> None:
    """Write one review per pair to leave out or, with --clean-weigh, to weigh; without any, a remark with the rule. Add
    people's, and print what training will leave out. A review is about all copies of a pair (unnamed images with equal
    captions), so the least suspicious copy decides."""
    estimated = table["probability"]
    table = table.assign(probability=table.groupby("pair")["probability"].transform("min"))
    suspicious = table["probability"] >= config.cleaning.clean_above
    weigh = config.cleaning.clean_weigh
    ambiguous = int(((estimated >= config.cleaning.clean_above) & ~suspicious).sum())
    if ambiguous:
        fact = f"{ambiguous:,} suspicious pairs stay: unnamed images share their captions, so no review can name one"
        fix = "name the images (docs/data.md)"
        print_faults(console, [Fault("--clean", fact, fix=fix, severity="warning")])
    wrong = table[table["probability"] >= LEAST] if weigh else table[suspicious]
    reviews = wrong.drop_duplicates("pair") if len(wrong) else table[:1]
    lines = []
    for (image, caption), probability, scorer in zip(
        reviews["pair"], reviews["probability"], reviews["scorer"], strict=True
    ):
        verdict: Verdict = "wrong-caption" if probability >= config.cleaning.clean_above else "none"
        weight = (f"{WEIGHT}{1 - probability:.3f}",) if weigh else ()
        note = f"{probability:.0%} probable, scored by {scorer}"
        review = Review(image, caption, verdict, CLEANING, (_rule(config), *weight), note)
        lines.append(f"{json.dumps(review.document())}\n")
    replace_file(file, "".join(lines))
    _add_people(file, config)
    weights = weights_by_verdict(table["pair"], read_reviews(file), config.data)
    expected = f"{estimated.mean():.1%} of all, {estimated[~suspicious].mean():.1%} of the others"
    less = f", given less weight: {((weights > 0) & (weights < 1)).sum():,}"
    summary = f"left out: {(weights == 0).sum():,} of {len(table):,}{less}"
    say(console, f"pairs of train {summary}; estimated wrong pairs: {expected}")


def _add_people(file: Path, config: Config) -> None:
    """Add people's reviews, named in the configuration, that the file lacks."""
    if not config.data.reviews:
        return
    people = read_reviews(Path(config.data.reviews))
    written = read_reviews(file)
    lines = tuple(line for line in people.lines if line["reviewer"] != CLEANING)
    if {line["id"] for line in lines} - {line["id"] for line in written.lines}:
        replace_file(file, merge([replace(people, lines=lines), written]))


def _rule(config: Config) -> str:
    """Return the tag of the reviews: the rule that made them, and the data they are about."""
    cleaning = config.cleaning
    data = [config.training.seed, f"{config.data.wrong_captions:g}", Path(config.data.data).name]
    above = f"{cleaning.clean_above:g}"
    given = [scorer.name for scorer in _given_scorers(config)]
    rule = [above, *data]
    parts = [*rule, *given] if given else [cleaning.clean_by, cleaning.clean_loss, *rule]
    if _by_regression(config):
        parts = [cleaning.clean_by, *rule]
    text = ", ".join(map(str, parts))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return text if len(text) <= LONGEST_TAG else f"{text[: LONGEST_TAG - 10]}… {digest}"


def _check_rule(file: Path, config: Config) -> None:
    """Refuse (InputError) reviews that were made by another rule or for other data."""
    tags = {review.tags[:1] for review in read_reviews(file).all if review.reviewer == CLEANING}
    if tags - {(_rule(config),)}:
        fact = f"contains reviews made by another rule or for other data: {tags.pop()}"
        fix = "give the --data, --seed and --clean-… that it was made with, or choose another --name"
        raise InputError.at(file, fact, _rule(config), fix)


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
    reviews = reviews_of_run(folder, config, config, about)
    share = config.data.wrong_captions
    if not share or reviews is None or config.cleaning.clean_weigh:
        return Cleaned(seconds, np.nan, np.nan)
    try:
        train = ReviewedSplit.of(open_run(scorers[0]), TRAIN) if scorers else _named(_train_split(config))
    except InputError:
        return Cleaned(seconds, np.nan, np.nan)
    owner = train.image_of_text
    pairs = [train.pair(image, row) for row, image in enumerate(owner.tolist())]
    out = (
        weights_by_verdict(pairs, reviews, DataConfig()) == 0
    )  # by default, only wrong captions are left out
    wrong = exchange_captions(owner, share, config.training.seed) != np.arange(len(owner))
    both = 100 * (out & wrong).sum()
    precision = float(both / out.sum()) if out.any() else np.nan
    return Cleaned(seconds, precision, float(both / wrong.sum()))


def _scorers_of(folder: Path, config: Config) -> list[Path]:
    """Return the folders of a finished run's scorers; those that a moved run names are found beside it."""
    scorers = _given_scorers(config)
    if not scorers:
        origin = Origin(Path(config.cleaning.clean_scorers or folder), shared=False)
        for ending in _endings(config):
            scorers += _scorer_folders(origin.base, config, ending)
            if origin.reviews(config, ending).name == Path(config.data.reviews).name:
                break
    return [scorer if scorer.exists() else folder.with_name(scorer.name) for scorer in scorers]
