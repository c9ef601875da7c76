"""The pages and the frame around them."""

from pathlib import Path

import streamlit as st

from app import jobs
from app.address import FORMER, remember_link
from app.ask import all_runs
from app.components import downloads
from app.frame import PAGES

APP = Path(__file__).parents[1]
CHOSEN = "chosen-runs"
READY = "frame-ready"
AWAITED = "frame-awaited"
PROBLEMS = "problems-of-the-link"
START = ("Start", "Demo training")  # titles without and with a run to show
APP_TITLE = "CODER Lab"
_HISTORY = Path(__file__).with_name("history.js").read_text("utf-8")


def page_list() -> dict[str, st.Page]:
    """Return all pages by name; the first one has the name "". The start page is visible while there is no run, or
    while the demo is training."""
    usable = any(run.usable for run in all_runs())
    job = jobs.current()
    hidden = () if not usable or (job is not None and job.running) else ("start",)

    def page(name: str, path: str, *, default: bool = False) -> st.Page:
        title = PAGES[name]["title"]
        icon = f":material/{PAGES[name]['icon']}:"
        title = START[usable] if name == "start" else title
        return st.Page(
            f"pages/{name}.py",
            title=title,
            icon=icon,
            url_path=path,
            default=default,
            visibility="hidden" if default or name in hidden else "visible",
        )

    first = page("overview" if usable else "start", "home", default=True)
    return {"": first, **{name: page(name, name) for name in PAGES}}


def configure() -> None:
    """Set title, icon and width, and remember the address that the session begins with. The icon is a file, because a
    Material icon as favicon would be fetched from the internet."""
    remember_link()
    st.set_page_config(page_title=APP_TITLE, page_icon=APP / "icon.png", layout="wide")


def mark_ready() -> None:
    """Record that streamlit_app.py has drawn style and navigation in this script run."""
    st.session_state[READY] = True
    st.session_state.pop(AWAITED, None)


def require() -> None:
    """Rerun through streamlit_app.py if this script run did not go through it: if a link to a page is the first request
    to a new server, Streamlit 1.67 runs only that file of pages/. st.navigation registers the pages."""
    if st.session_state.pop(READY, False):
        return
    if st.session_state.get(AWAITED):
        st.error("Start the app with: streamlit run streamlit_app.py")
        st.stop()
    st.session_state[AWAITED] = True
    configure()
    st.navigation([*page_list().values()], position="hidden")
    st.rerun()


def one_step() -> None:
    """Let a link change the page without loading a document, as one step of the browser's history; draw the page again
    when the theme changes."""
    data = {
        "pages": [f"/{name}" for name in PAGES],
        "retained": [downloads.VALUES, downloads.FORMAT],
        "former": FORMER,
        "theme": st.context.theme.type or "light",
    }
    component = st.components.v2.component("coder-history", js=_HISTORY)
    component(key="history", data=data, on_theme_change=lambda: None, height=1)
