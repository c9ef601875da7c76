"""Words that mark a group of captions against all others. Monroe et al. 2008, "Fightin' Words", eq. 22."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from coder_core.api.sides import Array
from coder_core.data.words import tokenise

PRIOR_WORDS = 100.0  # as many words of the whole split are added to every group before it is compared


@dataclass(frozen=True)
class Marking:
    """Strength with which each word marks each group.

    Args:
        words: the vocabulary. scores: (K, V) sparse z-scores of the log-odds, where the group holds the word.
        counts: (K, V) sparse, how often it does.
    """

    words: tuple[str, ...]
    scores: sparse.csr_matrix
    counts: sparse.csr_matrix

    def top(self, group: int, count: int = 10) -> pd.DataFrame:
        """The words that mark a group most: word, score (z), count. Only those more frequent here than elsewhere."""
        row = self.scores.getrow(group)
        order = np.argsort(-row.data, kind="stable")[:count]
        order = order[row.data[order] > 0]
        columns = row.indices[order]
        counts = np.asarray(self.counts[group].todense()).ravel()[columns]
        return pd.DataFrame(
            {"word": [self.words[c] for c in columns], "score": row.data[order], "count": counts.astype(int)}
        )


def marking_words(captions: Sequence[str], groups: Array, count: int) -> Marking:
    """Log-odds of every word in a group against all other captions, with an informative Dirichlet prior.

    Args:
        captions: m strings. groups: (m,) the group of each, from 0. count: K groups.

    For word w in group i against the rest j, with prior α_w proportional to the word's frequency everywhere:
    δ = log((y_wi + α_w) / (n_i + α_0 − y_wi − α_w)) − the same for j; z = δ / √(1 / (y_wi + α_w) + 1 / (y_wj + α_w)).
    """
    numbers: dict[str, int] = {}
    rows, columns = [], []
    for group, caption in zip(np.asarray(groups).tolist(), captions, strict=True):
        for word in tokenise(caption):
            rows.append(group)
            columns.append(numbers.setdefault(word, len(numbers)))
    shape = (count, max(len(numbers), 1))
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts.sum_duplicates()
    total = np.asarray(counts.sum(0)).ravel()
    total_words = max(float(total.sum()), 1.0)
    prior = PRIOR_WORDS * total / total_words
    size = np.asarray(counts.sum(1)).ravel()
    entries = counts.tocoo()
    here, alpha = entries.data, prior[entries.col]
    there = total[entries.col] - here
    n_here = size[entries.row] + PRIOR_WORDS
    n_there = total_words - size[entries.row] + PRIOR_WORDS
    odds = np.log((here + alpha) / np.maximum(n_here - here - alpha, 1e-9)) - np.log(
        (there + alpha) / np.maximum(n_there - there - alpha, 1e-9)
    )
    z = odds / np.sqrt(1 / (here + alpha) + 1 / (there + alpha))
    scores = sparse.csr_matrix((z, (entries.row, entries.col)), shape=shape)
    return Marking(tuple(numbers), scores, counts)
