"""Ranks corrected for hubs, against a slow reference."""

import numpy as np
import pytest
from scipy import sparse

from coder_core.api.causes.hubs import NEIGHBOURS, STRENGTHS, corrected_ranks
from coder_core.api.sides import Sides
from coder_core.evaluation import hub_correction
from tests.support.run_folders import unit


def slow_corrected_ranks(scores, anchor_images, candidate_images):
    """Return the corrected ranks of every anchor by loops over one anchor and one candidate."""
    images = max(anchor_images.max(), candidate_images.max()) + 1
    first = set(np.random.default_rng(5).permutation(images)[: images // 2].tolist())
    in_first = np.array([image in first for image in anchor_images])

    def bias(candidate, half, k):
        foreign = [
            scores[q, candidate]
            for q in range(len(scores))
            if in_first[q] == half and anchor_images[q] != candidate_images[candidate]
        ]
        return np.mean(sorted(foreign)[-k:])

    def rank(query, k, alpha):
        half = not in_first[query]
        shifted = [
            scores[query, c] - alpha * bias(c, half, k) if alpha else scores[query, c]
            for c in range(scores.shape[1])
        ]
        own = max(
            s for s, image in zip(shifted, candidate_images, strict=True) if image == anchor_images[query]
        )
        return sum(
            s >= own
            for s, image in zip(shifted, candidate_images, strict=True)
            if image != anchor_images[query]
        )

    strengths = [(k, alpha) for alpha in (0.25, 0.5, 0.75, 1.0) for k in (1, 4, 16, 64, 128)]
    settings = [(1, 0.0), *strengths]
    ranks = np.array([[rank(q, *setting) for q in range(len(scores))] for setting in settings])
    result = np.empty(len(scores), int)
    for half in (False, True):
        recalls = [sum((of[in_first == half] < k).mean() for k in (1, 5, 10)) for of in ranks]
        result[in_first != half] = ranks[int(np.argmax(recalls)), in_first != half]
    return result


def test_strengths_are_chosen_among_those_of_the_correction_by_train_queries():
    assert NEIGHBOURS == hub_correction.NEIGHBOURS
    assert STRENGTHS == hub_correction.STRENGTHS


@pytest.mark.parametrize("pair_scores", [False, True])
def test_corrected_ranks_match_a_slow_reference(pair_scores):
    random = np.random.default_rng(3)
    images = random.normal(size=(14, 6))
    owner = np.repeat(np.arange(14), 2)
    texts = images[owner] + 1.5 * random.normal(size=(28, 6))
    images[:3] += 1.5  # hubs
    v, w = unit(images), unit(texts)
    scores = (w.astype(float) @ v.astype(float).T).astype(np.float32)
    sides = Sides(w, v, owner, np.arange(14))
    if pair_scores:
        sides = Sides(w[:, :0], v[:, :0], owner, np.arange(14), scores)
    expected = slow_corrected_ranks(scores.astype(float), owner, np.arange(14))
    right = sparse.csr_array((np.ones(28, bool), (np.arange(28), owner)))
    np.testing.assert_array_equal(corrected_ranks(sides, np.arange(28), right), expected)
