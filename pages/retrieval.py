"""Retrieval page: queries that fail, and their results."""

from app.frame import sidebar
from app.views.retrieval import queries

how = "Every query ranks all candidates of the split. The higher its true match ranks, the better."
sidebar.page(queries.question, queries.show, how=how, narrowed=True)
