"""Controls that several pages share, and how they are laid out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import jobs
from app.address import bound, bound_number, put
from app.ask import Modality, RunSummary
from app.components import cards, opened
from app.components.refusals import attempt
from app.components.selection import neighbour, next_miss


class Look(TypedDict, total=False):
    """How a button looks, and the keys that press it."""

    type: Literal["primary", "secondary", "tertiary"]
    help: str | None
    shortcut: str | None
    disabled: bool


Option = TypeVar("Option", bound=str)
T = TypeVar("T")
Missed = np.ndarray | None  # a bool for every sample of the split
MODALITIES: dict[Modality, str] = {"text": "Captions", "image": "Images"}
FIRST = {"1": "1", "5": "5", "10": "10"}  # numbers of results to consider


def row(align: Literal["top", "center", "bottom"] = "bottom") -> DeltaGenerator:
    """Open a row of controls."""
    return st.container(horizontal=True, vertical_alignment=align, gap="small")


def more_filters() -> DeltaGenerator:
    """Open a menu for filters that are needed rarely."""
    return st.popover("Filters", icon=":material/filter_list:", width=120)


def advanced() -> DeltaGenerator:
    """Open a menu for controls that only experts on the paper need."""
    return st.popover("Advanced", icon=":material/tune:", width=140)


def side_by_side(items: Iterable[T], gap: Literal["small", "medium", "large"] = "large") -> Iterator[T]:
    """Yield the items, each with its own column open, so that the loop's body draws into it."""
    items = list(items)
    for item, column in zip(items, st.columns(len(items), gap=gap), strict=True):
        with column:
            yield item


def step_through(label: str, key: str, order: np.ndarray, count: int, missed: Missed = None) -> int:
    """Draw a sample's number with buttons and arrow keys to the previous and next sample of `order`, or (Shift) of the
    `missed`; return the number."""
    opened.among(key, order)
    first = int(order[0]) if len(order) else 0
    if int(st.session_state.get(key) or 0) >= count:  # the user has switched to a smaller split
        put(key, min(first, count - 1))
    with st.container(key=f"{key}-steps", horizontal=True, vertical_alignment="bottom", gap="small"):
        number = whole_number(label, (0, count - 1), first, key, 120)
        steps = ((-1, "Previous", "arrow_back", "Left"), (1, "Next", "arrow_forward", "Right"))
        for step, name, icon, arrow in steps:
            other = neighbour(order, number, step)
            button(name, f"{key}-{name.lower()}", icon, partial(put, key, other), shortcut=arrow)
        if missed is not None:
            _step_to_misses(key, order, missed, number)
    return number


def _step_to_misses(key: str, order: np.ndarray, missed: np.ndarray, number: int) -> None:
    for step, name, arrow in ((-1, "Previous", "Left"), (1, "Next", "Right")):
        other = next_miss(order, missed, number, step)
        alone = other == number
        button(
            f"{name} miss",
            f"{key}-miss-{step}",
            "",
            partial(put, key, other),
            shortcut=f"Shift+{arrow}",
            disabled=alone,
            help="No other query of this list is missed." if alone else f"Shift + {arrow} arrow",
        )


def whole_number(
    label: str, bounds: tuple[int, int], start: int, key: str, width: int, *, step: int = 1, tip: str = ""
) -> int:
    """Draw a field for a whole number within `bounds`, kept in the URL, and return its value."""
    low, high = bounds
    bind = bound_number(key)
    value = st.number_input(label, low, high, start, step, width=width, help=tip or None, **bind)
    return int(value or 0)


def button(label: str, key: str, icon: str, action: Callable[[], None], **look: Unpack[Look]) -> None:
    """Draw a button that calls `action`; `icon` is the name of a Material symbol, "" for none."""
    symbol = f":material/{icon}:" if icon else None
    st.button(label, key=key, icon=symbol, on_click=action, **look)


def pick(label: str, options: Iterable[T], key: str, width: int | None = None, **more: Any) -> T:
    """Draw a list of options, and return the chosen one, which is kept in the URL."""
    size: dict[str, Any] = {} if width is None else {"width": width}
    return cast(T, st.selectbox(label, list(options), **size, **bound(key), **more))


def switch(label: str, key: str, term: str = "", on_change: Callable[[], None] | None = None) -> bool:
    """Draw a switch, initially off, explained by a glossary term; its value is kept in the URL."""
    explained = cards.tip(term) if term else None
    return st.toggle(label, False, help=explained, on_change=on_change, **bound(key))


def choose_one(
    label: str,
    options: Mapping[Option, str],
    key: str,
    tip: str = "",
    *,
    default: Option | None = None,
    hidden: bool = False,
    on_change: Callable[[], None] | None = None,
) -> Option:
    """Draw buttons for a few options (value → label); return the chosen value, at first the `default` (None: the first
    option). The URL holds the escaped label. `hidden`: only screen readers read the label."""
    names = {name: cards.literal(text) for name, text in options.items()}
    chosen = st.segmented_control(
        label,
        list(names),
        format_func=names.__getitem__,
        default=default or next(iter(names)),
        required=True,
        help=tip or None,
        label_visibility="collapsed" if hidden else "visible",
        on_change=on_change,
        **bound(key),
    )
    return cast(Option, chosen)


def choose_run(label: str, runs: Sequence[RunSummary], key: str) -> RunSummary:
    """Draw a choice of one run, initially the last; nothing for a single run."""
    if len(runs) == 1:
        return runs[0]
    by_name = {run.name: run for run in reversed(runs)}
    return by_name[choose_one(label, {name: name for name in by_name}, key)]


def show_work(name: str, command: tuple[str, ...], label: str, note: str, fault: str = "") -> None:
    """Draw a button that starts a computation whose result is stored, or its progress. The job's name contains the key
    of its result; the progress file is appended to the command; `fault` is that of the stored result."""
    job = jobs.current(name)
    if job is not None and job.running:
        _watch_work(name)
        return
    reason = jobs.how_it_ended(name)
    if fault:
        cards.empty("The stored result is damaged. Computing it again replaces it.", fault)
    elif reason:
        cards.empty("The last attempt did not finish.", reason)
    with st.container(horizontal=True, vertical_alignment="center"):
        begin = partial(attempt, "It was not started.", jobs.start_work, command, name)
        button(cards.literal(label), f"begin-{name}", "play_arrow", begin, type="primary")
        cards.note(note)


@st.fragment(run_every="1s")
def _watch_work(name: str) -> None:
    job = jobs.current(name)
    if job is None or not job.running:
        st.rerun()
    progress = (job.progress if job else None) or jobs.JobProgress(0.0, "starting")
    st.progress(progress.fraction)
    with st.container(horizontal=True, vertical_alignment="center"):
        cancel = partial(jobs.stop, name)
        button("Cancel", f"cancel-{name}", "close", cancel, help="Finished parts of a large map are kept.")
        cards.note(f"{100 * progress.fraction:.0f} % · {progress.phase}")
