"""Weights page: sample weights of pairs."""

from app.frame import sidebar
from app.views import weights

whole = "the statistics of the scores"
sidebar.page("Which pairs count most in training?", weights.show, whole=whole, narrowed=True)
