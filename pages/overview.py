"""Overview page: all runs and their recall."""

from app.frame import sidebar
from app.views import overview

whole = "the report, the training curves, the table of all runs and the separation of pairs"
sidebar.page("Which runs do I have, and how good are they?", overview.show, whole=whole)
