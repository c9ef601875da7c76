"""Arrays and documents of the concept branch for an analysis folder; `concepts` reads them without torch."""

from typing import Any

import numpy as np

from coder_core.model.concepts.knowledge import Concepts
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concepts import CONCEPTS, EMBEDDINGS

# of both modalities; above, only the strongest concepts of every sample are written
ATTENTION_BYTES = 1 << 28
STRONGEST = 32


def concept_tables(
    embeddings: SplitEmbeddings, concepts: Concepts, graph: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays `concept_…` of `tables.TABLES` and the document `concepts` of a split, for a model with a
    concept branch whose `graph` is Â (g, g). If attention takes over 256 MiB, only the 32 strongest concepts of every
    sample are kept, the strongest first."""
    assert embeddings.second is not None
    assert embeddings.image_attention is not None
    assert embeddings.text_attention is not None
    attention = {"image": embeddings.image_attention, "text": embeddings.text_attention}
    arrays = dict(zip(EMBEDDINGS, embeddings.second, strict=True))
    arrays |= {"concept_graph": graph, "concept_together": concepts.together.astype(np.int32)}
    in_full = sum(array.nbytes for array in attention.values()) <= ATTENTION_BYTES
    for modality, rows in attention.items():
        if in_full:
            arrays[f"concept_{modality}_attention"] = rows
            continue
        strongest = np.argsort(-rows.astype(np.float32), axis=1, kind="stable")[:, :STRONGEST]
        arrays[f"concept_{modality}_strongest"] = strongest.astype(np.int32)
        arrays[f"concept_{modality}_strength"] = np.take_along_axis(rows, strongest, 1)

    entries = concepts.vocabulary.concepts
    document = {
        "words": [concept.word for concept in entries],
        "kinds": [concept.kind for concept in entries],
        "counts": [concept.count for concept in entries],
        "forms": [list(concept.forms) for concept in entries],
        "source": concepts.vocabulary.source,
    }
    return arrays, {CONCEPTS: document}
