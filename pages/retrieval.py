"""Retrieval page: queries that fail, and their results."""

from app.frame import sidebar

sidebar.page("retrieval")
