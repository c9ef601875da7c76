"""Train page: start, watch, stop and resume runs."""

from app.frame import sidebar

sidebar.page("train")
