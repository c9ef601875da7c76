"""The current selection: the runs, their split, and the slice that narrows every page; and its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from app import judging, questions
from app.address import SPLIT, Values, named_runs
from app.ask import (
    Direction,
    InputError,
    Modality,
    Run,
    Runs,
    RunSummary,
    ask,
    ask_all,
    keyed,
    listing,
    slices,
)

P = ParamSpec("P")
T = TypeVar("T")
Question = Callable[Concatenate[Run, str, P], T]  # about a run and a split
LONGEST_SLICE = slices.LONGEST_EXPRESSION
DIRECTIONS: dict[Direction, str] = {"i2t": "image → text", "t2i": "text → image"}
QUERIES: dict[Modality, Direction] = {"image": "i2t", "text": "t2i"}
UNITS: dict[Modality, str] = {"text": "captions", "image": "images"}
OTHER: dict[Modality, Modality] = {"image": "text", "text": "image"}


@dataclass(frozen=True)
class Choice:
    """The runs and the split chosen in the sidebar, and the slice that narrows every page. `first` is the baseline and
    `second` the run in question; up to four more are `between` them. `names` are all runs in the sidebar, which links
    preserve, including runs that the page does not show. `slice` is an expression, "" for the whole split, and `mask`
    (m,) bool its captions; `slice_run` is the run whose clusters, ranks and diversity the expression uses."""

    first: RunSummary
    second: RunSummary | None
    split: str
    slice: str = ""
    slice_run: RunSummary | None = None
    between: tuple[RunSummary, ...] = ()
    names: tuple[str, ...] = ()
    mask: np.ndarray | None = None

    @property
    def runs(self) -> list[RunSummary]:
        """One to six runs, the one in question last."""
        return [run for run in (self.first, *self.between, self.second) if run is not None]

    @property
    def last(self) -> RunSummary:
        """The run in question, or the only one."""
        return self.second or self.first

    def of(self, runs: Sequence[RunSummary]) -> Choice:
        """Return the same split and slice with these runs only, the baseline first and the one in question last."""
        first, *others = runs
        second = others[-1] if others else None
        return replace(self, first=first, second=second, between=tuple(others[:-1]))

    def alone(self, run: RunSummary) -> Choice:
        """Return the same split and slice with only one run."""
        return self.of([run])

    def ends(self) -> Choice:
        """Return the same with the first and the last of the runs only."""
        return self.of([self.first, *self.runs[1:][-1:]])

    def ask(self, question: Question[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `ask` with the run in question and the split."""
        return ask(question, self.last, self.split, *args, **kwargs)

    def ask_each(self, question: Question[P, T], /, *args: P.args, **kwargs: P.kwargs) -> dict[str, T]:
        """Call `ask` with every run and the split; return name → answer."""
        return {run.name: ask(question, run, self.split, *args, **kwargs) for run in self.runs}

    @property
    def captions(self) -> np.ndarray | None:
        """Captions of the slice; None without a slice."""
        return self.samples("text")

    def members(self, modality: Modality) -> np.ndarray:
        """Return the captions of the slice, or the images with such a caption."""
        assert self.mask is not None
        captions = np.flatnonzero(self.mask)
        if modality == "text":
            return captions
        run = self.slice_run or self.last
        owner = ask(Run.image_of_text, run, self.split)[captions]
        inside = np.zeros(ask(Run.count, run, self.split, "image"), dtype=bool)
        inside[owner[owner >= 0]] = True
        return np.flatnonzero(inside)

    def samples(self, modality: Modality) -> np.ndarray | None:
        """Return `members` of the slice; None without a slice."""
        return self.members(modality) if self.slice else None

    def inside(self, modality: Modality, numbers: np.ndarray | pd.Series) -> np.ndarray:
        """Return a bool for every number: True if the sample is in the slice, or there is no slice."""
        if not self.slice:
            return np.ones(len(numbers), dtype=bool)
        return np.isin(np.asarray(numbers), self.members(modality))


def _columns(run: RunSummary, split: str, *, counted: bool = False) -> tuple[str, slices.Columns]:
    """Return a key that changes with the reviews, and the values of every caption that expressions use, including
    tags; with `counted`, of the captions that a table of slices counts."""
    file = judging.file_of(run)
    tags = None
    key = ""
    with suppress(InputError):  # the Reviews page reports it
        reviews = judging.load(file)
        if reviews.lines:
            key = f"{file} {len(reviews.lines)} {reviews.lines[-1].get('id')}"
            named = ask(judging.ReviewedSplit.of, run, split)
            tags = ask(judging.tags, run, keyed(split, named), keyed(key, reviews))
    columns = slices.counted_columns if counted else slices.slice_columns
    return key, ask(columns, run, split, tags=keyed(key, tags))


def columns_of_slices(run: RunSummary, split: str) -> slices.Columns:
    """Return the values of every caption that expressions use."""
    return _columns(run, split)[1]


def column_values(run: RunSummary, split: str, name: str) -> slices.Values:
    """Return the values of the user's column, for its filter to offer."""
    return ask(questions.column_values, run, split, name, keyed(*_columns(run, split)))


def column_faults(run: RunSummary, split: str) -> list[str]:
    """Return sentences on files of the user's columns that cannot be read."""
    return ask(Run.column_faults, run, split)


def slice_mask(run: RunSummary, split: str, expression: str) -> np.ndarray:
    """Return (m,) bool: the captions of a slice, given by plain words or an expression. InputError: it is neither."""
    return ask(questions.slice_mask, run, split, expression, keyed(*_columns(run, split)))


def plain_words(run: RunSummary, split: str, text: str) -> str:
    """Return the plain words that define a slice, as “dog” and “on the grass”; "" for an expression."""
    return str(slices.plain_query(text, _columns(run, split)[1].names) or "")


def usual_slices(run: RunSummary, split: str) -> list[str]:
    """List the expressions that the slice field offers as completions."""
    return ask(questions.usual_expressions, run, split, keyed(*_columns(run, split, counted=True)))


def slice_table(runs: Sequence[RunSummary], split: str, direction: Direction, at: int) -> pd.DataFrame:
    """Compute recall of the usual slices; clusters, diversity and tags are those of the last run and its data."""
    columns = keyed(*_columns(runs[-1], split, counted=True))
    return ask_all(questions.slice_table, runs, split, direction, at, columns)


def neighbours(choice: Choice, modality: Modality, number: int) -> str:
    """Return the slice of the samples most similar to one; "" for a run that scores pairs and has no neighbours."""
    name = "neighbours" if modality == "text" else "image_neighbours"
    has_embeddings = ask(Run.scores, choice.slice_run or choice.last, choice.split) is None
    return f"{number} in {name}" if has_embeddings else ""


@dataclass(frozen=True)
class Named:
    """The runs and the split that an address names, completed by the usual ones. `names`: baseline first, [] if there
    is no evaluated run. `split`: "" if the first run is not evaluated. `in_address`: the runs that the address itself
    names."""

    names: list[str]
    split: str
    usual: list[str]
    in_address: list[str]

    def may_leave_out(self, names: list[str]) -> bool:
        """True if an address needs no names of runs: there is one run. A second may appear, and is then shown too."""
        return len(self.usual) == 1 and names == self.usual


def named(values: Values, runs: Runs) -> Named:
    """Complete the runs and the split of an address; `runs` are all that can be shown."""
    by_name = {run.name: run for run in runs}
    usual = default_runs(runs) if runs else []
    in_address = named_runs(lambda key: values.get(key, []), usual)
    names = in_address or usual
    split = next(filter(None, values.get(SPLIT, [])), "")
    if not split and names and names[0] in by_name:
        split = default_split([by_name[name] for name in names if name in by_name])
    return Named(names, split, usual, in_address)


def default_runs(runs: Runs) -> list[str]:
    """Return the runs to show first, baseline first, evaluated on the same samples: "x-baseline" and the run "coder-x"
    or "x"; else the newest run that has a partner and the newest of its partners, a zero-shot run or the older one
    first; else the newest run alone."""
    by_name = {run.name: run for run in runs}
    for name in by_name:
        stem = name.removesuffix("-baseline")
        for partner in (f"coder-{stem}", stem) if stem != name else ():
            if partner in by_name and _same_samples(by_name[name], by_name[partner]):
                return [name, partner]
    facts = {name: listing.facts(run) for name, run in by_name.items()}
    newest_first = sorted(by_name, key=lambda name: (facts[name]["created"], name), reverse=True)
    for position, name in enumerate(newest_first):
        for partner in newest_first[position + 1 :]:
            if _same_samples(by_name[name], by_name[partner]):
                pair = [partner, name]
                return sorted(pair, key=lambda one: facts[one]["from"] != "zero-shot")
    return newest_first[:1]


def _same_samples(a: RunSummary, b: RunSummary) -> bool:
    """True if the runs were evaluated on the same samples of a split that both have, as far as is known."""
    shared = [split for split in a.splits if split in b.splits]
    known = [split for split in shared if a.samples.get(split) == b.samples.get(split)]
    return bool(known) or not (a.splits and b.splits)


def default_split(runs: Runs) -> str:
    """Return the first run's first split that every run has with the same samples, else one that every run has, else
    its first; "" if it has none."""
    shared = [split for split in runs[0].splits if all(split in run.splits for run in runs)]
    of_first = runs[0].samples
    shared.sort(key=lambda split: any(run.samples.get(split) != of_first.get(split) for run in runs))
    return (shared or [*runs[0].splits, ""])[0]
