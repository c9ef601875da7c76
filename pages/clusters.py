"""Clusters page: groups of samples."""

from app.frame import sidebar

sidebar.page("clusters")
