"""The chosen runs, and widgets whose values live in the URL.

Every control of a page is bound to a query parameter of the same name (`bound`), so a copied link opens the same view.
Streamlit ignores and removes unknown values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.backend.runs import RunSummary

NO_RUN = "—"
_LINKED = "parameters-of-the-link"
REVIEWER = "reviewer"
NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?")


@dataclass(frozen=True)
class Choice:
    """The runs of the sidebar and the split: `first` is the baseline, `second` (if any) is the run in question, and
    `between` are up to four more beside them.

    `also` names all runs that the sidebar holds beside `first` and `second`, which links carry on: those `between`, and
    on a page about two runs and of runs without an evaluation those that the page does not show.
    `slice` is an expression that every page's tables are filtered by, "" for the whole split. Its clusters, ranks and
    diversity are those of `slice_run`, whichever run a page is about.
    """

    first: RunSummary
    second: RunSummary | None
    split: str
    slice: str = ""
    slice_run: RunSummary | None = None
    between: tuple[RunSummary, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def runs(self) -> list[RunSummary]:
        """One to six runs, the one in question last."""
        return [run for run in (self.first, *self.between, self.second) if run is not None]


def bound(key: str) -> dict[str, Any]:
    """Widget arguments that keep its value in the URL under `key`."""
    return {"key": key, "bind": "query-params"}


def bound_number(key: str) -> dict[str, Any]:
    """`bound` for a number, unless the URL holds no finite number: Streamlit 1.67 fails on an infinite one."""
    return bound(key) if NUMBER.fullmatch(st.query_params.get(key, "0")) else {"key": key}


def remember_link() -> None:
    """Keep which parameters the address had when this session began: a link sets them, a click inside the app later."""
    st.session_state.setdefault(_LINKED, tuple(st.query_params))


def linked() -> tuple[str, ...]:
    """The parameters of the address this session began with."""
    parameters: tuple[str, ...] = st.session_state.get(_LINKED, ())
    return parameters


def put(key: str, value: Any) -> None:
    """Set a bound widget from a callback."""
    st.session_state[key] = value


def theme() -> str | None:
    """ "light" or "dark", as the browser shows the page."""
    return st.context.theme.type


def reviewer_in_link() -> dict[str, str]:
    """The reviewer's name as a query parameter, where one was given: it follows from page to page."""
    name = st.session_state[REVIEWER] if REVIEWER in st.session_state else st.query_params.get(REVIEWER)
    return {REVIEWER: str(name)} if name else {}
