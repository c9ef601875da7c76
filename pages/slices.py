"""Slices page: groups of captions that a run misses most."""

from app.frame import sidebar
from app.views import slices

sidebar.page(
    "Where does a run miss more often than elsewhere?",
    "A slice is a group of captions: by words, length, diversity, cluster or concept. Slices are ordered by their "
    "misses beyond those at the run’s overall recall. Click on one to filter every page, or write your own in the "
    "sidebar.",
    slices.show,
)
