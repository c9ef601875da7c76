"""The theme in the browser."""

import streamlit as st

from app import charts


def tone() -> charts.Tone:
    """Return the colours of figures for the theme in the browser, light or dark."""
    return charts.tone(st.context.theme.type)
