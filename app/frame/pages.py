"""The pages and the frame around them."""

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.runtime.state.query_params import QueryParams

from app import jobs
from app.ask import all_runs
from app.choice import remember_link
from app.components import downloads, events

APP = Path(__file__).parents[1]
CHOSEN = "chosen-runs"
START = ("Start", "Demo training")  # without and with a run to look at
PAGES = {  # file → title and icon
    "overview": ("Overview", "leaderboard"),
    "retrieval": ("Retrieval", "image_search"),
    "diversity": ("Diversity", "blur_on"),
    "similarity": ("Similarity", "grid_on"),
    "joint": ("Joint space", "scatter_plot"),
    "clusters": ("Clusters", "workspaces"),
    "slices": ("Slices", "filter_alt"),
    "data": ("Data", "fact_check"),
    "reviews": ("Reviews", "rate_review"),
    "train": ("Train", "model_training"),
    "weights": ("Weights", "balance"),
    "concepts": ("Concepts", "hub"),
}
TABS = (
    ("diversity", "similarity"),
    ("joint", "clusters"),
    ("data", "reviews"),
)  # one entry of the sidebar each
NEEDED = {"weights": "weighting", "concepts": "concepts"}  # the entry is there if a run has the document
APP_TITLE = "CODER Lab"
_HISTORY = Path(__file__).with_name("history.js").read_text("utf-8")


def page_list() -> list[st.Page]:
    """All pages; the start page is visible while there is no run, or while the demo is training."""
    usable = any(run.usable for run in all_runs())
    job = jobs.current()
    titles = {**PAGES, "start": (START[usable], "play_circle")}
    home = "overview" if usable else "start"

    def page(name: str, **more: Any) -> st.Page:
        title, icon = titles[name]
        return st.Page(f"pages/{name}.py", title=title, icon=f":material/{icon}:", **more)

    shown = "visible" if not usable or (job is not None and job.running) else "hidden"
    return [
        page(home, url_path="home", default=True, visibility="hidden"),
        page("start", url_path="start", visibility=shown),
        *(page(name, url_path=name) for name in PAGES),
    ]


def tabs(name: str) -> tuple[str, ...]:
    """The pages that share an entry of the sidebar with one, itself included."""
    return next((pair for pair in TABS if name in pair), (name,))


def configure() -> None:
    """Title, icon and width; the address a session begins with is kept. The icon is a file: a Material icon as favicon
    would be fetched from the internet."""
    remember_link()
    st.set_page_config(page_title=APP_TITLE, page_icon=APP / "icon.png", layout="wide")


def mark_ready() -> None:
    """Record that streamlit_app.py has drawn style and navigation in this script run."""
    st.session_state["frame_ready"] = True
    st.session_state.pop("frame_awaited", None)
    downloads.begin()
    events.begin()


def one_step() -> None:
    """Let a link change the page without loading a document, as one step of the browser's history."""
    data = {
        "pages": [f"/{name}" for name in ("start", *PAGES)],
        "retained": [downloads.VALUES, downloads.FORMAT],
    }
    st.components.v2.component("coder-history", js=_HISTORY)(key="history", data=data, height=1)


def _leave_page(parameters: QueryParams, address: str, pages: set[str] | None = None) -> None:
    """Forget the controls of the page that is left: Streamlit 1.67 removes parameters of their names from the address
    of the next page, also where it has such a control."""
    for control in [*parameters._bindings_by_widget] if pages is not None else []:
        parameters.unbind_widget(control)
    _read_address(parameters, address)


_read_address = QueryParams.populate_from_query_string
QueryParams.populate_from_query_string = _leave_page  # type: ignore[assignment, method-assign]


def require() -> None:
    """Rerun through streamlit_app.py if this script run did not go through it: when a link to a page is the first
    request to a fresh server, Streamlit 1.67 runs that file of pages/ alone. st.navigation registers the pages."""
    if st.session_state.pop("frame_ready", False):
        return
    if st.session_state.get("frame_awaited"):
        st.error("Start the app with: streamlit run streamlit_app.py")
        st.stop()
    st.session_state["frame_awaited"] = True
    configure()
    st.navigation(page_list(), position="hidden")
    st.rerun()
