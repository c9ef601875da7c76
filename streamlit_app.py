"""CODER Lab: see why image-text retrieval fails, and the effect of diversity. `streamlit run streamlit_app.py`.

`streamlit run` finds `app` and serves it; the server then runs this same file as the script of every page view.
"""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.starlette import App

from app.frame.guard import Guard
from app.frame.map_routes import ROUTES
from app.frame.server import Addresses, prepare
from coder_core.console.access import read_access
from coder_core.console.runner import tune_environment

tune_environment()  # before torch loads
access = read_access()
GUARDS = [Middleware(Guard, hosts=access.hosts, token=access.token), Middleware(Addresses)]
app = App(Path(__file__).name, lifespan=prepare, routes=ROUTES, middleware=GUARDS)


def draw() -> None:
    """Draw the frame, and in it the requested page."""
    from app import judging
    from app.components import downloads, events, links
    from app.components.theme import tone
    from app.frame import pages as frame
    from app.frame import sidebar

    frame.configure()
    st.html(frame.APP / "style.css")
    colours = "; ".join(f"--cl-{name}: {getattr(tone(), name)}" for name in ("good", "bad", "paper"))
    st.html(f"<style>:root {{ {colours} }}</style>")
    st.logo(frame.APP / "logo.svg", size="large", icon_image=frame.APP / "icon.png")
    frame.mark_ready()
    judging.begin()
    downloads.begin()
    events.begin()
    pages = frame.page_list()
    st.session_state[links.PAGES] = pages
    page = st.navigation([*pages.values()], position="hidden")
    st.session_state[frame.CHOSEN] = sidebar.draw(page, pages)
    page.run()
    frame.one_step()
    downloads.figures()
    if st.session_state[frame.CHOSEN] is not None and page.url_path != "start":
        sidebar.saved_views_menu(page.url_path or "overview")  # the first page has no path


if get_script_run_ctx(suppress_warning=True) is not None:
    draw()
