"""Concepts page: the concept branch of CODER."""

from app.frame import sidebar

sidebar.page("concepts")
