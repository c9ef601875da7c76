"""Reviews page: verdicts on the data and their effect."""

from __future__ import annotations

from app import judging
from app.choice import Choice
from app.frame import sidebar
from app.views.reviews import show_agreement, show_judged, show_queue, show_recall, show_training


def show(choice: Choice) -> None:
    said = judging.load(judging.file_of(choice.last))
    show_queue(choice)
    show_judged(choice, said)
    show_recall(choice, said)
    show_agreement(said)
    show_training(choice, said)


sidebar.page(
    "What did people say about the data?",
    "Judge whether captions and images belong together. Verdicts stay beside the data; training and evaluation take "
    "them when asked.",
    show,
)
