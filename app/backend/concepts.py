"""The door to the concept branch: graph, attention and what is made of them; kept by run, stamp and parameters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.runs import RunSummary, _opened, open_summary, sample
from coder_core.api.concepts import graph as graphs
from coder_core.api.concepts import reading as readings
from coder_core.api.concepts.graph import ConceptGraph
from coder_core.api.concepts.reading import Reading, Shared
from coder_core.api.concepts.view import ConceptView

__all__ = [
    "ConceptGraph", "Reading", "Shared", "disagreements", "graph", "has_concepts", "pair", "readers", "reading",
    "same_graph", "shared", "strongest_only", "table", "words",
]  # fmt: skip


def has_concepts(run: RunSummary, split: str) -> bool:
    """Whether the run's analysis holds a concept branch."""
    return open_summary(run).concepts(split) is not None


def _view(path: str, stamp: str, split: str) -> ConceptView:
    view = _opened(path, stamp).concepts(split)
    assert view is not None
    return view


def _of(run: RunSummary, split: str) -> ConceptView:
    return _view(str(run.path), run.stamp, split)


def words(run: RunSummary, split: str) -> list[str]:
    """The concepts' names, by number; the kind stands behind a word that is a concept of several kinds."""
    view = _of(run, split)
    often = Counter(view.words)
    return [w if often[w] == 1 else f"{w} ({k})" for w, k in zip(view.words, view.kinds, strict=True)]


def strongest_only(run: RunSummary, split: str) -> bool:
    """Whether only the strongest concepts of every sample were kept."""
    return not _of(run, split).whole


@st.cache_resource(max_entries=16, show_spinner="Reading the attention …")
def _reading(path: str, stamp: str, split: str, modality: str, _rows: np.ndarray | None) -> Reading:
    return readings.reading(_view(path, stamp, split), modality, _rows)  # type: ignore[arg-type]


def reading(run: RunSummary, split: str, modality: str) -> Reading:
    """`reading` of the split, or of its sample. Shared: not to be changed."""
    drawn = sample(run, split)
    rows = None if drawn is None else (drawn.images if modality == "image" else drawn.texts)
    return _reading(str(run.path), run.stamp, split, modality, rows)


@st.cache_resource(max_entries=16, show_spinner="Reading the attention …")
def _shared(path: str, stamp: str, split: str, _texts: np.ndarray | None) -> Shared:
    return readings.shared(_view(path, stamp, split), _opened(path, stamp).image_of_text(split), _texts)


def shared(run: RunSummary, split: str) -> Shared:
    """`shared` of the split, or of its sample. Shared: not to be changed."""
    drawn = sample(run, split)
    return _shared(str(run.path), run.stamp, split, None if drawn is None else drawn.texts)


@st.cache_resource(max_entries=16, show_spinner=False)
def _table(path: str, stamp: str, split: str, _image: Reading, _text: Reading) -> pd.DataFrame:
    table = _view(path, stamp, split).table()
    images, texts = 100 * _image.mean, 100 * _text.mean
    return table.assign(image=images, text=texts, read=(images + texts) / 2)


def table(run: RunSummary, split: str) -> pd.DataFrame:
    """`ConceptView.table` with the attention (%) every concept gets: image, text, and read, their mean. Shared."""
    both = (reading(run, split, modality) for modality in ("image", "text"))
    return _table(str(run.path), run.stamp, split, *both)


@st.cache_resource(max_entries=64, show_spinner=False)
def _graph(path: str, stamp: str, split: str, chosen: tuple[int, ...]) -> ConceptGraph:
    return graphs.graph_of(_view(path, stamp, split), np.array(chosen))


def graph(
    run: RunSummary, split: str, *, around: int | None, by: str, kind: str, count: int
) -> tuple[ConceptGraph, int]:
    """The strongest concepts, or (`around`) one concept's neighbourhood; and how many there were to choose from."""
    if around is None:
        known = table(run, split)
        chosen = graphs.strongest(known, by, kind, count)  # type: ignore[arg-type]
        of = int((known["kind"] == kind).sum()) if kind else len(known)
    else:
        edges = _of(run, split).edges()
        everybody = graphs.neighbourhood(edges, around, len(words(run, split)))
        chosen, of = everybody[:count], len(everybody)
    return _graph(str(run.path), run.stamp, split, tuple(int(c) for c in chosen)), of


def same_graph(first: RunSummary, second: RunSummary, split: str) -> bool:
    """Whether two runs have the same concepts with the same edges."""
    one, other = _of(first, split), _of(second, split)
    return one.words == other.words and one.edges().equals(other.edges())


def disagreements(run: RunSummary, split: str) -> pd.DataFrame:
    """Every caption with its image: caption, image, shared (%), what either reads most and how much (%), rank;
    the least shared first."""
    opened, names = open_summary(run), np.array(words(run, split), dtype=object)
    found, image, text = (shared(run, split), reading(run, split, "image"), reading(run, split, "text"))
    owner = opened.image_of_text(split)[found.texts]
    row = np.searchsorted(image.samples, owner)
    frame = pd.DataFrame(
        {
            "caption": found.texts, "image": owner, "shared": 100 * found.own,
            "image_reads": names[image.first[row]], "image_share": 100 * image.share[row],
            "caption_reads": names[text.first], "caption_share": 100 * text.share,
            "rank": opened.ranks(split)["t2i"][found.texts] + 1,
        }
    )  # fmt: skip
    sure = frame["image_share"] * frame["caption_share"]  # of equally little shared the firmest readings come first
    order = np.lexsort((-sure.to_numpy(), frame["shared"].round(1).to_numpy()))
    return frame.iloc[order].reset_index(drop=True)


def pair(run: RunSummary, split: str, text: int, top: int) -> tuple[pd.DataFrame, float, dict[str, float]]:
    """One caption and its image: the `top` concepts of either (word, kind, image, text), the share (%) of attention
    that both have in common, and the effective number of concepts either reads."""
    view = _of(run, split)
    image = int(open_summary(run).image_of_text(split)[text])
    both = view.disagreement(image, text, top=len(view.words))
    both["word"] = np.array(words(run, split), dtype=object)[both["concept"]]
    for side in ("image", "text"):
        both[side] /= max(float(both[side].sum()), 1e-12)
    kept = pd.concat([both.nlargest(top, side) for side in ("image", "text")]).drop_duplicates("concept")
    kept = kept[(kept["image"] + kept["text"]) >= 0.0005]
    numbers = {
        side: float(readings.reading(view, side, np.array([number])).perplexity[0])  # type: ignore[arg-type]
        for side, number in (("image", image), ("text", text))
    }
    together = 100 * float(np.minimum(both["image"], both["text"]).sum())
    order = np.argsort(-(kept["image"] + kept["text"]).to_numpy(), kind="stable")
    return kept.iloc[order].reset_index(drop=True), together, numbers


@st.cache_data(max_entries=128, show_spinner=False)
def _readers(path: str, stamp: str, split: str, concept: int, modality: str, top: int) -> pd.DataFrame:
    found = _view(path, stamp, split).readers(concept, modality, top=top)  # type: ignore[arg-type]
    return found[found["attention"] > 0]


def readers(run: RunSummary, split: str, concept: int, modality: str, top: int = 10) -> pd.DataFrame:
    """`ConceptView.readers`, less those that do not read it at all."""
    return _readers(str(run.path), run.stamp, split, concept, modality, top)
