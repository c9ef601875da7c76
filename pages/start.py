"""Without any run: offer to train the demo, and show its progress."""

import streamlit as st

from app import jobs
from app.ask import all_runs, run_faults
from app.choice import attempt
from app.components import cards
from app.components.controls import button
from app.frame import pages as frame
from app.views.training import NOT_STARTED
from app.views.training.demo import show_demo

frame.require()
job = jobs.current()
running = job is not None and job.running
trained = not running and any(run.usable for run in all_runs())
HAVE_RUNS, HAVE_NONE = "What would you like to see first?", "Nothing is trained yet. Start with the demo?"
THE_DEMO = (
    "Three small models learn to match about a thousand drawn scenes with their captions: a baseline, the whole of "
    "CODER with concepts and prototypes, and one whose sample weights fill the Weights page. This takes a few minutes "
    "on two cores; then every page has data to show."
)
THE_PAGES = "There are trained runs. These pages answer what people ask first; the sidebar leads to all."
FIRST = {  # page → its question and icon
    "overview": ("Which run is better, and is it noise?", "leaderboard"),
    "retrieval": ("Which queries fail, and is the answer wrong?", "image_search"),
    "diversity": ("Which captions are ambiguous?", "blur_on"),
    "joint": ("Do images and texts share one space?", "scatter_plot"),
    "data": ("What is wrong with the data?", "fact_check"),
    "train": ("Train a run of your own", "model_training"),
}
title = "How far is the demo?" if running else HAVE_RUNS if trained else HAVE_NONE
cards.question(title, THE_PAGES if trained else THE_DEMO)


@st.fragment(run_every="2s")
def watch() -> None:
    job = jobs.current()
    if job is None or not job.running:
        st.rerun()
    show_demo(job)
    st.button("Stop", on_click=jobs.stop, help="It saves and exits; nothing is lost.")
    with st.expander("Output of the program"):
        st.code(job.output, language=None)


if running:
    watch()
elif trained:
    for name, (label, icon) in FIRST.items():
        st.page_link(f"pages/{name}.py", label=label, icon=f":material/{icon}:")
else:
    if job is not None:
        fix = "The output below says why. Then start it again."
        cards.empty("Training ended without a finished run.", fix)
        st.code(job.output, language=None)
    start = (attempt, NOT_STARTED, jobs.start_demo)
    button("Train the demo", "train-demo", "play_circle", *start, type="primary")
    cards.refusal()
    cards.faults(run_faults())
    st.html(
        '<p class="cl-how cl-small">Your own data: <code>python -m coder_core.check_data PATH</code>, then '
        "<code>python -m coder_core.train --data PATH --name NAME</code>; the run appears here.</p>"
    )
    st.page_link("pages/train.py", label="Train a run of your own", icon=":material/model_training:")
