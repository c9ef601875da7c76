"""A button that copies the address of the page, which only the browser knows whole."""

from pathlib import Path

import streamlit as st

NAME = "coder-copy-link"
_COPY = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
_BUTTON = '<button type="button"><span role="status">Copy link</span></button>'
_STYLE = """
button { width: 100%; min-height: 2.5rem; font-family: inherit; font-size: .875rem; cursor: pointer;
  color: var(--st-text-color); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius); }
button:hover, button:focus-visible { color: var(--st-primary-color); border-color: var(--st-primary-color); }
"""


def copy_link() -> None:
    """Draw the button."""
    component = st.components.v2.component(NAME, html=_BUTTON, css=_STYLE, js=_COPY)
    component(key=NAME, height="content")
