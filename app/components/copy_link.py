"""A button that copies the address of the page, which only the browser knows whole."""

from pathlib import Path

import streamlit as st

NAME = "coder-copy-link"
_COPY = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
_ICON = (
    '<svg viewBox="0 -960 960 960" aria-hidden="true"><path d="M440-280H280q-83 0-141.5-58.5T80-480q0-83 58.5-141.5'
    "T280-680h160v80H280q-50 0-85 35t-35 85q0 50 35 85t85 35h160v80ZM320-440v-80h320v80H320Zm200 160v-80h160q50 0 85-35"
    't35-85q0-50-35-85t-85-35H520v-80h160q83 0 141.5 58.5T880-480q0 83-58.5 141.5T680-280H520Z"/></svg>'
)  # Material symbol "link", Apache-2.0
_BUTTON = f'<button type="button">{_ICON}<span aria-live="polite">Copy link</span></button>'
_STYLE = """
button { width: 100%; min-height: 2.5rem; font-family: inherit; font-size: .875rem; cursor: pointer;
  color: var(--st-text-color); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius); }
svg { width: 1.15rem; height: 1.15rem; fill: currentColor; vertical-align: -.25rem; margin-right: .4rem; }
button:hover, button:focus-visible { color: var(--st-primary-color); border-color: var(--st-primary-color); }
"""


def copy_link() -> None:
    """Draw the button."""
    component = st.components.v2.component(NAME, html=_BUTTON, css=_STYLE, js=_COPY)
    component(key=NAME, height="content")
