"""The pages there are, and the frame around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from app.backend import runs as backend
from app.ui import downloads

APP = Path(__file__).parents[1]
CHOSEN = "chosen-runs"
START = ("Start", "Demo training")
OVERVIEW = "Overview"


def page_list() -> list[st.Page]:
    """Every page; the start page is in sight while there is no run, or while one is being trained."""
    usable = any(run.usable for run in backend.runs())
    job = backend.job()
    training = job is not None and job.running
    return [
        st.Page(
            "pages/start.py",
            title=START[usable],
            icon=":material/play_circle:",
            default=not usable,
            visibility="visible" if training or not usable else "hidden",
        ),
        *([_overview(url_path="home", default=True, visibility="hidden")] if usable else []),
        _overview(url_path="overview"),
        st.Page("pages/diversity.py", title="Diversity", icon=":material/blur_on:"),
        st.Page("pages/weights.py", title="Weights", icon=":material/balance:"),
        st.Page("pages/similarity.py", title="Similarity", icon=":material/grid_on:"),
        st.Page("pages/joint.py", title="Joint space", icon=":material/scatter_plot:"),
        st.Page("pages/clusters.py", title="Clusters", icon=":material/workspaces:"),
        st.Page("pages/retrieval.py", title="Retrieval", icon=":material/image_search:"),
        st.Page("pages/concepts.py", title="Concepts", icon=":material/hub:"),
        st.Page("pages/train.py", title="Train", icon=":material/model_training:"),
    ]


def _overview(**place: Any) -> st.Page:
    """The overview stands at "/" when there is something to see, and always at "/overview"."""
    return st.Page("pages/overview.py", title=OVERVIEW, icon=":material/leaderboard:", **place)


def leave_home(page: st.Page, pages: list[st.Page]) -> None:
    """From "/" on to "/overview", where the sidebar marks the page; what the address asks for goes along."""
    if page.url_path == "" and page.title == OVERVIEW:
        shown = next(other for other in pages if other.url_path == "overview")
        asked = {key: st.query_params.get_all(key) for key in st.query_params}
        st.switch_page(shown, query_params=asked)


def configure() -> None:
    """Title, icon and width. An icon of our own: a Material one as favicon would be fetched from the internet."""
    st.set_page_config(page_title="CODER Lab", page_icon=APP / "icon.png", layout="wide")


def drawn() -> None:
    """Said by streamlit_app.py in every run: style and navigation are there."""
    st.session_state["framed"] = True
    st.session_state.pop("frame_awaited", None)
    downloads.begin()


def need() -> None:
    """Run once more, through streamlit_app.py, if it has not been run.

    When a link to a page is the first thing a fresh server is asked for, Streamlit 1.67 runs that file of pages/ alone.
    Calling st.navigation tells it that the pages are ours, and the next run goes through streamlit_app.py.
    """
    if st.session_state.pop("framed", False):
        return
    if st.session_state.get("frame_awaited"):
        st.error("Start the app with: streamlit run streamlit_app.py")
        st.stop()
    st.session_state["frame_awaited"] = True
    configure()
    st.navigation(page_list())
    st.rerun()
