"""Diversity page: ambiguous anchors."""

from app.frame import sidebar

sidebar.page("diversity")
