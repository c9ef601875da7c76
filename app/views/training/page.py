"""Train page: start, watch, stop and resume runs."""

import streamlit as st

from app import training
from app.choice import bound, put
from app.components import cards
from app.views.training import show_training
from app.views.training.form import show_form


def show() -> None:
    cards.question("Which run is training, and what comes next?")
    cards.refusal()
    entries = training.training_runs()
    names = [entry.name for entry in entries]
    alive = [entry.name for entry in entries if entry.alive]
    with st.expander("Start a run", expanded=not alive, icon=":material/add:"):
        show_form()
    cards.heading("Runs", "Running ones first.")
    if not names:
        cards.empty("Nothing has been trained here yet.", "Choose a preset above and start it.")
    else:
        if st.session_state.get("watch") not in (None, *names):
            put("watch", names[0])
        if len(alive) > 1:
            cards.note(f"{len(alive)} runs share the processors of this machine: {', '.join(alive)}.")
        show_training(st.selectbox("Run", names, **bound("watch"), width=320))
