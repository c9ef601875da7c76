"""Long work on a page: offered, watched, cancelled. Its state is in files, so every tab shows the same."""

from dataclasses import dataclass

import streamlit as st

from app import jobs
from app.choice import attempt
from app.components import cards
from app.components.controls import button


@dataclass(frozen=True)
class Work:
    """Something that takes a while and is computed once.

    Args:
        name: of the job, with the key of its result. command: an argument list; the progress file is appended.
        label: of the button. note: what it is for and how long it takes.
    """

    name: str
    command: tuple[str, ...]
    label: str
    note: str


def show_work(item: Work, fault: str = "") -> None:
    """A button that starts it, or its progress. `fault`: what is wrong with the stored result."""
    job = jobs.current(item.name)
    if job is not None and job.running:
        _watch(item)
        return
    reason = jobs.how_it_ended(item.name)
    if fault:
        cards.empty("The stored result is damaged. Computing it again replaces it.", fault)
    elif reason:
        cards.empty("The last attempt did not finish.", reason)
    with st.container(horizontal=True, vertical_alignment="center"):
        label, start = cards.literal(item.label), (jobs.start_work, item.command, item.name)
        begin = (attempt, "It was not started.", *start)
        button(label, f"begin-{item.name}", "play_arrow", *begin, type="primary")
        cards.note(item.note)


@st.fragment(run_every="1s")
def _watch(item: Work) -> None:
    job = jobs.current(item.name)
    if job is None or not job.running:
        st.rerun()
    progress = (job.progress if job else None) or jobs.JobProgress(0.0, "starting")
    st.progress(progress.fraction)
    with st.container(horizontal=True, vertical_alignment="center"):
        help_text = "Nothing unfinished is stored."
        button("Cancel", f"cancel-{item.name}", "close", jobs.stop, item.name, help=help_text)
        cards.note(f"{100 * progress.fraction:.0f} % · {progress.phase}")
