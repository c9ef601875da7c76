"""The pages and the frame around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import streamlit as st

from app import training
from app.ask import all_runs
from app.choice import remember_link
from app.components import downloads, events

APP = Path(__file__).parents[1]
CHOSEN = "chosen-runs"
START = ("Start", "Demo training")  # without and with a run to look at
OVERVIEW = "Overview"
APP_TITLE = "CODER Lab"


def page_list() -> list[st.Page]:
    """All pages; the start page is visible while there is no run, or while the demo is training."""
    usable = any(run.usable for run in all_runs())
    job = training.demo_job()
    demo_runs = job is not None and job.running
    start: dict[str, Any] = {"title": START[usable], "icon": ":material/play_circle:"}
    overview: dict[str, Any] = {"title": OVERVIEW, "icon": ":material/leaderboard:"}
    home: dict[str, Any] = {"url_path": "home", "default": True, "visibility": "hidden"}
    shown: Literal["visible", "hidden"] = "visible" if demo_runs or not usable else "hidden"
    return [
        st.Page(
            "pages/overview.py" if usable else "pages/start.py", **(overview if usable else start), **home
        ),
        st.Page("pages/start.py", **start, url_path="start", visibility=shown),
        st.Page("pages/overview.py", **overview, url_path="overview"),
        st.Page("pages/diversity.py", title="Diversity", icon=":material/blur_on:"),
        st.Page("pages/weights.py", title="Weights", icon=":material/balance:"),
        st.Page("pages/similarity.py", title="Similarity", icon=":material/grid_on:"),
        st.Page("pages/joint.py", title="Joint space", icon=":material/scatter_plot:"),
        st.Page("pages/clusters.py", title="Clusters", icon=":material/workspaces:"),
        st.Page("pages/retrieval.py", title="Retrieval", icon=":material/image_search:"),
        st.Page("pages/slices.py", title="Slices", icon=":material/filter_alt:"),
        st.Page("pages/concepts.py", title="Concepts", icon=":material/hub:"),
        st.Page("pages/data.py", title="Data", icon=":material/fact_check:"),
        st.Page("pages/reviews.py", title="Reviews", icon=":material/rate_review:"),
        st.Page("pages/train.py", title="Train", icon=":material/model_training:"),
    ]


def configure() -> None:
    """Title, icon and width; the address a session begins with is kept.

    The icon is a file: a Material icon as favicon would be fetched from the internet.
    """
    remember_link()
    st.set_page_config(page_title=APP_TITLE, page_icon=APP / "icon.png", layout="wide")


def mark_ready() -> None:
    """Record that streamlit_app.py has drawn style and navigation in this script run."""
    st.session_state["frame_ready"] = True
    st.session_state.pop("frame_awaited", None)
    downloads.begin()
    events.begin()


def require() -> None:
    """Rerun through streamlit_app.py if this script run did not go through it.

    When a link to a page is the first request to a fresh server, Streamlit 1.67 runs that file of pages/ alone.
    st.navigation registers the pages, and the rerun goes through streamlit_app.py.
    """
    if st.session_state.pop("frame_ready", False):
        return
    if st.session_state.get("frame_awaited"):
        st.error("Start the app with: streamlit run streamlit_app.py")
        st.stop()
    st.session_state["frame_awaited"] = True
    configure()
    st.navigation(page_list(), position="hidden")
    st.rerun()
