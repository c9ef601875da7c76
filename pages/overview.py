"""Overview page: all runs and their recall."""

from app.frame import sidebar
from app.views import overview

sidebar.page(
    "Which runs do I have, and how good are they?",
    "Each bar is the percentage of queries with a true match among the first 1, 5 or 10 results. Taller is better.",
    overview.show,
    whole="the report, the training curves, the table of all runs and the separation of pairs",
)
