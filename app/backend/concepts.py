"""The concept branch: its graph, and the attention of images and captions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.backend.runs import BY_STAMP, RunSummary, open_summary, split_sample
from coder_core.api import concepts as api
from coder_core.api.concepts import AttentionSummary, ConceptGraph, ConceptView, SharedAttention

__all__ = [
    "AttentionSummary",
    "ConceptGraph",
    "SharedAttention",
    "attention_of",
    "concept_graph",
    "concept_names",
    "concept_table",
    "disagreements",
    "has_concepts",
    "pair_concepts",
    "same_graph",
    "shared_attention",
    "strongest_only",
    "top_readers",
]


def has_concepts(run: RunSummary, split: str) -> bool:
    """Whether the run's analysis holds a concept branch."""
    return open_summary(run).concepts(split) is not None


def _view(run: RunSummary, split: str) -> ConceptView:
    view = open_summary(run).concepts(split)
    assert view is not None
    return view


def concept_names(run: RunSummary, split: str) -> list[str]:
    """The concepts' names, by number; a word that is a concept of several kinds carries its kind in brackets."""
    return _view(run, split).names


def strongest_only(run: RunSummary, split: str) -> bool:
    """Whether the analysis stores only the strongest concepts of every sample."""
    return not _view(run, split).whole


@st.cache_resource(max_entries=16, show_spinner="Reading the attention …", hash_funcs=BY_STAMP)
def attention_of(run: RunSummary, split: str, modality: str) -> AttentionSummary:
    """The attention of all images or captions of the split, or of its sample. Shared: not to be changed."""
    sample = split_sample(run, split)
    rows = None if sample is None else (sample.images if modality == "image" else sample.texts)
    return api.summarise_attention(_view(run, split), modality, rows)  # type: ignore[arg-type]


@st.cache_resource(max_entries=16, show_spinner="Reading the attention …", hash_funcs=BY_STAMP)
def shared_attention(run: RunSummary, split: str) -> SharedAttention:
    """The attention that captions share with their images. Shared: not to be changed."""
    sample = split_sample(run, split)
    texts = None if sample is None else sample.texts
    return api.shared_attention(_view(run, split), open_summary(run).image_of_text(split), texts)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=BY_STAMP)
def concept_table(run: RunSummary, split: str) -> pd.DataFrame:
    """`ConceptView.table` with the attention (%) every concept gets: image, text, and read, their mean. Shared."""
    images, texts = (100 * attention_of(run, split, modality).mean for modality in ("image", "text"))
    return _view(run, split).table().assign(image=images, text=texts, read=(images + texts) / 2)


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def concept_graph(
    run: RunSummary, split: str, *, around: int | None, by: str, kind: str, count: int
) -> tuple[ConceptGraph, int]:
    """The strongest concepts, or (`around`) one concept's neighbourhood; and how many there were to choose from."""
    view = _view(run, split)
    if around is None:
        table = concept_table(run, split)
        selected = api.strongest(table, by, kind, count)  # type: ignore[arg-type]
        total = int((table["kind"] == kind).sum()) if kind else len(table)
    else:
        neighbourhood = api.neighbourhood(view.edges(), around, len(view.words))
        selected, total = neighbourhood[:count], len(neighbourhood)
    return api.graph_of(view, np.asarray(selected)), total


def same_graph(first: RunSummary, second: RunSummary, split: str) -> bool:
    """Whether two runs have the same concepts with the same edges."""
    a, b = _view(first, split), _view(second, split)
    return a.words == b.words and a.edges().equals(b.edges())


def disagreements(run: RunSummary, split: str) -> pd.DataFrame:
    """Every caption with its image: caption, image, shared (%), what either reads most and how much (%), rank;
    the least shared first."""
    opened, names = open_summary(run), np.array(concept_names(run, split), dtype=object)
    shared, image, text = (
        shared_attention(run, split),
        *(attention_of(run, split, m) for m in ("image", "text")),
    )
    owner = opened.image_of_text(split)[shared.texts]
    row = np.searchsorted(image.samples, owner)
    frame = pd.DataFrame(
        {
            "caption": shared.texts,
            "image": owner,
            "shared": 100 * shared.own,
            "image_reads": names[image.first[row]],
            "image_share": 100 * image.share[row],
            "caption_reads": names[text.first],
            "caption_share": 100 * text.share,
            "rank": opened.ranks(split)["t2i"][shared.texts] + 1,
        }
    )
    confidence = (
        frame["image_share"] * frame["caption_share"]
    )  # among equal shares, the most confident come first
    order = np.lexsort((-confidence.to_numpy(), frame["shared"].round(1).to_numpy()))
    return frame.iloc[order].reset_index(drop=True)


def pair_concepts(
    run: RunSummary, split: str, text: int, top: int
) -> tuple[pd.DataFrame, float, dict[str, float]]:
    """One caption and its image: the `top` concepts of either (word, kind, image, text), the share (%) of attention
    they have in common, and the effective number of concepts either reads."""
    view = _view(run, split)
    image = int(open_summary(run).image_of_text(split)[text])
    table = view.disagreement(image, text, top=len(view.words))
    table["word"] = np.array(concept_names(run, split), dtype=object)[table["concept"]]
    for side in ("image", "text"):
        table[side] /= max(float(table[side].sum()), 1e-12)
    strongest = pd.concat([table.nlargest(top, side) for side in ("image", "text")]).drop_duplicates(
        "concept"
    )
    total = strongest["image"] + strongest["text"]
    strongest = strongest.iloc[np.argsort(-total.to_numpy(), kind="stable")]
    strongest = strongest[strongest["image"] + strongest["text"] >= 0.0005]
    perplexity = {
        side: float(api.summarise_attention(view, side, np.array([number])).perplexity[0])  # type: ignore[arg-type]
        for side, number in (("image", image), ("text", text))
    }
    shared = 100 * float(np.minimum(table["image"], table["text"]).sum())
    return strongest.reset_index(drop=True), shared, perplexity


@st.cache_data(max_entries=128, show_spinner=False, hash_funcs=BY_STAMP)
def top_readers(
    run: RunSummary, split: str, concept: int, modality: str, top: int = 10, within: np.ndarray | None = None
) -> pd.DataFrame:
    """`ConceptView.readers`, without those that do not read the concept at all."""
    readers = _view(run, split).readers(concept, modality, top=top, within=within)  # type: ignore[arg-type]
    return readers[readers["attention"] > 0]
