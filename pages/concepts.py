"""Concepts page: the concept branch of CODER."""

from __future__ import annotations

from app.ask import Run, ask
from app.choice import Choice
from app.components import cards
from app.frame import sidebar
from app.frame.unavailable import runs_with
from app.views import concepts as sections

FIX = (
    "Train one on the Train page with a preset that has it: coder-demo takes a few minutes on the built-in pictures; "
    "coder-flickr8k, coder-f30k-bigru and the other coder- presets are for your own data."
)


def show(choice: Choice) -> None:
    runs = runs_with(
        choice,
        lambda run, split: ask(Run.concepts, run, split) is not None,
        trained="without a concept branch",
        imported="which have no concept branch",
        fix=FIX,
        preset="coder-demo",
    )
    if not runs:
        return
    sample = ask(Run.sample, runs[-1], choice.split)
    if sample is not None:
        cards.note(
            f"This split is large: attention is computed over {len(sample.images):,} of {sample.of_images:,} random "
            f"images with their {len(sample.texts):,} of {sample.of_texts:,} captions."
        )
    word = sections.graphs(runs, choice.split)
    sections.amounts(runs, choice)
    order = sections.disagreements(runs, choice)
    sections.one_pair(runs, choice, order)
    sections.readers(runs, choice, word)
    sections.all_concepts(runs, choice.split)


sidebar.page(
    "What does the concept branch read?",
    "Images and captions attend to one list of words from the training captions. What they read gives the second of "
    "CODER’s two embeddings: a pair scores high in it when both read the same sections.",
    show,
    of_two=True,
    whole="the concept graph and the list of all concepts",
)
