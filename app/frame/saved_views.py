"""Save the open view under a name; open or remove a saved one."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from app.ask import InputError, runs_root, saved_views
from app.choice import attempt
from app.components import cards

NAME = "view-name"


def draw(page: str) -> None:
    """A popover of the sidebar.

    Args:
        page: the path of the open page, in the address.
    """
    with st.sidebar.popover("Saved views", icon=":material/bookmark:", width="stretch"):
        st.text_input("Save this view as", key=NAME, max_chars=saved_views.LONGEST_NAME)
        st.button("Save", on_click=attempt, args=("The view was not saved.", _save, page), key="save-view")
        try:
            views = saved_views.saved_views(runs_root())
        except InputError as error:
            cards.note(str(error))
            return
        for number, (name, address) in enumerate(views.items()):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.html(cards.links_html([(name, address)]))
                st.button(
                    "Remove",
                    key=f"remove-view-{number}",
                    on_click=attempt,
                    args=("The view was not removed.", saved_views.remove_view, runs_root(), name),
                )


def _save(page: str) -> None:
    values = [(key, value) for key in st.query_params for value in st.query_params.get_all(key)]
    name = str(st.session_state.get(NAME, "")).strip()
    saved_views.save_view(runs_root(), name, f"{page}?{urlencode(values)}")
    st.session_state[NAME] = ""
