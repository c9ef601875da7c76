"""Data page: suspicious pairs, duplicates, bad pictures."""

from app.frame import sidebar
from app.views import data_quality

sidebar.page(
    "What is wrong with the data itself?",
    "Captions of other images, copies, leaks between splits, uninformative pictures and captions. Every "
    "list shows suspects, the strongest first: look before you remove anything.",
    data_quality.show,
)
