"""Controls that several pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import streamlit as st

from app.ui import cards
from app.ui.selection import neighbour, next_failure
from app.ui.state import bound, bound_number, put


def step_through(
    label: str,
    key: str,
    order: Sequence[int] | np.ndarray,
    count: int,
    help_text: str,
    failed: np.ndarray | None = None,
) -> int:
    """A sample's number, with buttons (and arrow keys) to the previous and next sample of `order`.

    With `failed` (a bool for every sample) two more lead to the previous and next failure (Shift and an arrow key).
    """
    if count < 1:
        raise ValueError("there is no sample to choose from")
    follow(key, order)
    first = int(order[0]) if len(order) else 0
    if int(st.session_state.get(key) or 0) >= count:  # the user has switched to a smaller split
        put(key, min(first, count - 1))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        number = int(
            st.number_input(label, 0, count - 1, first, 1, **bound_number(key), help=help_text, width=190)
            or 0
        )
        for step, name, arrow in ((-1, "Previous", "Left"), (1, "Next", "Right")):
            st.button(
                name,
                key=f"{key}-{name.lower()}",
                icon=f":material/arrow_{'back' if step < 0 else 'forward'}:",
                on_click=lambda step=step: put(key, neighbour(order, number, step)),
                shortcut=arrow,
            )
        if failed is not None:
            for step, name, arrow in ((-1, "Previous failure", "Left"), (1, "Next failure", "Right")):
                st.button(
                    name,
                    key=f"{key}-failure-{step}",
                    shortcut=f"Shift+{arrow}",
                    disabled=not failed.any(),
                    on_click=lambda step=step: put(key, next_failure(order, failed, number, step)),
                )
    return number


def follow(key: str, rows: Sequence[int] | np.ndarray) -> bool:
    """Open the first of `rows` once they change and no longer hold what is open; returns whether anything is open.

    A number that the address names stays open until the rows change, also where they are none.
    """
    shown = hash(np.sort(np.asarray(rows, dtype=np.int64)).tobytes())
    before, linked = st.session_state.get(f"{key}-rows", (None, key in st.query_params))
    changed = before not in (None, shown)
    linked = linked and not changed
    st.session_state[f"{key}-rows"] = shown, linked
    if changed and len(rows) and st.session_state.get(key) not in rows:
        put(key, int(rows[0]))
    return bool(len(rows)) or linked


def choose_one(
    label: str,
    options: Mapping[str, str],
    key: str,
    help_text: str | None = None,
    on_change: Callable[[], None] | None = None,
) -> str:
    """One of a few options, as buttons: value → label. The URL holds the label as it is escaped for Streamlit."""
    names = list(options)
    return str(
        st.segmented_control(
            label,
            names,
            default=names[0],
            required=True,
            help=help_text,
            format_func=lambda name: cards.literal(options[name]),
            on_change=on_change,
            **bound(key),
        )
    )
