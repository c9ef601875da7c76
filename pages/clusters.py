"""Clusters page: groups of samples."""

from app.frame import sidebar
from app.frame.unavailable import embedded
from app.views import clusters

sidebar.page(
    "Which samples form groups?",
    lambda choice: clusters.show(embedded(choice)),
    of_two=True,
    whole="which clusters there are, their words, sizes and agreement",
)
