"""Addresses inside the app. A widget bound to the URL reads its label there, so these words equal those on buttons."""

from collections.abc import Sequence
from urllib.parse import urlencode

from app.ask import Modality
from app.choice import NO_RUN, UNITS, Choice, reviewer_link

Links = tuple[tuple[str, str], ...]  # labels and addresses
DIRECTIONS: dict[Modality, str] = {"text": "Caption → images", "image": "Image → captions"}


def address(page: str, choice: Choice, **values: str | int) -> str:
    """A page's address, relative to the app, with the chosen runs and these values; "" is the page that is open."""
    state: dict[str, object] = {"run": choice.first.name}
    state["versus"] = choice.second.name if choice.second else NO_RUN
    optional = {"also": choice.also, "split": choice.split, **reviewer_link(), "slice": choice.slice}
    state |= {key: value for key, value in optional.items() if value}
    return f"{page}?{urlencode(state | values, doseq=True)}"


def diversity(choice: Choice, modality: Modality, number: int) -> str:
    """The sample opened as an anchor."""
    sample = {"caption" if modality == "text" else "image": number}
    return address("diversity", choice, anchors=UNITS[modality].capitalize(), **sample)


def similarity(choice: Choice, image: int, captions: Sequence[int]) -> str:
    """The matrix of these captions and their images, with the pair of the first one opened."""
    pair: dict[str, str | int] = {"pair-image": image, "pair-caption": captions[0]}
    selection = {"batch-of": "Selection", "chosen": ", ".join(map(str, captions))}
    return address("similarity", choice, **selection, **pair)


def of_sample(choice: Choice, modality: Modality, number: int, *, here: str = "") -> Links:
    """Links from a sample to the other pages that can show it; `here` is left out."""
    kind, query = "caption" if modality == "text" else "image", {f"query-{modality}": number}
    pages = {
        "diversity": diversity(choice, modality, number),
        "query": address("retrieval", choice, direction=DIRECTIONS[modality], **query),
        "joint space": address("joint", choice, focus=f"{kind}-{number}"),
    }
    links = tuple((label, page) for label, page in pages.items() if label != here)
    has_concepts = any(run.config.get("model", {}).get("concepts") for run in choice.runs)
    if modality == "text" and here != "concepts" and has_concepts:
        links += (("concepts", address("concepts", choice, caption=number)),)
    return links
