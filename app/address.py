"""The address of a page: the values that it holds, and those that the widgets of the page hold.

Only this module moves values between Streamlit's session state and the address. A control is bound to the parameter of
its own name (`bound`), so a copied link opens the same view; Streamlit ignores and removes unknown values. `followed`
is for values that stay in the address even if they are defaults or unknown, and `set_value` for values without a
control.

A control's name is unique over all pages: Streamlit 1.67 removes what is bound on one page from the address of the
next one, even if that page has a control of this name. `FORMER` names the controls that once shared a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

T = TypeVar("T")
Values = dict[str, list[str]]  # parameter → values
RUNS = "run"
SPLIT = "split"
SLICE = "slice"
REVIEWER = "reviewer"
MOST_RUNS = 6
NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?")
# In older addresses: the last run ("—" for none), and those between
FORMER_RUNS = ("versus", "also", "curves")
# Page → former name of a control → its name
FORMER: dict[str, dict[str, str]] = {
    "retrieval": {"map": "heat-map"},
    "diversity": {
        "words": "anchor-words",
        "seed": "anchor-seed",
        "heat": "anchor-heat",
        "pair": "anchor-pair",
        "map": "anchor-heat-map",
        "word": "anchor-word",
    },
    "similarity": {
        "anchors": "scaling-anchors",
        "mu": "scaling-mu",
        "gamma": "scaling-gamma",
        "epsilon": "scaling-epsilon",
    },
    "joint": {"seed": "map-seed"},
    "clusters": {"seed": "cluster-seed", "k": "cluster-count"},
    "slices": {"at": "slice-at", "kind": "slice-kind"},
    "concepts": {"caption": "concept-caption"},
    "data": {"judge": "scorer"},
    "train": {"judges": "scorers"},
    "reviews": {"words": "verdict-words", "by": "verdict-by"},
}
_LINKED = "parameters-of-the-link"
_SEEN = "of-the-url"


class Bound(TypedDict, total=False):
    """Arguments of a widget whose value the address holds."""

    key: str
    bind: Literal["query-params"]


def bound(key: str) -> Bound:
    """Return the widget arguments that keep its value in the address under `key`."""
    return {"key": key, "bind": "query-params"}


def bound_number(key: str) -> Bound:
    """Return `bound` for a number, but unbound if the address has one that is not finite, on which Streamlit fails."""
    return bound(key) if NUMBER.fullmatch(st.query_params.get(key, "0")) else {"key": key}


def put(key: str, value: Any) -> None:
    """Set a bound widget from a callback."""
    st.session_state[key] = value


def put_all(values: Mapping[str, Any]) -> None:
    """Set several bound widgets from a callback."""
    st.session_state.update(values)


def value_of(key: str, default: str = "") -> str:
    """Return the value that a widget has or, before it is drawn, will have: after a step in the tab's history that of the
    address, as if the document had been loaded."""
    named = str(st.query_params.get(key, default))
    return named if has_stepped() else str(st.session_state.get(key, named))


def has_stepped() -> bool:
    """True if a step in the tab's history asked for this script run: Back, Forward, or a link, see frame/history.js."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation


def followed(key: str, named: T | None, default: T, accept: Callable[[T], T] = lambda value: value) -> T:
    """Return the value of a widget that is not bound, because Streamlit removes bound defaults and unknown values from
    the address. It is that of the address, `named` (None: none), or the widget's, whichever changed since the last
    script run. An old default that neither a link nor a person set becomes the new `default`. `accept` makes the value
    valid."""
    seen = f"{key}-{_SEEN}"
    usual = f"{key}-default"
    before = st.session_state.get(usual, default)
    value = st.session_state.get(key, st.session_state.get(seen, default))
    if named is not None and named != st.session_state.get(seen, default):
        value = named
    elif before != default and value == before and key not in linked():
        value = default
    value = accept(value)
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    st.session_state.update({seen: value, usual: default})
    return value


def set_value(key: str, value: str) -> None:
    """Put a value without a widget into the address; "" removes it."""
    if value:
        st.query_params[key] = value
    else:
        st.query_params.pop(key, None)


def set_values(values: Mapping[str, str | list[str]], without: Sequence[str]) -> None:
    """Put the frame's values into the address, and remove the parameters `without` a value."""
    lists = {key: [value] if isinstance(value, str) else value for key, value in values.items()}
    if any(st.query_params.get_all(key) != texts for key, texts in lists.items()):
        st.query_params.update(values)
    for key in without:
        if key in st.query_params and key not in values:
            del st.query_params[key]


def remember_link() -> None:
    """Keep the parameters that the address had when this session began; later ones come from clicks in the app."""
    st.session_state.setdefault(_LINKED, tuple(st.query_params))


def linked() -> tuple[str, ...]:
    """Return the parameters of the address that this session began with."""
    return tuple(st.session_state.get(_LINKED, ()))


def reviewer_name() -> str:
    """Return the name in the reviewer's field; on pages without the field, for which Streamlit forgets its value, the one
    that `followed` has seen last; "" without one."""
    return str(st.session_state.get(REVIEWER, st.session_state.get(f"{REVIEWER}-{_SEEN}", "")))


def reviewer_link() -> dict[str, str]:
    """Return the reviewer's name as a query parameter, if one was given, so that links between pages keep it."""
    name = reviewer_name()
    return {REVIEWER: name} if name else {}


def named_runs(values: Callable[[str], Sequence[str]], usual: Sequence[str]) -> list[str]:
    """Return the runs that an address names, baseline first; [] if it names none. `values` returns the values of one of
    its parameters. If an older address names only other runs, the usual runs precede them."""
    runs, last, also, curves = (list(values(key)) for key in (RUNS, *FORMER_RUNS))
    if not any((*runs, *last, *also, *curves)):
        return []
    runs = runs if any(runs) else list(usual[: 1 if last else 2])
    between = [name for name in also or curves if name not in (*runs, *last)]
    names = [*runs[:1], *between, *runs[1:], *last]
    return [name for name in dict.fromkeys(names) if name not in ("", "—")][:MOST_RUNS]


def renamed(page: str, values: Values) -> Values:
    """Return the parameters of a page's address with the present names of its controls."""
    names = FORMER.get(page, {})
    return {names.get(key, key): texts for key, texts in values.items()}
