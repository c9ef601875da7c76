"""Without any run: offer the demo pair, train it in a process of its own, show how far it is."""

from __future__ import annotations

import streamlit as st

from app.backend import runs as backend
from app.ui import cards, frame
from app.ui.progress import latest, steps_done

frame.need()
job = backend.job()
under_way = job is not None and job.running
trained = not under_way and any(run.usable for run in backend.runs())
TITLES = {
    (True, False): "How far is the demo?",
    (False, True): "What would you like to see first?",
    (False, False): "Nothing is trained yet. Shall we start with the demo?",
}
THE_DEMO = (
    "Two small models learn to match about a thousand drawn scenes with their captions: a baseline, and CODER, which "
    "asks how ambiguous each sample is. It takes a few minutes on two cores; then every page has something to show."
)
THE_PAGES = "There are trained runs. The overview says how good they are; the sidebar leads to every page."
cards.question(TITLES[under_way, trained], THE_PAGES if trained else THE_DEMO)


def begin() -> None:
    backend.start_demo()


@st.fragment(run_every="2s")
def watch() -> None:
    job = backend.job()
    summaries = backend.runs()
    if job is None or not job.running:
        st.rerun()
    started = [run for run in summaries if run.status]
    if not started:
        st.html('<p class="cl-how">Preparing the pictures and their features…</p>')
        st.progress(0.0)
    for run in started:
        share, text = steps_done(run)
        cards.label(run.name)
        st.progress(share)
        st.html(f'<p class="cl-how cl-small">{text}{latest(backend.epochs(run))}</p>')
    st.button("Stop", on_click=backend.stop_job, help="Training saves and leaves; nothing is lost.")
    with st.expander("What the program prints"):
        st.code(job.output if job else "", language=None)


if under_way:
    watch()
elif trained:
    st.page_link("pages/overview.py", label="Open the overview", icon=":material/leaderboard:")
    st.page_link("pages/train.py", label="Train a run of your own", icon=":material/model_training:")
else:
    if job is not None:
        cards.empty(
            "Training ended without a finished run.", "The program's last words are below; start it again after."
        )
        st.code(job.output, language=None)
    st.button("Train the demo pair", type="primary", icon=":material/play_circle:", on_click=begin)
    damaged = [(run.name, run.fault) for run in backend.runs() if run.fault]
    if damaged:
        cards.faults(damaged)
    st.html(
        '<p class="cl-how cl-small">Your own data: <code>python -m coder_core.check_data PATH</code>, then '
        "<code>python -m coder_core.train --data PATH --name NAME</code>; the run appears here.</p>"
    )
    st.page_link("pages/train.py", label="Train a run of your own", icon=":material/model_training:")
