"""Similarity page: the matrix before and after diversity scaling."""

from app.frame import sidebar
from app.views import similarity

sidebar.page(
    "What does diversity scaling do to the matrix?",
    "Each row is an anchor, each column a candidate. Compare a row before and after: scaling spreads the candidates of "
    "an ambiguous anchor further apart.",
    similarity.show,
    of_two=True,
)
