"""Concepts page: the concept branch of CODER."""

from app.frame import sidebar
from app.frame.unavailable import runs_with
from app.views import concepts

sidebar.page(
    "What does the concept branch read?",
    lambda choice: concepts.show(choice, runs_with(choice, **concepts.NEEDED)),
    of_two=True,
    whole="the concept graph and the list of all concepts",
)
