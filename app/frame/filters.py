"""Filter chips of the sidebar: a menu for each of the user's columns. What they keep is part of the slice, so the field
above them, the address and saved views hold it."""

import math
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import streamlit as st

from app.address import SLICE, put
from app.ask import InputError, slices
from app.choice import Choice, column_faults, column_values, columns_of_slices
from app.components import cards
from app.components.controls import button
from app.components.refusals import attempt

CHIPS = 8  # columns with a chip; the others are chosen from a list
MORE = "more-columns"
LONGEST_LABEL = 28  # characters of a chip
STEPS = 200  # of a slider
Columns = slices.Columns


def draw(choice: Choice, expression: str) -> None:
    """Draw the chips below the slice's field; nothing if the data has no columns."""
    try:
        faults = column_faults(choice.last, choice.split)
        columns = columns_of_slices(choice.last, choice.split)
    except InputError:  # the page reports it
        return

    for fault in faults:
        cards.note(f"Columns are missing: {fault}")
    if not columns.own:
        return

    active = {name: chosen for name in columns.own if (chosen := slices.filter_of(expression, name, columns))}
    with st.container(horizontal=True, gap="xsmall", key="filters"):
        for name in _shown(columns, active):
            _chip(choice, columns, name, active.get(name, slices.Filter()), expression)

    rest = [name for name in columns.own if name not in _shown(columns, active)]
    if rest:
        literal = {name: cards.literal(name) for name in rest}
        st.selectbox(
            "More columns",
            rest,
            index=None,
            key=MORE,
            format_func=lambda name: literal.get(name, name),
            placeholder=f"{len(rest)} more columns",
            label_visibility="collapsed",
        )


def _shown(columns: Columns, active: Mapping[str, slices.Filter]) -> list[str]:
    """Return the columns with a chip: those that filter, the first others, and the one chosen from the list."""
    chosen = str(st.session_state.get(MORE) or "")
    order = sorted(columns.own, key=lambda name: columns.own[name].kind == "text")
    others = [name for name in order if name not in active][: max(0, CHIPS - len(active))]
    last = [chosen] if chosen in columns.own and chosen not in (*active, *others) else []
    return [*active, *others, *last]


def _chip(choice: Choice, columns: Columns, name: str, chosen: slices.Filter, expression: str) -> None:
    """Draw the menu of one column."""
    kind = columns.own[name].kind
    label = _label(name, chosen)
    key = f"filter-{name}"
    look: Any = "primary" if chosen else "secondary"
    chip = st.popover(cards.literal(label), type=look, key=f"chip-{name}", on_change="rerun")
    if not chip.open:
        return

    with chip:
        change = partial(_change, name, kind, key, expression, columns)
        if kind == "text":
            _put(key, chosen.labels[0] if chosen.labels else "")
            st.text_input(cards.literal(f"{name} contains"), key=key, on_change=change)
        elif kind in ("category", "tags"):
            _choose_labels(column_values(choice.last, choice.split, name), name, key, chosen, change)
        else:
            _choose_range(column_values(choice.last, choice.split, name), name, key, chosen, change)
        if chosen:
            clear = partial(put, SLICE, slices.with_filter(expression, name, columns, slices.Filter()))
            button("Clear filter", f"clear-{key}", "close", clear, type="tertiary")


def _label(name: str, chosen: slices.Filter) -> str:
    """Name a chip by its column and what it keeps."""
    if chosen.labels:
        kept = f": {', '.join(chosen.labels)}"
    elif chosen.low and chosen.high:
        kept = f": {chosen.low} – {chosen.high}"
    else:
        kept = f" ≥ {chosen.low}" * bool(chosen.low) + f" ≤ {chosen.high}" * bool(chosen.high)
    text = f"{name}{kept}".replace('"', "")
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _choose_labels(
    values: slices.Values, name: str, key: str, chosen: slices.Filter, change: partial[None]
) -> None:
    counts = values.labels
    options = list(dict.fromkeys([*chosen.labels, *counts]))
    _put(key, list(chosen.labels))
    st.multiselect(
        cards.literal(name),
        options,
        key=key,
        format_func=lambda label: f"{label} · {counts.get(label, 0):,}",
        on_change=change,
        placeholder="Choose values",
    )


def _choose_range(
    values: slices.Values, name: str, key: str, chosen: slices.Filter, change: partial[None]
) -> None:
    low, high, step = _ends(values)
    if low is None or low == high:
        cards.note("All values are equal." if low is not None else "No caption has a value.")
        return
    st.html(cards.bars_html(values.bars))
    least = slices.parsed_limit(chosen.low) if chosen.low else low
    most = slices.parsed_limit(chosen.high) if chosen.high else high
    inside = [min(max(limit, low), high) for limit in (least, most)]
    _put(key, (min(inside), max(inside)))
    st.slider(cards.literal(name), low, high, key=key, step=step, on_change=change)


def _ends(values: slices.Values) -> tuple[Any, Any, Any]:
    """Return the ends of a slider and its step: days, or numbers at multiples of a round step; None without values."""
    low = values.low
    high = values.high
    if isinstance(low, datetime):
        return low.date(), high.date(), None
    if low is None or low == high:
        return low, high, None
    step = slices.fitting_step(low, high, STEPS)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def _put(key: str, value: Any) -> None:
    """Set a control to what the slice says, before it is drawn."""
    if st.session_state.get(key) != value:
        st.session_state[key] = value


def _change(name: str, kind: str, key: str, expression: str, columns: Columns) -> None:
    """Put what a control keeps into the slice."""
    value = st.session_state[key]
    chosen = slices.Filter()
    if kind == "text":
        chosen = slices.Filter((value.strip(),)) if value.strip() else chosen
    elif kind in ("category", "tags"):
        chosen = slices.Filter(tuple(value))
    else:
        lowest, highest, _ = _ends(slices.values_of(columns.own[name]))
        low = slices.written_limit(value[0]) if value[0] > lowest else ""
        high = slices.written_limit(value[1]) if value[1] < highest else ""
        chosen = slices.Filter(low=low, high=high)

    def narrow() -> None:
        put(SLICE, slices.with_filter(expression, name, columns, chosen))

    attempt("The filter was not applied.", narrow)
