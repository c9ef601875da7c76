"""The opened sample: the one that was opened last, on whatever page; the panel of every page shows it.

A page that shows a sample of its own `tell`s its number. Where another sample is open, the address holds it as `sample`.
"""

import re
from dataclasses import dataclass, field

import streamlit as st

from app.ask import Modality
from app.choice import set_value

Sample = tuple[Modality, int]
SAMPLE, _STATE = "sample", "opened-sample"
_NAME = re.compile(r"(image|caption)-(\d{1,9})")


@dataclass
class _State:
    """The page and the data that are shown; the sample that a person opened, the page's own, its fields by name, and the
    value of `sample` in the address. `drawn`: the panel is, so another sample needs another script run."""

    page: str = ""
    data: object = None
    shared: Sample | None = None
    own: Sample | None = None
    fields: dict[str, tuple[str, Sample]] = field(default_factory=dict)
    in_url: str = ""
    drawn: bool = False


def _state() -> _State:
    state: _State = st.session_state.setdefault(_STATE, _State())
    return state


def name_of(modality: Modality, number: int) -> str:
    """ "caption-12" or "image-3"."""
    return f"{'caption' if modality == 'text' else 'image'}-{number}"


def parse(name: object) -> Sample | None:
    """The sample of a name such as "caption-12"; None for anything else."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    return None if match is None else ("image" if match[1] == "image" else "text", int(match[2]))


def begin(page: str, data: object) -> None:
    """At the start of a script run: open the sample of the address, or that of a field which a person changed.
    Another page forgets the fields and lists of the last one, another data set (`data`) the sample."""
    state, named = _state(), st.query_params.get(SAMPLE, "")
    if page != state.page:
        for key in [key for key in st.session_state if str(key).endswith("-rows")]:
            del st.session_state[key]
    for target, (modality, number) in state.fields.values():
        value = st.session_state.get(target)
        if isinstance(value, int) and value != number:
            state.shared = modality, value
    if data != state.data:
        state.shared = None
    if (page, data) != (state.page, state.data):
        state.fields.clear()
    if named != state.in_url:
        state.shared = parse(named) or state.shared
    state.page, state.data, state.own, state.in_url, state.drawn = page, data, None, named, False


def tell(target: str, modality: Modality, number: int, *, own: bool = True) -> None:
    """Tell the panel the number in the field `target`: it opens the sample once the number changes, or if the address
    named it. `own`: the page is about this sample, which the panel shows while no other is open."""
    state, sample = _state(), (modality, number)
    field = "" if own else target
    before = state.fields[field][1] if field in state.fields else None
    state.fields[field] = target, sample
    state.own = sample if own else state.own
    if sample != before and (before is not None or target in st.query_params):
        show(sample)


def show(sample: Sample) -> None:
    """Open a sample."""
    state = _state()
    again, state.shared = state.drawn and sample != state.shared, sample
    if again:
        st.rerun()


def current() -> Sample | None:
    """The sample in the panel."""
    return _state().shared or _state().own


def followed() -> Sample | None:
    """The sample that a person opened: it follows to other pages."""
    return _state().shared


def subject() -> tuple[str, Sample | None]:
    """The open page, and the sample that it is about."""
    return _state().page, _state().own


def close() -> None:
    """Close the sample that was opened; a page that is about one goes on showing that."""
    _state().shared = None


def end() -> None:
    """At the end of a page: keep the sample in the address, unless a field of the page does."""
    state = _state()
    state.in_url = "" if state.shared in (None, state.own) else name_of(*state.shared)
    state.drawn = True
    if st.query_params.get(SAMPLE, "") != state.in_url:
        set_value(SAMPLE, state.in_url)
