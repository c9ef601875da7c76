"""Weights page: sample weights of pairs."""

from app.frame import sidebar

sidebar.page("weights")
