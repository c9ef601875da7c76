"""Retrieval page: queries that fail, and their results."""

from app.frame import sidebar
from app.views import retrieval

sidebar.page(
    retrieval.question,
    retrieval.show,
    how="Every query ranks all candidates of the split. The higher its true match ranks, the better.",
)
