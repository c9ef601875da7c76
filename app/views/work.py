"""Long work on a page: offered, watched, cancelled. Its state lies in files, so every tab shows the same."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app.backend import runs as backend
from app.backend import work as backend_work
from app.ui import cards


@dataclass(frozen=True)
class Work:
    """Something that takes a while and is computed once.

    Args:
        name: of the job, with the key of its result. command: an argument list; the progress file is added.
        offer: on the button. about: what it is for and how long it takes.
    """

    name: str
    command: tuple[str, ...]
    offer: str
    about: str


def show(work: Work, fault: str = "") -> None:
    """The offer, or how far it is. `fault`: what is wrong with the result that was there."""
    if backend_work.running(work.name):
        _watch(work)
        return
    ended = backend_work.how_it_ended(work.name)
    if fault:
        cards.empty("The result that was kept is damaged; computing it again replaces it.", fault)
    elif ended:
        cards.empty("The last attempt did not finish.", ended)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            work.offer, key=f"begin-{work.name}", type="primary", icon=":material/play_arrow:", on_click=_begin,
            args=(work,),
        )  # fmt: skip
        cards.note(work.about)


def _begin(work: Work) -> None:
    try:
        backend_work.start(work.name, work.command)
    except (OSError, backend.InputError) as error:
        st.session_state["work-fault"] = str(error)


@st.fragment(run_every="1s")
def _watch(work: Work) -> None:
    if not backend_work.running(work.name):
        st.rerun()
    found = backend_work.progress(work.name)
    phase = found.phase if found else "starting"
    st.progress(found.fraction if found else 0.0)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Cancel", key=f"cancel-{work.name}", icon=":material/close:", on_click=backend_work.stop, args=(work.name,),
            help="Nothing half-finished is kept.",
        )  # fmt: skip
        cards.note(f"{100 * (found.fraction if found else 0):.0f} % · {phase}")
