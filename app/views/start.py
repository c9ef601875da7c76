"""The Start page: without any run offer to train the demo, and show its progress; else lead to the pages."""

import streamlit as st

from app import jobs
from app.ask import all_runs, run_faults
from app.choice import attempt
from app.components import cards
from app.components.controls import button
from app.components.links import page_link
from app.views.training import NOT_STARTED
from app.views.training.demo import show_demo

FIRST = cards.HOW_TO_READ["first pages"]  # page → the question that it answers


def show() -> None:
    job = jobs.current()
    if job is not None and job.running:
        cards.question("How far is the demo?", cards.HOW_TO_READ["the demo"])
        watch()
    elif any(run.usable for run in all_runs()):
        cards.question("What would you like to see first?")
        for name, label in FIRST.items():
            page_link(name, label)
    else:
        cards.question("Nothing is trained yet. Start with the demo?", cards.HOW_TO_READ["the demo"])
        if job is not None:
            fix = "The output below says why. Then start it again."
            cards.empty("Training ended without a finished run.", fix)
            st.code(job.output, language=None)
        command = jobs.module_command(jobs.TRAIN, "--root", str(jobs.runs_root()))
        start = (attempt, NOT_STARTED, jobs.start_work, command, jobs.TRAINING)
        button("Train the demo", "train-demo", "play_circle", *start, type="primary")
        cards.refusal()
        cards.faults(run_faults())
        st.html(
            '<p class="cl-how cl-small">Your own data: <code>python -m coder_core.check_data PATH</code>, then '
            "<code>python -m coder_core.train --data PATH --name NAME</code>; the run appears here.</p>"
        )
        page_link("train", FIRST["train"])


@st.fragment(run_every="2s")
def watch() -> None:
    job = jobs.current()
    if job is None or not job.running:
        st.rerun()
    show_demo(job)
    st.button("Stop", on_click=jobs.stop, help="It saves and exits; nothing is lost.")
    with st.expander("Output of the program"):
        st.code(job.output, language=None)
