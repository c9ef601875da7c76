"""What does the concept branch read?"""

from __future__ import annotations

from app.backend import concepts
from app.backend import runs as backend
from app.ui import cards, sidebar
from app.ui.lacking import those_with
from app.ui.state import Choice
from app.views import concepts as concepts_view

WAY_OUT = (
    "Start one on the Train page with a preset that has one: coder-demo takes a few minutes on the built-in pictures; "
    "coder-flickr8k, coder-f30k-bigru and the others that begin with coder- are for your data."
)


def show(choice: Choice) -> None:
    runs = those_with(
        choice.runs, lambda run: concepts.has_concepts(run, choice.split),
        trained="without a concept branch", imported="which have no concept branch", way_out=WAY_OUT,
        preset="coder-demo",
    )  # fmt: skip
    if not runs:
        return
    sample = backend.sample(runs[-1], choice.split)
    if sample is not None:
        cards.note(
            f"This split is large: attention is summed up over {len(sample.images):,} of {sample.of_images:,} images, "
            f"drawn at random, with their {len(sample.texts):,} of {sample.of_texts:,} captions."
        )
    word = concepts_view.graphs(runs, choice.split)
    concepts_view.amounts(runs, choice.split)
    order = concepts_view.disagreements(runs, choice)
    concepts_view.one_pair(runs, choice, order)
    concepts_view.readers(runs, choice, word)
    concepts_view.all_concepts(runs, choice.split)


choice = sidebar.choose()
cards.question(
    "What does the concept branch read?",
    "Images and captions both look into one list of words from the training captions. What they read there is the "
    "second of CODER’s two embeddings; a pair scores high in it when both read the same concepts.",
)
sidebar.answer(choice, show)
