"""Data page: suspicious pairs, duplicates, bad pictures."""

from app.frame import sidebar

sidebar.page("data")
