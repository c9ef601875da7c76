"""Similarity page: the matrix before and after diversity scaling."""

from app.frame import sidebar
from app.views import similarity

sidebar.page("What does diversity scaling do to the matrix?", similarity.show, of_two=True, narrowed=True)
