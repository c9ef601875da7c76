"""Slices page: groups of captions that a run misses most."""

from app.frame import sidebar
from app.views import slices

sidebar.page("Where does a run miss more often than elsewhere?", slices.show)
