"""CODER Lab: see why image-text retrieval fails and what diversity changes. `streamlit run streamlit_app.py`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import backend, charts, state

APP = Path(__file__).parent / "app"

st.set_page_config(page_title="CODER Lab", page_icon=APP / "icon.png", layout="wide")
st.html(APP / "style.css")
colours = charts.tone(st.context.theme.type)
st.html(f"<style>:root {{ --cl-good: {colours.good}; --cl-bad: {colours.bad}; }}</style>")
st.logo(APP / "logo.svg", size="large", icon_image=APP / "icon.png")

usable = any(run.usable for run in backend.runs())
job = backend.job()
training = job is not None and job.running
pages = [
    st.Page(
        "pages/start.py", title="Demo training" if usable else "Start", icon=":material/play_circle:",
        default=not usable, visibility="visible" if training or not usable else "hidden",
    ),
    st.Page("pages/overview.py", title="Overview", icon=":material/leaderboard:", default=usable),
    st.Page("pages/diversity.py", title="Diversity", icon=":material/blur_on:"),
    st.Page("pages/retrieval.py", title="Retrieval", icon=":material/image_search:"),
]  # fmt: skip
state.framed()
st.navigation(pages).run()
