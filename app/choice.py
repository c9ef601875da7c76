"""The current selection: runs, split, slice, and every value in the URL.

Only this module moves values between Streamlit's session state and the URL. A control of a page is bound to the query
parameter of its own name (`bound`), so a copied link opens the same view; Streamlit ignores and removes unknown values.
`followed` is for values that stay in the URL even if they are defaults or unknown, and `set_value` for values without a
control.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, judging, questions
from app.ask import Direction, InputError, Modality, Run, RunSummary, ask, ask_all, keyed, slices

P = ParamSpec("P")
T = TypeVar("T")
Question = Callable[Concatenate[Run, str, P], T]  # about a run and a split
RUNS = "run"
MOST_RUNS = 6
FORMER = ("versus", "also", "curves")  # in older addresses: the last run ("—" for none), and those between
REVIEWER = "reviewer"
SLICE = "slice"
LONGEST_SLICE = slices.LONGEST_EXPRESSION
NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?")
DIRECTIONS: dict[Direction, str] = {"i2t": "image → text", "t2i": "text → image"}
QUERIES: dict[Modality, Direction] = {"image": "i2t", "text": "t2i"}
UNITS: dict[Modality, str] = {"text": "captions", "image": "images"}
OTHER: dict[Modality, Modality] = {"image": "text", "text": "image"}
_LINKED = "parameters-of-the-link"
_REFUSED = "refused"
_SEEN = "of-the-url"


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

    def alone(self, run: RunSummary) -> Choice:
        """Return the same split and slice with only one run."""
        return replace(self, first=run, second=None, between=())

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
        return np.unique(ask(Run.image_of_text, self.slice_run or self.last, self.split)[captions])

    def samples(self, modality: Modality) -> np.ndarray | None:
        """Return `members` of the slice; None without a slice."""
        return self.members(modality) if self.slice else None

    def inside(self, modality: Modality, numbers: np.ndarray | pd.Series) -> np.ndarray:
        """Return a bool for every number: True if the sample is in the slice, or there is no slice."""
        if not self.slice:
            return np.ones(len(numbers), dtype=bool)
        return np.isin(np.asarray(numbers), self.members(modality))


def _columns(run: RunSummary, split: str) -> tuple[str, slices.Columns]:
    """Return a key that changes with the reviews, and the values of every caption that expressions use, including
    tags."""
    file = judging.file_of(run)
    tags = None
    key = ""
    with suppress(InputError):  # the Reviews page reports it
        reviews = judging.load(file)
        if reviews.lines:
            tags = ask(judging.ReviewedSplit.of, run, split).tags(reviews)
            key = f"{file} {len(reviews.lines)} {reviews.lines[-1].get('id')}"
    return key, ask(slices.slice_columns, run, split, tags=keyed(key, tags))


def slice_mask(run: RunSummary, split: str, expression: str) -> np.ndarray:
    """Return (m,) bool: the captions of a slice, given by plain words or an expression. InputError: it is neither."""
    return ask(questions.slice_mask, run, split, expression, keyed(*_columns(run, split)))


def plain_words(run: RunSummary, split: str, text: str) -> str:
    """Return the plain words that define a slice, as “dog” and “on the grass”; "" for an expression."""
    return str(slices.plain_words(text, _columns(run, split)[1].names) or "")


def usual_slices(run: RunSummary, split: str) -> list[str]:
    """List the expressions that the slice field offers as completions."""
    return [entry.expression for entry in slices.usual_slices(_columns(run, split)[1])]


def slice_table(runs: Sequence[RunSummary], split: str, direction: Direction, at: int) -> pd.DataFrame:
    """Compute recall of the usual slices; clusters, diversity and tags are those of the last run and its data."""
    return ask_all(questions.slice_table, runs, split, direction, at, keyed(*_columns(runs[-1], split)))


def neighbours(choice: Choice, modality: Modality, number: int) -> str:
    """Return the slice of the samples most similar to one; "" for a run that scores pairs and has no neighbours."""
    name = "neighbours" if modality == "text" else "image_neighbours"
    has_embeddings = ask(Run.scores, choice.slice_run or choice.last, choice.split) is None
    return f"{number} in {name}" if has_embeddings else ""


def named_runs(values: Callable[[str], Sequence[str]], usual: Sequence[str]) -> list[str]:
    """Return the runs that an address names, baseline first; [] if it names none. `values` returns the values of one of
    its parameters. If an older address names only other runs, the usual runs precede them."""
    runs, last, also, curves = (list(values(key)) for key in (RUNS, *FORMER))
    if not any((*runs, *last, *also, *curves)):
        return []
    runs = runs if any(runs) else list(usual[: 1 if last else 2])
    names = [*runs[:1], *(name for name in also or curves if name not in (*runs, *last)), *runs[1:], *last]
    return [name for name in dict.fromkeys(names) if name not in ("", "—")][:MOST_RUNS]


def bound(key: str) -> dict[str, Any]:
    """Return the widget arguments that keep its value in the URL under `key`."""
    return {"key": key, "bind": "query-params"}


def bound_number(key: str) -> dict[str, Any]:
    """Return `bound` for a number, but unbound if the URL's is not finite, on which Streamlit 1.67 fails."""
    return bound(key) if NUMBER.fullmatch(st.query_params.get(key, "0")) else {"key": key}


def put(key: str, value: Any) -> None:
    """Set a bound widget from a callback."""
    st.session_state[key] = value


def value_of(key: str, default: str = "") -> str:
    """Return the value of a widget, or the URL's before the widget is drawn."""
    return str(st.session_state.get(key, st.query_params.get(key, default)))


def followed(key: str, in_url: T | None, default: T, accept: Callable[[T], T] = lambda value: value) -> T:
    """Return the value of a widget that is not bound, because Streamlit removes bound defaults and unknown values from
    the URL. It is the URL's, `in_url` (None: none), or the widget's, whichever changed since the last script run. An
    old default that neither a link nor a person set becomes the new `default`. `accept` makes the value valid."""
    seen = f"{key}-{_SEEN}"
    usual = f"{key}-default"
    before = st.session_state.get(usual, default)
    value = st.session_state.get(key, default)
    if in_url is not None and in_url != st.session_state.get(seen, default):
        value = in_url
    elif before != default and value == before and key not in linked():
        value = default
    value = accept(value)
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    st.session_state.update({seen: value, usual: default})
    return value


def set_value(key: str, value: str) -> None:
    """Put a value without a widget into the URL; "" removes it."""
    if value:
        st.query_params[key] = value
    else:
        st.query_params.pop(key, None)


def opened(key: str, rows: Sequence[int] | np.ndarray) -> bool:
    """Open the first of `rows` when they change, unless one of them was chosen in the meantime. Return True if one is
    open. A number in the address stays open until the rows change, even if there are none."""
    shown = hash(np.sort(np.asarray(rows, dtype=np.int64)).tobytes())
    number = st.session_state.get(key)
    state = f"{key}-rows"
    before, from_link, last = st.session_state.get(state, (None, key in st.query_params, number))
    changed = before not in (None, shown)
    from_link = from_link and not changed
    if changed and len(rows) and (number == last or number not in rows):
        put(key, int(rows[0]))
    st.session_state[state] = shown, from_link, st.session_state.get(key)
    return bool(len(rows)) or from_link


def remember_link() -> None:
    """Keep the parameters that the address had when this session began; later ones come from clicks in the app."""
    st.session_state.setdefault(_LINKED, tuple(st.query_params))


def linked() -> tuple[str, ...]:
    """Return the parameters of the address that this session began with."""
    return tuple(st.session_state.get(_LINKED, ()))


def attempt(failure: str, action: Callable[..., object], *arguments: Any) -> None:
    """Call `action`. If it is refused, keep `failure` ("Nothing was started.") and the reason for `refused`."""
    try:
        action(*arguments)
    except (InputError, OSError) as error:
        st.session_state[_REFUSED] = failure, str(error)


def refused() -> tuple[str, str] | None:
    """Return the refused action of the last click and the reason, once; None if it succeeded."""
    reason: tuple[str, str] | None = st.session_state.pop(_REFUSED, None)
    return reason


def tone() -> charts.Tone:
    """Return the colours of figures for the theme in the browser, light or dark."""
    return charts.tone(st.context.theme.type)


def reviewer_link() -> dict[str, str]:
    """Return the reviewer's name as a query parameter, if one was given, so that links between pages keep it."""
    name = value_of(REVIEWER)
    return {REVIEWER: name} if name else {}
