"""The Train page."""

from app.views.train.runs import show

__all__ = ["show"]
