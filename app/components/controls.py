"""Controls that several pages share, and how they are laid out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import jobs
from app.address import bound, bound_number, put
from app.ask import Modality, RunSummary
from app.components import cards, opened
from app.components.refusals import attempt
from app.components.selection import neighbour, next_failure

Option = TypeVar("Option", bound=str)
T = TypeVar("T")
Failed = np.ndarray | None  # a bool for every sample of the split
MODALITIES: dict[Modality, str] = {"text": "Captions", "image": "Images"}
FIRST = {"1": "1", "5": "5", "10": "10"}  # numbers of results to consider


def row(align: Literal["top", "center", "bottom"] = "bottom") -> DeltaGenerator:
    """Open a row of controls."""
    return st.container(horizontal=True, vertical_alignment=align, gap="medium")


def advanced() -> DeltaGenerator:
    """Open a menu for controls that only experts on the paper need."""
    return st.popover("Advanced", icon=":material/tune:", width=140)


def side_by_side(items: Iterable[T], gap: Literal["small", "medium", "large"] = "large") -> Iterator[T]:
    """Yield the items, each with its own column open, so that the loop's body draws into it."""
    items = list(items)
    for item, column in zip(items, st.columns(len(items), gap=gap), strict=True):
        with column:
            yield item


def step_through(label: str, key: str, order: np.ndarray, count: int, tip: str, failed: Failed = None) -> int:
    """Draw a sample's number with buttons and arrow keys to the previous and next sample of `order`, or (Shift) of the
    `failed`; return the number."""
    opened.among(key, order)
    first = int(order[0]) if len(order) else 0
    if int(st.session_state.get(key) or 0) >= count:  # the user has switched to a smaller split
        put(key, min(first, count - 1))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        number = whole_number(label, 0, count - 1, first, key, 190, help=tip)
        steps = ((-1, "Previous", "arrow_back", "Left"), (1, "Next", "arrow_forward", "Right"))
        for step, name, icon, arrow in steps:
            other = neighbour(order, number, step)
            button(name, f"{key}-{name.lower()}", icon, put, key, other, shortcut=arrow)
        if failed is not None:
            for step, name, _, arrow in steps:
                other = next_failure(order, failed, number, step)
                look = {"shortcut": f"Shift+{arrow}", "disabled": not failed.any()}
                button(f"{name} failure", f"{key}-failure-{step}", "", put, key, other, **look)
    return number


def whole_number(label: str, low: int, high: int, start: int, key: str, width: int, **more: Any) -> int:
    """Draw a field for a whole number, kept in the URL, and return its value."""
    return int(st.number_input(label, low, high, start, width=width, **bound_number(key), **more) or 0)


def button(label: str, key: str, icon: str, action: Callable[..., None], *args: Any, **more: Any) -> None:
    """Draw a button that calls `action` with `args`; `icon` is the name of a Material symbol, "" for none."""
    symbol = f":material/{icon}:" if icon else None
    st.button(label, key=key, icon=symbol, on_click=action, args=args, **more)


def pick(label: str, options: Iterable[T], key: str, width: int | None = None, **more: Any) -> T:
    """Draw a list of options, and return the chosen one, which is kept in the URL."""
    size: dict[str, Any] = {} if width is None else {"width": width}
    return cast(T, st.selectbox(label, list(options), **size, **bound(key), **more))


def switch(label: str, key: str, term: str = "") -> bool:
    """Draw a switch, initially off, explained by a glossary term; its value is kept in the URL."""
    return st.toggle(label, False, help=cards.tip(term) if term else None, **bound(key))


def choose_one(label: str, options: Mapping[Option, str], key: str, tip: str = "", **more: Any) -> Option:
    """Draw buttons for a few options (value → label); return the chosen value. The URL holds the escaped label."""
    names = {name: cards.literal(text) for name, text in options.items()}
    look = {"default": next(iter(names)), "required": True, "help": tip or None, **bound(key), **more}
    return cast(Option, st.segmented_control(label, list(names), format_func=names.__getitem__, **look))


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
        begin = (attempt, "It was not started.", jobs.start_work, command, name)
        button(cards.literal(label), f"begin-{name}", "play_arrow", *begin, type="primary")
        cards.note(note)


@st.fragment(run_every="1s")
def _watch_work(name: str) -> None:
    job = jobs.current(name)
    if job is None or not job.running:
        st.rerun()
    progress = (job.progress if job else None) or jobs.JobProgress(0.0, "starting")
    st.progress(progress.fraction)
    with st.container(horizontal=True, vertical_alignment="center"):
        button("Cancel", f"cancel-{name}", "close", jobs.stop, name, help="Partial results are not stored.")
        cards.note(f"{100 * progress.fraction:.0f} % · {progress.phase}")
