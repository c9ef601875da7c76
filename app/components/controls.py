"""Controls that several pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import streamlit as st

from app.ask import Modality
from app.choice import bound, bound_number, opened, put
from app.components import cards
from app.components.selection import neighbour, next_failure

Option = TypeVar("Option", bound=str)
MODALITIES: dict[Modality, str] = {"text": "Captions", "image": "Images"}


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
    opened(key, order)
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


def choose_one(
    label: str,
    options: Mapping[Option, str],
    key: str,
    help_text: str | None = None,
    on_change: Callable[[], None] | None = None,
) -> Option:
    """One of a few options, as buttons: value → label. The URL holds the label as it is escaped for Streamlit."""
    names = list(options)
    return cast(
        Option,
        st.segmented_control(
            label,
            names,
            default=names[0],
            required=True,
            help=help_text,
            format_func=lambda name: cards.literal(options[name]),
            on_change=on_change,
            **bound(key),
        ),
    )
