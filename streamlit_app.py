"""CODER Lab: see why image-text retrieval fails and what diversity changes. `streamlit run streamlit_app.py`."""

from __future__ import annotations

import streamlit as st

from app import charts, downloads, frame

frame.configure()
st.html(frame.APP / "style.css")
colours = charts.tone(st.context.theme.type)
st.html(f"<style>:root {{ --cl-good: {colours.good}; --cl-bad: {colours.bad}; }}</style>")
st.logo(frame.APP / "logo.svg", size="large", icon_image=frame.APP / "icon.png")

frame.drawn()
st.navigation(frame.page_list()).run()
downloads.figures()
