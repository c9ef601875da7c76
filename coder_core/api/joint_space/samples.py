"""Every sample of a split with its place in the joint space in numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from coder_core.api.retrieval.hubs import occurrences
from coder_core.api.run import Run
from coder_core.api.sampling import SCORES_AT_MOST, Sample
from coder_core.api.sides import Modality, first_captions
from coder_core.evaluation.separation import own_similarity
from coder_core.evaluation.sources import EmbeddingPair


def samples(run: Run, split: str, *, sample: Sample | None = None) -> pd.DataFrame:
    """Every sample of a split, images first, in the order of the points of a layout.

    Args:
        sample: from `Run.points_sample`: only its rows are read; hubness then counts its queries, diversity is taken
            over its candidates, and ranks are those in the whole split.

    Returns:
        One row a sample: modality ("image", "caption"), number (row in its modality), image, text (the caption; of an
        image its first one), rank (of the best true match, from 1), similarity (to its match, of an image the best),
        hubness (among the first ten results of so many queries), words (of the caption), and diversity (with the
        run's ε) where the split, or the sample, is small enough to look at whole.
    """
    part = run.part(split, sample)
    n, m, owner = len(part.images), len(part.texts), part.owner
    split_captions = run.captions(split)
    captions = [split_captions[j] for j in part.text_rows.tolist()]
    own = own_similarity([EmbeddingPair(part.images, part.texts)], owner)
    best = np.full(n, np.nan)
    np.fmax.at(best, owner, own)
    first = first_captions(owner, n)
    ranks = run.ranks(split)
    rank = np.concatenate([ranks["i2t"][part.image_rows], ranks["t2i"][part.text_rows]]) + 1.0
    hubs = [
        occurrences(run, split, direction, sample=sample)["count"].to_numpy() for direction in ("t2i", "i2t")
    ]
    lengths = np.array([caption.count(" ") + 1.0 for caption in captions])
    table = pd.DataFrame(
        {
            "modality": np.repeat(np.array(["image", "caption"], dtype=object), [n, m]),
            "number": np.concatenate([part.image_rows, part.text_rows]),
            "image": np.concatenate([part.image_rows, part.image_rows[owner]]),
            "text": [captions[j] if j >= 0 else "" for j in first.tolist()] + captions,
            "rank": np.where(rank < 1, np.nan, rank),
            "similarity": np.concatenate([best, own]),
            "hubness": np.concatenate(hubs),
            "words": np.concatenate([np.where(first >= 0, lengths[first], np.nan), lengths]),
        }
    )
    if n * m <= SCORES_AT_MOST:
        both: tuple[Modality, Modality] = ("image", "text")
        tables = [
            run.diversity(split, modality=modality, epsilon=run.loss.epsilon, sample=sample)
            for modality in both
        ]
        table["diversity"] = np.concatenate([part_table["diversity"].to_numpy() for part_table in tables])
    return table
