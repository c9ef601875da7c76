"""Start page: train the demo, or see what to look at first."""

from app.frame import sidebar

sidebar.page("start")
