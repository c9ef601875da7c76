"""Slices page: groups of captions that a run misses most."""

from app.frame import sidebar

sidebar.page("slices")
