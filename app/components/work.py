"""Long work on a page: offered, watched, cancelled. Its state is in files, so every tab shows the same."""

import streamlit as st

from app import jobs
from app.choice import attempt
from app.components import cards
from app.components.controls import button


def show_work(name: str, command: tuple[str, ...], label: str, note: str, fault: str = "") -> None:
    """A button that starts something that is computed once, or its progress.

    Args:
        name: of the job, with the key of its result. command: an argument list; the progress file is appended.
        label: of the button. note: what it is for and how long it takes. fault: of the stored result.
    """
    job = jobs.current(name)
    if job is not None and job.running:
        _watch(name)
        return
    reason = jobs.how_it_ended(name)
    if fault:
        cards.empty("The stored result is damaged. Computing it again replaces it.", fault)
    elif reason:
        cards.empty("The last attempt did not finish.", reason)
    with st.container(horizontal=True, vertical_alignment="center"):
        begin = (attempt, "It was not started.", jobs.start_work, command, name)
        button(cards.literal(label), f"begin-{name}", "play_arrow", *begin, type="primary")
        cards.note(note)


@st.fragment(run_every="1s")
def _watch(name: str) -> None:
    job = jobs.current(name)
    if job is None or not job.running:
        st.rerun()
    progress = (job.progress if job else None) or jobs.JobProgress(0.0, "starting")
    st.progress(progress.fraction)
    with st.container(horizontal=True, vertical_alignment="center"):
        help_text = "Nothing unfinished is stored."
        button("Cancel", f"cancel-{name}", "close", jobs.stop, name, help=help_text)
        cards.note(f"{100 * progress.fraction:.0f} % · {progress.phase}")
