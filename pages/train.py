"""What is being trained, and what next?"""

from __future__ import annotations

import streamlit as st

from app.backend import training as backend_training
from app.ui import cards, sidebar
from app.ui.state import bound, put
from app.views import training as train_view
from app.views import training_form as train_form

sidebar.choose()
cards.question(
    "What is being trained, and what next?",
    "A run trains in a process of its own: it goes on when this page is closed, and every tab shows the same. A loss "
    "that falls while R@sum on dev rises is healthy; when R@sum falls for several epochs, stop.",
)
fault = st.session_state.pop("train-fault", "")
if fault:
    cards.empty("It was not started.", fault)
everything = backend_training.watched()
names = [one.name for one in everything]
alive = [one.name for one in everything if one.alive]
with st.expander("Start a run", expanded=not alive, icon=":material/add:"):
    train_form.show()
cards.heading("Runs", "Those that train now stand first.")
if not names:
    cards.empty("Nothing has been trained here yet.", "Choose a preset above and start it.")
else:
    if st.session_state.get("watch") not in (None, *names):
        put("watch", names[0])
    if len(alive) > 1:
        cards.note(f"{len(alive)} runs share this machine’s processors: {', '.join(alive)}.")
    name = st.selectbox("Run to watch", names, **bound("watch"), width=320)
    train_view.show(name)
