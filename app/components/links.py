"""Addresses inside the app: the same runs and split, another page, another sample.

A widget bound to the URL reads its label there, so these words equal those on the buttons.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from app.ask import Modality, RunSummary
from app.choice import NO_RUN, Choice, reviewer_in_link

ANCHORS: dict[Modality, str] = {"text": "Captions", "image": "Images"}
DIRECTIONS: dict[Modality, str] = {"text": "Caption → images", "image": "Image → captions"}


def address(page: str, choice: Choice, **values: str | int) -> str:
    """A page's address, relative to the app, with the chosen runs and these values; "" is the page that is open."""
    versus = choice.second.name if choice.second else NO_RUN
    state: dict[str, object] = {"run": choice.first.name, "versus": versus}
    state |= {"also": choice.also} if choice.also else {}
    state |= {"split": choice.split, **reviewer_in_link()}
    state |= {"slice": choice.slice} if choice.slice else {}
    state |= {key: str(value) for key, value in values.items()}
    return f"{page}?{urlencode(state, doseq=True)}"


def diversity(choice: Choice, modality: Modality, number: int) -> str:
    """The sample opened as an anchor."""
    return address(
        "diversity",
        choice,
        anchors=ANCHORS[modality],
        **{"caption" if modality == "text" else "image": number},
    )


def retrieval(choice: Choice, modality: Modality, number: int) -> str:
    """The sample opened as a query."""
    return address("retrieval", choice, direction=DIRECTIONS[modality], **{f"query-{modality}": number})


def joint_space(choice: Choice, modality: Modality, number: int) -> str:
    """The sample on the map of both modalities."""
    return address("joint", choice, focus=f"{'caption' if modality == 'text' else 'image'}-{number}")


def similarity(choice: Choice, image: int, captions: Sequence[int]) -> str:
    """The matrix of these captions and their images, with the pair of the first one opened."""
    chosen = ", ".join(map(str, captions))
    pair: dict[str, str | int] = {"batch-of": "Selection", "chosen": chosen, "pair-image": image}
    pair["pair-caption"] = captions[0]
    return address("similarity", choice, **pair)


def concepts(choice: Choice, text: int) -> str:
    """The caption and its image on the Concepts page."""
    return address("concepts", choice, caption=text)


def of_sample(
    choice: Choice, modality: Modality, number: int, *, here: str = ""
) -> tuple[tuple[str, str], ...]:
    """Links from a sample to the other pages that can show it; `here` is left out."""
    pages = {"diversity": diversity, "query": retrieval, "joint space": joint_space}
    links = tuple((label, link(choice, modality, number)) for label, link in pages.items() if label != here)
    if modality == "text" and here != "concepts" and any(_reads_concepts(run) for run in choice.runs):
        links += (("concepts", concepts(choice, number)),)
    return links


def _reads_concepts(run: RunSummary) -> bool:
    return bool(run.config.get("model", {}).get("concepts", 0))
