"""Reviews page: verdicts on the data and their effect."""

from app.frame import sidebar
from app.views import reviews

sidebar.page(
    "What did people say about the data?",
    "Judge whether captions and images belong together. Verdicts stay beside the data; training and evaluation take "
    "them when asked.",
    reviews.show,
)
