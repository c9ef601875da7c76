"""What is open on the current page: the sample in the panel, the samples of the page's fields, the rows of its tables.

One object of the session holds all of it, and tables, steppers and the panel ask it. A page that is about a sample
reports its number by `tell`. If another sample is open, the address has it as `sample`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import streamlit as st

from app.address import has_stepped, put, set_value
from app.ask import Modality

Sample = tuple[Modality, int]
SAMPLE = "sample"
_STATE = "opened-sample"
_NAME = re.compile(r"(image|caption)-(\d{1,9})")


@dataclass
class Rows:
    """The rows that a number field steps through: their fingerprint, the field's last number, and whether that came
    with the link."""

    fingerprint: int
    last: int | None
    from_link: bool


@dataclass
class View:
    """The part of a table on display: its page, and the column that sorts it with the direction. `opened`: the rows and
    the open one, for which the page was chosen."""

    page: int = 0
    sort: tuple[str, str] | None = None
    opened: object = None


@dataclass
class State:
    """The current page and data; the sample that a person opened (`shared`), that of the page (`own`), and those of its
    fields, by field; what its steppers step through and its tables show; the address's `sample` (`in_url`); `drawn`:
    the panel has been drawn."""

    page: str = ""
    data: object = None
    shared: Sample | None = None
    own: Sample | None = None
    fields: dict[str, tuple[str, Sample]] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    in_url: str = ""
    drawn: bool = False


def state() -> State:
    """Return the state of this session."""
    return cast(State, st.session_state.setdefault(_STATE, State()))


def name_of(modality: Modality, number: int) -> str:
    """Name a sample "caption-12" or "image-3"."""
    return f"{'caption' if modality == 'text' else 'image'}-{number}"


def parse(name: object) -> Sample | None:
    """Parse a name such as "caption-12"; None for anything else."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    return None if match is None else ("image" if match[1] == "image" else "text", int(match[2]))


def begin(page: str, data: object) -> None:
    """Open, at the start of a script run, the sample in the address, or in a field that a person changed. A change of
    page, or a step in the tab's history, forgets the fields and lists that were shown; a change of `data` forgets the
    sample."""
    now = state()
    named = st.query_params.get(SAMPLE, "")
    if page != now.page or has_stepped():
        now.rows.clear()
    if has_stepped():
        now.fields.clear()
    for target, (modality, number) in now.fields.values():
        value = st.session_state.get(target)
        if isinstance(value, int) and value != number:
            now.shared = modality, value
    if data != now.data:
        now.shared = None
    if (page, data) != (now.page, now.data):
        now.fields.clear()
    if named != now.in_url:
        now.shared = parse(named) or now.shared

    now.page = page
    now.data = data
    now.own = None
    now.in_url = named
    now.drawn = False


def begin_fragment() -> None:
    """Begin to draw, again, the part of a page that has the panel."""
    now = state()
    now.own = None
    now.drawn = False


def among(target: str, rows: Sequence[int] | np.ndarray) -> bool:
    """Open the first of `rows` in the field `target` when they change, unless one of them was chosen in the meantime.
    Return True if one is open. A number in the address stays open until the rows change, even if there are none."""
    fingerprint = hash(np.sort(np.asarray(rows, dtype=np.int64)).tobytes())
    number = st.session_state.get(target)
    steppers = state().rows
    before = steppers.get(target)
    from_link = target in st.query_params if before is None else before.from_link
    if before is not None and before.fingerprint != fingerprint:
        from_link = False
        if len(rows) and (number == before.last or number not in rows):
            put(target, int(rows[0]))
    steppers[target] = Rows(fingerprint, st.session_state.get(target), from_link)
    return bool(len(rows)) or from_link


def view_of(table: str) -> View:
    """Return the part of a table on display, which the caller changes in place."""
    return state().views.setdefault(table, View())


def tell(target: str, modality: Modality, number: int, *, own: bool = True) -> None:
    """Report the number in the field `target` to the panel, which opens the sample when the number changes, or if it
    was in the address. `own`: the page is about this sample, which the panel shows while no other is open."""
    now = state()
    sample = (modality, number)
    name = "" if own else target
    before = now.fields.get(name)
    now.fields[name] = target, sample
    now.own = sample if own else now.own
    if (target, sample) != before and (before is not None or target in st.query_params):
        again = now.drawn and sample != now.shared
        now.shared = sample
        if again:  # in a fragment, after the panel was drawn
            st.rerun()


def show(sample: Sample | None) -> None:
    """Open a sample; None closes it, so that the panel shows the page's own sample, if any."""
    state().shared = sample


def current() -> Sample | None:
    """Return the sample in the panel."""
    return state().shared or state().own


def end() -> None:
    """Keep the sample in the address, unless a field of the page does. Called at the end of a page."""
    now = state()
    now.in_url = name_of(*now.shared) if now.shared and now.shared != now.own else ""
    now.drawn = True
    if st.query_params.get(SAMPLE, "") != now.in_url:
        set_value(SAMPLE, now.in_url)
