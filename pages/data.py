"""Data page: suspicious pairs, duplicates, bad pictures."""

from app.frame import sidebar
from app.views import data_quality

sidebar.page("What is wrong with the data itself?", data_quality.show)
