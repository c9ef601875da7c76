"""Concepts page: the concept branch of CODER."""

from app.frame import sidebar
from app.frame.unavailable import runs_with
from app.views import concepts

sidebar.page(
    "What does the concept branch read?",
    "Images and captions attend to one list of words from the training captions. What they read gives the second of "
    "CODER’s two embeddings: a pair scores high in it when both read the same sections.",
    lambda choice: concepts.show(choice, runs_with(choice, **concepts.NEEDED)),
    of_two=True,
    whole="the concept graph and the list of all concepts",
)
