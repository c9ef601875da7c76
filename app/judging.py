"""People's opinions on the data: reviews written here, judgments beside a data set, and reports with both.

Reviews go to the file in CODER_REVIEWS, to that of a cleaned run, or to reviews.jsonl beside the data or the runs.
Judgements list captions and images that fit: files beside a run's data, or COCO's from eccv-caption.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.ask import (
    Direction,
    InputError,
    Run,
    RunSummary,
    all_runs,
    ask,
    ask_both,
    causes,
    keyed,
    likely_matches,
    opened_run,
    retrieval,
)
from app.jobs import runs_root
from app.questions import best_candidates, drawn_for_verdicts
from app.training import data_sets, starting
from coder_core.api import data_quality
from coder_core.api import reviews as api
from coder_core.api.report import Supplements, gather, render
from coder_core.api.retrieval import Judgements, OtherSplitError
from coder_core.api.reviews import (
    LONGEST,
    LONGEST_TAG,
    MOST_TAGS,
    Review,
    ReviewedSplit,
    Reviews,
    reviewer_agreement,
)

State = tuple[int, ...]
Pair = tuple[int, int]  # image and caption
_READ = "reviews-of-this-run-of-the-script"
QUEUES = {
    "ambiguous": "Most ambiguous",
    "wrong": "Likely wrong",
    "near": "Near misses",
    "likely": "Likely matches",
    "estimate": "For R@1",
}


def data_of(run: RunSummary) -> str:
    """Return the data named in a run's configuration; "" for none."""
    return str(run.config.get("data", {}).get("data", ""))


def file_of(run: RunSummary) -> Path:
    """Return the file of verdicts on a run's samples; for a cleaned run, that of its training, beside the runs."""
    used = Path(str(run.config.get("data", {}).get("reviews", ""))).name
    cleaned = bool(run.config.get("cleaning", {}).get("clean")) and not os.environ.get("CODER_REVIEWS")
    file = runs_root() / used  # a run's configuration may name any folder
    return file if cleaned and used and file.is_file() else of_data(data_of(run))


def of_data(data: str) -> Path:
    """Return the file of verdicts on a data set: CODER_REVIEWS, or reviews.jsonl beside the data or the runs."""
    named = os.environ.get("CODER_REVIEWS")
    return Path(named) if named else _data_folder(data, str(runs_root())) / api.FILE


@st.cache_data(ttl=30, max_entries=64, show_spinner=False)
def _data_folder(data: str, root: str) -> Path:
    """Return the folder of a run's data if it is a data set that the app offers, else that of the runs."""
    folders = [Path(entry.path) for entry in data_sets() if entry.path != "demo"]
    return api.reviews_folder(data, folders, Path(root))


def same_data(entry: starting.DataSet, data: str) -> bool:
    """True if `data`, as named in a run's configuration, is this data set."""
    if entry.path == "demo" or data == "demo":
        return entry.path == data
    return Path(entry.path).resolve() == Path(data).resolve()


def begin() -> None:
    """Read the files of reviews again in this script run."""
    st.session_state[_READ] = {}


def load(path: Path) -> Reviews:
    """Return the contents of the file, read once per script run; a missing one is empty. InputError: it contains
    something else."""
    read: dict[Path, Reviews] = st.session_state.setdefault(_READ, {})
    if path not in read:
        read[path] = _load(path, _state(path))
    return read[path]


@st.cache_resource(max_entries=8, show_spinner=False)
def _load(path: Path, state: State) -> Reviews:
    return api.read_reviews(path) if state else Reviews()


def verdicts_on_train(data: str, path: Path) -> int:
    """Count the verdicts in a file on train pairs of a data set, which is named as in a configuration."""
    return _verdicts_on_train(data, path, _state(path))


@st.cache_data(ttl=600, max_entries=8, show_spinner="Reading the train captions …")
def _verdicts_on_train(data: str, path: Path, state: State) -> int:
    splits = {split.name: split for split in data_quality.data_splits(data)}
    return api.verdicts_on(splits["train"], load(path)) if "train" in splits else 0


def _state(path: Path) -> State:
    """Return time of a file's last change, its size and inode; () if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def give(run: RunSummary, review: Review) -> None:
    """Append a verdict. InputError: a text is too long, or the file cannot be written."""
    path = file_of(run)
    api.append_review(path, review)
    _forget(path)


def undo(run: RunSummary, review: Review) -> None:
    """Undo a verdict."""
    path = file_of(run)
    api.append_undo(path, review.id, review.reviewer)
    _forget(path)


def _forget(path: Path) -> None:
    st.session_state.setdefault(_READ, {}).pop(path, None)


def own_verdicts(run: RunSummary, reviewer: str) -> dict[tuple[str, str], Review]:
    """Return pair → this reviewer's current verdict, the newest last."""
    return load(file_of(run)).by_reviewer.get(reviewer, {})


@dataclass(frozen=True)
class Asked:
    """A question about the causes of a run's misses, and the run of another seed that shows which margins are close."""

    question: causes.Question
    other_seed: RunSummary | None


def asked(
    run: RunSummary, split: str, direction: Direction, at: int = 1, within: np.ndarray | None = None
) -> Asked:
    """Return the question which queries a run misses and why; its noise is that of two seeds, if another run differs from
    it in the seed alone."""
    other = causes.run_of_another_seed(run, split, [other for other in all_runs() if other.usable])
    noise = None
    if other is not None:
        noise = ask_both(causes.noise_of_seeds, run, other, split, direction, at)
    return Asked(causes.Question(direction, at, within, noise), other if noise is not None else None)


def queue(run: RunSummary, split: str, kind: str, captions: np.ndarray | None = None) -> list[Pair]:
    """Return (image, caption) of at most 50 pairs to judge by one of `QUEUES`, best first and each text once, or of at
    most 100 that are drawn for R@1; only of `captions` (None: all)."""
    sample = ask(Run.sample, run, split)
    texts = ask(Run.captions, run, split)
    captions = np.arange(len(texts)) if captions is None else captions
    if kind == "ambiguous":
        table = ask(Run.diversity, run, split, sample=sample)
        table = table[table["anchor"].isin(captions)]
        owner = ask(Run.image_of_text, run, split)
        return api.ambiguous_pairs(table, owner, texts)

    if kind == "wrong":
        table = ask(data_quality.mismatches, run, split, sample=sample)
        table = table[(table["level"] == data_quality.LEVELS[0]) & table["caption"].isin(captions)]
        return api.suspicious_pairs(table, texts)
    if kind == "near":
        table = ask(retrieval.margins, run, split, "t2i", sample=sample)
        return api.near_miss_pairs(table[table["query"].isin(captions)], texts)

    if kind == "estimate":
        if not ask(causes.has_causes, run, split):
            return []
        drawn = ask(drawn_for_verdicts, run, split, captions)
        first: dict[tuple[int, str], Pair] = {}
        for image, caption in zip(drawn.results.tolist(), drawn.queries.tolist(), strict=True):
            first.setdefault((image, texts[caption]), (image, caption))
        return list(first.values())

    likely = likely_matches(run, split, "t2i")
    if likely is None:
        return []

    return api.likely_pairs(likely, ask(best_candidates, run, split, "text"), texts, captions)


def reviewed_recall(run: RunSummary, split: str, captions: np.ndarray | None = None) -> pd.DataFrame:
    """Compute recall by the labels and by the current file of reviews, over `captions` (None: all)."""
    reviews = load(file_of(run))
    names = keyed("", ask(ReviewedSplit.of, run, split))
    return ask(api.reviewed_recall, run, split, names, keyed(reviews.fingerprint(), reviews), captions)


def recall_by_people(run: RunSummary, split: str, captions: np.ndarray | None) -> causes.PeopleRecall:
    """Estimate R@1 of captions (None: all) as queries under complete labels, from the current file of reviews."""
    captions = np.arange(len(ask(Run.captions, run, split))) if captions is None else captions
    drawn = ask(drawn_for_verdicts, run, split, captions)
    names = ask(ReviewedSplit.of, run, split)
    values = causes.values_of_verdicts(drawn, names, load(file_of(run)))
    return causes.recall_with_verdicts(drawn, values)


@dataclass(frozen=True)
class Source:
    """Judgements about a run's split: file name, or "eccv" or "cxc"; label to display; path of the file, or the key; a
    summary, or the fault that prevents reading; and the judgments as an argument of `ask`."""

    key: str
    label: str
    path: str
    fact: str = ""
    fault: str = ""
    judgements: Any = None


def sources(run: RunSummary, split: str) -> list[Source]:
    """List the sources of judgments about this split of the run, damaged ones with their fault."""
    files = retrieval.judgement_files(_data_folder(data_of(run), str(runs_root())))
    of_files = [(file.name, file.name, str(file), _state(file)) for file in files]
    entries = [entry for entry in of_files if entry[-1]]  # the other files were removed in the meantime
    entries += [(key, label, key, ()) for key, label in retrieval.judgement_packages().items()]
    described = []
    for key, label, path, state in entries:
        judged = ask(_read, run, split, path, state)
        if isinstance(judged, Judgements):
            judgements = keyed(f"{path} {state}", judged)
            described.append(Source(key, label, path, judged.fact, judgements=judgements))
        elif judged is not None and state:  # the package is only about COCO's images
            described.append(Source(key, label, path, fault=judged))
    return described


def _read(run: Run, split: str, path: str, state: State) -> Judgements | str | None:
    """Return the judgments, or the fault of their file, or None if they are about other splits."""
    try:
        return retrieval.run_judgements(run, split, Path(path) if state else path)
    except OtherSplitError:
        return None
    except (InputError, OSError) as error:
        return str(error)


def known_about(run: RunSummary, split: str) -> causes.Known:
    """Collect verdicts, judgments and groups about a run's split, as an argument of `ask`."""
    reviews = Reviews()
    with suppress(InputError):  # the Reviews page reports it
        reviews = load(file_of(run))
    judged = [source.judgements for source in sources(run, split) if not source.fault]
    key = f"{reviews.fingerprint()} {[argument.key for argument in judged]}"
    names = keyed("", ask(ReviewedSplit.of, run, split))
    pairs = keyed(key, [rows for argument in judged for rows in _judged_pairs(argument.value)])
    return keyed(key, ask(causes.Known.of, run, split, names, keyed(key, reviews), pairs))


def _judged_pairs(judgements: Judgements) -> list[np.ndarray]:
    """Return rows (caption, image) that match by judgments, as captions and as images were judged."""
    return [judgements.of_texts, judgements.of_images]


def report_page(runs: Sequence[RunSummary], split: str) -> str:
    """Return one HTML file about runs of the same samples: the first is the baseline, the last the run in question."""
    path = file_of(runs[-1])
    reviews = load(path)
    positives = [source.path for source in sources(runs[-1], split) if not source.fault]
    parts = ["coder-lab", "report", *(str(run.path) for run in runs)]
    parts += ["--split", split, "--out", "report.html"]
    parts += ["--reviews", str(path)] if reviews.standing else []
    parts += ["--positives", *positives] if positives else []
    supplements = Supplements(command=shlex.join(parts), reviews=reviews, positives=positives)
    opened = [opened_run(run) for run in runs]
    return render(gather(opened, split, supplements))


def tags(_run: Run, named: ReviewedSplit, reviews: Reviews) -> dict[int, list[str]]:
    """Return `ReviewedSplit.tags`, as a question whose answer is cached until a review is added."""
    return named.tags(reviews)
