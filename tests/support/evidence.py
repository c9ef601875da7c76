"""Made-up evidence on the causes of misses, and reviews by a person."""

import numpy as np

from coder_core.api import causes
from coder_core.data.reviews import Review


def review(image, caption, verdict):
    return Review(
        id=f"{abs(hash((image, caption))):x}"[:16],
        time="2026-11-28T00:00:00Z",
        reviewer="me",
        image=image,
        caption=caption,
        verdict=verdict,
        tags=(),
        note="",
    )


def some_way(queries, **values):
    """Return evidence on queries that miss at 1 and have no cause but a model error; `values` replace fields."""
    nothing = {
        "queries": np.arange(queries),
        "images": np.arange(queries),
        "ranks": np.full(queries, 4),
        "corrected": np.full(queries, 4),
        "results": (np.arange(queries)[:, None] + np.arange(1, 4)) % queries,
        "match": np.zeros((queries, 3), bool),
        "refused": np.zeros((queries, 3), bool),
        "features": np.zeros((queries, 3, 4), np.float32),
        "copies": np.zeros((queries, 3), np.int8),
        "scores": np.full((queries, 3), 0.9, np.float32),
        "match_scores": np.linspace(0.1, 0.5, queries).astype(np.float32),
    }
    return causes.WayEvidence(**(nothing | values))
