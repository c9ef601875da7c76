"""Find pairs of the train split whose caption probably belongs to another image, and write them as reviews.

The judges are ordinary runs, each in its own process. For a run NAME they are NAME-half and NAME-other-half, trained on
complementary halves of the train images, or NAME-warm-up for small-loss selection. Their reviews go to
NAME-cleaned.jsonl, or to NAME-weighed.jsonl with weights (names of a second round end in -2, and so on). Existing files
are reused, so the same command continues after an interruption. Two finished runs of halves can replace new judges.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from glob import escape
from operator import eq
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from coder_core.ablation.planning import PlannedRun, check_same_values, gpus, state_of
from coder_core.ablation.rows import Row
from coder_core.ablation.running import LOGS, TableProgress, run_all, watching
from coder_core.api import open_run
from coder_core.api.data_quality import TRAIN, cross_fitted, error_probability, small_losses
from coder_core.api.reviews import ReviewedSplit
from coder_core.config.checks import problems
from coder_core.config.data import CleaningConfig, DataConfig
from coder_core.config.objective import BoostingConfig, WeightingConfig
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, replaced
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import print_faults, say
from coder_core.console.progress import ProgressFile, silent
from coder_core.console.signals import StoppedBySignalError
from coder_core.data.augmentation import exchange_captions
from coder_core.data.reviews import CLEANING, LONGEST_TAG, WEIGHT, Review, Verdict, merge, read_reviews
from coder_core.files.atomic import replace_file
from coder_core.runs.load import read_config
from coder_core.runs.status import RunLock, read_status
from coder_core.training.launch import check_new_run
from coder_core.training.reviewed import FINGERPRINT, pair_weights, reviews_of_run

# suffixes of the judges' names
HALVES = {"half": False, "other-half": True}
WARM_UP = "warm-up"
TEMPERATURE = 0.07  # for judges trained with InfoNCE, the usual value
WARM_UP_SHARE = 4  # small-loss judges train for a quarter of the epochs
LEAST = 0.05  # least probability of being wrong for which --clean-weigh weighs a pair
HOPELESS = 0.9  # above this share of wrong pairs, the judges have learned too little
_NO_PARTS: dict[str, Any] = {"bank_size": 0, "bank_anchors": False, "prototypes": 0, "prototype_recluster": 0}
_NO_PARTS |= {"concepts": 0, "concept_list": "", "scorer": "cosine", "embeddings": 1}
_NO_PARTS |= {"weight_heads": 0.0, "weight_mmd": 0.0}


@dataclass(frozen=True)
class Cleaned:
    """Cost and quality of the cleaning before a run."""

    seconds: float  # training time of the judges
    precision: float  # percentage of exchanged pairs among those left out
    recall: float  # percentage of pairs left out among those exchanged


def without_wrong_pairs(
    config: Config, root: Path, console: Console, progress_file: Path | None = None
) -> Config:
    """Judge the train pairs of a run below `root`, and return its configuration with a reviews file that leaves out (or
    weighs) suspicious pairs. InputError: impossible values, unusable data, or judges that failed, learned too little or
    were started with other values. StoppedBySignalError: a signal ended it early. `progress_file`: JSON with the
    progress of the judges."""
    stop_on_errors(problems(config))
    check_new_run(root / config.name)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        fix = "clean with one process, then run torchrun … --reviews with the file that it wrote"
        raise InputError.at("--clean", "is given under torchrun", "one process", fix)
    given = _given_judges(config)
    stop_on_errors(_trained_on_other_pairs(given, config))
    shared = "" if given else config.cleaning.clean_judges
    base = Path(shared or root / config.name)
    if shared and not any(base.parent.glob(f"{escape(base.name)}*")):
        raise InputError.at(f"--clean-judges {shared}", "does not exist", "a cleaned run", "check the path")
    (base.parent / LOGS).mkdir(parents=True, exist_ok=True)
    file = Path()
    how = "weighed" if config.cleaning.clean_weigh else "cleaned"
    with RunLock(base, base.parent / LOGS / f"{base.name}-cleaned.lock", console if shared else None):
        for number in range(1, config.cleaning.clean_rounds + 1):
            ending = "" if number == 1 else f"-{number}"
            file, before = base.with_name(f"{base.name}-{how}{ending}.jsonl"), file
            if file.exists():
                _check_rule(file, config)
                _add_people(file, config)
            else:
                reviews = config.data.reviews if number == 1 else str(before)
                judges = [] if given else judge_runs(replaced(config, {"reviews": reviews}), base, ending)
                if judges:
                    _train(judges, config, console, progress_file)
                folders = [judge.folder for judge in judges]
                write_reviews(file, _judged(given or folders, config), config, console)
                if not (shared or config.cleaning.keep_judges):
                    for folder in folders:
                        rmtree(folder)
    say(console, f"reviews of train: {file}")
    return replaced(config, {"reviews": str(file)})


def judge_runs(config: Config, base: Path, ending: str) -> list[PlannedRun]:
    """Plan the judges of a round, named after `base`: the run's model with the judges' loss, without parts that only the
    final model needs. Finished judges of another run are used as they are; that run's own configuration, if it exists,
    determines those to train. InputError: a judge was started with other values, reviews or data."""
    asked = config
    shared = bool(config.cleaning.clean_judges)
    if shared and state_of(base) != "new":
        stop_on_errors(_trained_on_other_pairs([base], asked))
        of_round = {"reviews": asked.data.reviews, "clean_by": asked.cleaning.clean_by}
        config = replaced(read_config(base)[0], of_round)
    loss = config.cleaning.clean_loss
    instance = config.objective.weight_instance
    values: dict[str, Any] = {**_NO_PARTS, "loss": loss, "weight_instance": instance or 1.0}
    if loss != config.objective.loss:
        temperature = TEMPERATURE if loss == "infonce" else type(config.objective)().temperature
        values |= {"temperature": temperature, "learn_scale": False}
    values["warmup_steps"] = config.training.warmup_steps // 2
    plain = replace(config, boosting=BoostingConfig(), weighting=WeightingConfig(), cleaning=CleaningConfig())
    plain = replaced(plain, values)
    judges: dict[str, Any] = {name: {"train_part": 0.5, "other_part": rest} for name, rest in HALVES.items()}
    if config.cleaning.clean_by == "small-loss":
        judges = {WARM_UP: {"epochs": max(1, config.training.epochs // WARM_UP_SHARE)}}
    runs = []
    reviews = []
    for name, of_judge in judges.items():
        folder = base.with_name(f"{base.name}-{name}{ending}")
        judge = replace(replaced(plain, of_judge), name=folder.name)
        stop_on_errors(problems(judge))
        runs.append(PlannedRun(Row(name, name), folder, next(iter(PRESETS)), judge, fit_warmup=True))
        if shared and state_of(folder) == "finished":
            stop_on_errors(_trained_on_other_pairs([folder], asked))
        else:
            check_same_values(folder, judge, fitted=True)
        begun = state_of(folder) != "new"
        stored, about = read_config(folder) if begun else (judge, {FINGERPRINT: None})
        reviews.append((stored.data.reviews, about.get(FINGERPRINT, "")))
    if not any(map(eq, reviews[0], reviews[-1])):  # people may have added to the same file in between
        where = " and ".join(str(run.folder) for run in runs)
        fact = "have different --reviews: {!r} and {!r}".format(*(file for file, _ in reviews))
        fix = "give those of the one that began first, or remove its folder to train it again"
        raise InputError.at(where, fact, "the same", fix)
    return runs


def _given_judges(config: Config) -> list[Path]:
    """Return the folders of the two finished runs in `clean_judges`; [] if it does not name two."""
    paths = config.cleaning.clean_judges.split(os.pathsep)
    return [Path(path) for path in paths] if len(paths) > 1 else []


def _trained_on_other_pairs(judges: list[Path], config: Config) -> Iterator[Fault]:
    """Yield a fault for each judge whose data folder's name or exchanged captions differ from the run's."""
    for judge in judges:
        theirs, own = (
            (Path(one.data.data).name, one.data.wrong_captions, one.data.wrong_captions and one.training.seed)
            for one in (read_config(judge)[0], config)
        )
        if theirs != own:
            fact, expected = ("{}, --wrong-captions {:g}, --seed {}".format(*of) for of in (theirs, own))
            yield Fault(str(judge), f"was trained on {fact}", expected, "choose other --clean-judges")


def _train(judges: list[PlannedRun], config: Config, console: Console, progress_file: Path | None) -> None:
    """Train the judges and evaluate them on train."""
    devices = [] if config.training.device == "cpu" else gpus()
    record = ProgressFile(progress_file) if progress_file else silent
    with watching(console, len(judges), "judges") as show:

        def tell(progress: TableProgress) -> None:
            show(progress)
            seconds = progress.seconds_left
            left = "" if seconds is None else f", about {timedelta(seconds=round(seconds))} left"
            record(progress.share, 1.0, f"training judges: {len(progress.done)} of {len(judges)} done{left}")

        progress, interrupted = run_all(judges, TRAIN, jobs=max(1, len(devices)), gpus=devices, tell=tell)
    if interrupted:
        raise StoppedBySignalError("stopped, and saved. Continue with the same command.")
    logs = judges[0].folder.parent / LOGS
    for run in progress.failed:
        log = logs / f"{run.folder.name}.log"
        last = log.read_text("utf-8", "replace").strip().rpartition("\n")[-1].removeprefix("error: ")
        raise InputError.at(run.folder, f"failed: {last}", fix=f"all its output is in {log}")


def _judged(judges: list[Path], config: Config) -> pd.DataFrame:
    """Return one row per pair: caption and image (rows of train), its name in reviews (`pair`), the `probability` that
    the caption belongs to another image, and the judge."""
    runs = [open_run(judge) for judge in judges]
    if config.cleaning.clean_by == "small-loss":
        table = small_losses(runs[0])
    else:
        table = cross_fitted(*runs)
        table["probability"] = error_probability(table["random"].to_numpy())
    probability = table["probability"]
    share = max(float(probability.mean()), float((probability >= config.cleaning.clean_above).mean()))
    if share > HOPELESS:
        fact = f"cannot tell pairs from random ones: they judge {share:.0%} of train to be wrong"
        fix = "train longer (--epochs), or choose another --clean-loss, under a new --name"
        raise InputError.at(" and ".join(run.name for run in runs), fact, fix=fix)
    names = ReviewedSplit.of(runs[0], TRAIN)
    pairs = zip(table["image"], table["caption"], strict=True)
    table["pair"] = [names.pair(int(image), int(caption)) for image, caption in pairs]
    return table


def write_reviews(file: Path, table: pd.DataFrame, config: Config, console: Console) -> None:
    """Write one review per pair to leave out or, with --clean-weigh, to weigh; without any, a remark with the rule. Add
    people's, and print what training will leave out. A review is about all copies of a pair (unnamed images with equal
    captions), so the least suspicious copy decides."""
    estimated = table["probability"]
    table = table.assign(probability=table.groupby("pair")["probability"].transform("min"))
    suspicious = table["probability"] >= config.cleaning.clean_above
    weigh = config.cleaning.clean_weigh
    if ambiguous := int(((estimated >= config.cleaning.clean_above) & ~suspicious).sum()):
        fact = f"{ambiguous:,} suspicious pairs stay: unnamed images share their captions, so no review can name one"
        fix = "name the images (docs/data.md)"
        print_faults(console, [Fault("--clean", fact, fix=fix, severity="warning")])
    wrong = table[table["probability"] >= LEAST] if weigh else table[suspicious]
    reviews = wrong.drop_duplicates("pair") if len(wrong) else table[:1]
    columns = (reviews["pair"], reviews["probability"], reviews["judge"])
    lines = []
    for (image, caption), probability, judge in zip(*columns, strict=True):
        note = f"{probability:.0%} probable, judged by {judge}"
        verdict: Verdict = "wrong-caption" if probability >= config.cleaning.clean_above else "none"
        tags = _rule(config), *([f"{WEIGHT}{1 - probability:.3f}"] if weigh else [])
        lines.append(Review(image, caption, verdict, CLEANING, tags, note).document())
    replace_file(file, "".join(f"{json.dumps(line)}\n" for line in lines))
    _add_people(file, config)
    weights = pair_weights(table["pair"], read_reviews(file), config.data)
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
    settings = config.cleaning
    data = config.data
    given = [judge.name for judge in _given_judges(config)]
    by = given or [settings.clean_by, settings.clean_loss]
    pairs = config.training.seed, f"{data.wrong_captions:g}", Path(data.data).name
    parts = [f"{settings.clean_above:g}", *pairs]
    text = ", ".join(map(str, [*parts, *by] if given else [*by, *parts]))
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
    judges were removed; precision and recall also if no caption was exchanged or pairs were weighed, precision if none was
    left out."""
    config, about = read_config(folder)
    settings = config.cleaning
    share = config.data.wrong_captions
    if not settings.clean:
        return None
    ends = ["", *(f"-{number}" for number in range(2, settings.clean_rounds + 1))]
    base = Path(settings.clean_judges or folder)
    names = [WARM_UP] if settings.clean_by == "small-loss" else HALVES
    planned = [base.with_name(f"{base.name}-{name}{end}") for end in ends for name in names]
    judges = [run if run.exists() else folder.with_name(run.name) for run in _given_judges(config) or planned]
    statuses = [read_status(judge) or {} for judge in judges]
    if not all(statuses):
        return Cleaned(np.nan, np.nan, np.nan)
    seconds = sum(float(status.get("seconds", np.nan)) for status in statuses)
    reviews = reviews_of_run(folder, config, config, about)
    if not share or reviews is None or settings.clean_weigh:
        return Cleaned(seconds, np.nan, np.nan)
    train = ReviewedSplit.of(open_run(judges[0]), TRAIN)
    owner = train.image_of_text
    pairs = [train.pair(image, row) for row, image in enumerate(owner.tolist())]
    out = pair_weights(pairs, reviews, DataConfig()) == 0  # by default, only wrong captions are left out
    wrong = exchange_captions(owner, share, config.training.seed) != np.arange(len(owner))
    both = 100 * (out & wrong).sum()
    return Cleaned(seconds, float(both / out.sum()) if out.any() else np.nan, float(both / wrong.sum()))
