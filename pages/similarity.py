"""Similarity page: the matrix before and after diversity scaling."""

from app.frame import sidebar

sidebar.page("similarity")
