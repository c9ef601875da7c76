"""Save the open view under a name; open or remove a saved one."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import streamlit as st

from app.backend import saved_views
from app.backend.runs import InputError
from app.ui import cards

NAME, REFUSED = "view-name", "view-refused"


def draw(page: str) -> None:
    """A popover of the sidebar.

    Args:
        page: the path of the open page, in the address.
    """
    with st.sidebar.popover("Saved views", icon=":material/bookmark:", width="stretch"):
        st.text_input("Save this view as", key=NAME, max_chars=saved_views.LONGEST_NAME)
        st.button("Save", on_click=lambda: _save(page), key="save-view")
        if refused := st.session_state.pop(REFUSED, ""):
            cards.note(refused)
        try:
            views = saved_views.saved()
        except InputError as error:
            cards.note(str(error))
            return
        for number, (name, address) in enumerate(views.items()):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.html(cards.links_html([(name, address)]))
                st.button(
                    "Remove",
                    key=f"remove-view-{number}",
                    on_click=lambda name=name: _try(saved_views.remove, name),
                )


def _save(page: str) -> None:
    values = [(key, value) for key in st.query_params for value in st.query_params.get_all(key)]
    address = f"{page}?{urlencode(values)}"
    _try(saved_views.save, str(st.session_state.get(NAME, "")).strip(), address)
    if REFUSED not in st.session_state:
        st.session_state[NAME] = ""


def _try(change: Callable[..., None], *values: str) -> None:
    """Call, and keep what it refuses for the next drawing."""
    try:
        change(*values)
    except (InputError, OSError) as error:
        st.session_state[REFUSED] = str(error)
