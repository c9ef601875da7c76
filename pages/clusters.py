"""Clusters page: groups of samples."""

from app.components.unavailable import embedded
from app.frame import sidebar
from app.views import clusters

title, whole = "Which samples form groups?", "which clusters there are, their words, sizes and agreement"
sidebar.page(title, lambda choice: clusters.show(embedded(choice)), of_two=True, whole=whole, narrowed=True)
