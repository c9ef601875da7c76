"""Weights page: sample weights of pairs."""

from app.frame import sidebar
from app.frame.unavailable import runs_with
from app.views import weights

sidebar.page(
    "Which pairs count most in training?",
    "A pair with a larger weight counts more in the loss. Complementary samples have semantic neighbours that lie far "
    "apart in the joint space: their image and their text say different things about one idea.",
    lambda choice: weights.show(choice, runs_with(choice, **weights.NEEDED)),
    of_two=True,
    whole="the statistics of the scores",
)
