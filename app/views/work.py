"""Long work on a page: offered, watched, cancelled. Its state lies in files, so every tab shows the same."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app.backend import jobs
from app.backend import runs as backend
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
    job = jobs.current(work.name)
    if job is not None and job.running:
        _watch(work)
        return
    ended = jobs.how_it_ended(work.name)
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
        jobs.start_work(work.command, work.name)
    except (OSError, backend.InputError) as error:
        st.session_state["work-fault"] = str(error)


@st.fragment(run_every="1s")
def _watch(work: Work) -> None:
    job = jobs.current(work.name)
    if job is None or not job.running:
        st.rerun()
    progress = (job.progress if job else None) or jobs.Progress(0.0, "starting")
    st.progress(progress.fraction)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Cancel", key=f"cancel-{work.name}", icon=":material/close:", on_click=jobs.stop, args=(work.name,),
            help="Nothing half-finished is kept.",
        )  # fmt: skip
        cards.note(f"{100 * progress.fraction:.0f} % · {progress.phase}")
