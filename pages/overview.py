"""Overview page: all runs and their recall."""

from app.frame import sidebar

sidebar.page("overview")
