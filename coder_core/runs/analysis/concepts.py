"""The concept branch in an analysis folder: embeddings, attention, graph, names. Arrays are called `concept_…`."""

from __future__ import annotations

from typing import Any

import numpy as np

from coder_core.concepts.knowledge import Concepts
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concept_reader import CONCEPTS

ATTENTION_BYTES = 1 << 28  # of both modalities; above, only the strongest concepts of every sample are kept
STRONGEST = 32


def concept_tables(
    found: SplitEmbeddings, concepts: Concepts, *, threshold: float, rescaled: bool
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and documents of a split under a model with a concept branch.

    Args:
        found: encoded with its attention.
        concepts: of the run.
        threshold: of its graph.
        rescaled: the probability before the threshold.

    Returns:
        concept_image_embeddings (n, D) and concept_text_embeddings (m, D) float32; concept_graph (g, g) Â;
        concept_together (g, g) train captions that hold both; concept_{image,text}_attention (rows, g) float16, or,
        where those would exceed 256 MiB, concept_{image,text}_strongest (rows, 32) int32 and
        concept_{image,text}_strength float16, the strongest first. The document `concepts`: words, kinds, counts,
        forms, source.
    """
    assert found.concept_images is not None
    assert found.concept_texts is not None
    assert found.image_attention is not None
    assert found.text_attention is not None
    arrays = {
        "concept_image_embeddings": found.concept_images,
        "concept_text_embeddings": found.concept_texts,
        "concept_graph": concepts.graph(threshold=threshold, rescaled=rescaled),
        "concept_together": concepts.together.astype(np.int32),
    }
    both = {"image": found.image_attention, "text": found.text_attention}
    whole = sum(array.nbytes for array in both.values()) <= ATTENTION_BYTES
    for modality, attention in both.items():
        if whole:
            arrays[f"concept_{modality}_attention"] = attention
        else:
            strongest = strongest_first(attention, STRONGEST)
            arrays[f"concept_{modality}_strongest"] = strongest
            arrays[f"concept_{modality}_strength"] = np.take_along_axis(attention, strongest.astype(np.int64), 1)
    entries = concepts.vocabulary.concepts
    document = {
        "words": [one.word for one in entries],
        "kinds": [one.kind for one in entries],
        "counts": [one.count for one in entries],
        "forms": [list(one.forms) for one in entries],
        "source": concepts.vocabulary.source,
    }
    return arrays, {CONCEPTS: document}


def strongest_first(attention: np.ndarray, count: int) -> np.ndarray:
    """(rows, g) → (rows, count) int32 columns of the largest values, the largest first; equal ones by column."""
    return np.argsort(-attention.astype(np.float32), axis=1, kind="stable")[:, :count].astype(np.int32)
