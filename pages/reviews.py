"""Reviews page: verdicts on the data and their effect."""

from app.frame import sidebar

sidebar.page("reviews")
