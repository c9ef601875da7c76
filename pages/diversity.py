"""Diversity page: ambiguous anchors."""

from app.frame import sidebar
from app.views import diversity

sidebar.page("Which anchors are ambiguous?", diversity.show, narrowed=True)
