"""The Retrieval page: queries that fail, hubs, and one query in detail."""

from app.views.retrieval.queries import question, show

__all__ = ["question", "show"]
