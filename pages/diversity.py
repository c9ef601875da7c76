"""Diversity page: ambiguous anchors."""

from app.frame import sidebar
from app.views import diversity

sidebar.page(
    "Which anchors are ambiguous?",
    "An anchor is ambiguous when its similarities to all negatives hardly vary. Its diversity is then low, and CODER "
    "lowers its temperature.",
    diversity.show,
)
