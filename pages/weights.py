"""Weights page: sample weights of pairs."""

from app.frame import sidebar
from app.frame.unavailable import runs_with
from app.views import weights

sidebar.page(
    "Which pairs count most in training?",
    lambda choice: weights.show(choice, runs_with(choice, **weights.NEEDED)),
    of_two=True,
    whole="the statistics of the scores",
)
