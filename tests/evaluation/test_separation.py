"""MD and the two distributions, against loops over every pair."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.evaluation import separation as maths
from coder_core.evaluation.recall import ensemble_metrics, retrieval_metrics
from coder_core.evaluation.sources import Source
from tests.evaluation.test_recall import correlated
from tests.reference.ranking import every_score


def two_branches() -> tuple[list[maths.Pairing], np.ndarray]:
    """Twenty images and seventy captions in a wide branch and a narrow one, mixed 0.7 to 0.3."""
    v, w, owner = correlated(20, 70, seed=0)
    vc, wc, _ = correlated(20, 70, seed=1)
    return [(v, w, 0.7), (vc[:, :9], wc[:, :9], 0.3)], owner


def test_the_worked_example() -> None:
    scores = np.array([[0.9, 0.2], [0.4, 0.7]], np.float32)
    found = maths.separation([(scores, np.eye(2, dtype=np.float32), 1.0)], np.arange(2))
    assert found.mean_distance == pytest.approx(0.5)


def test_the_means_of_a_mixture_agree_with_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    pairings, owner = two_branches()
    scores = every_score(pairings)
    matching = [scores[i, j] for i in range(20) for j in range(70) if owner[j] == i]
    others = [scores[i, j] for i in range(20) for j in range(70) if owner[j] != i]
    for elements in (maths.TILE_ELEMENTS, 64):
        monkeypatch.setattr(maths, "TILE_ELEMENTS", elements)
        found = maths.separation(pairings, owner)
        assert found.positive == pytest.approx(np.mean(matching), abs=1e-12)
        assert found.negative == pytest.approx(np.mean(others), abs=1e-12)
        assert found.mean_distance == pytest.approx(np.mean(matching) - np.mean(others), abs=1e-12)


def test_an_image_alone_has_no_others() -> None:
    found = maths.separation([(np.eye(1, 3), np.eye(2, 3), 1.0)], np.zeros(2, np.int64))
    assert np.isnan(found.negative)
    assert "md" not in retrieval_metrics(np.eye(1, 3), np.eye(2, 3), np.zeros(2, np.int64))


def test_the_counts_of_a_mixture_agree_with_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    pairings, owner = two_branches()
    scores, counts = every_score(pairings), {True: np.zeros(maths.BINS, int), False: np.zeros(maths.BINS, int)}
    for i in range(20):
        for j in range(70):
            counts[bool(owner[j] == i)][int((scores[i, j] + 1) * maths.BINS / 2)] += 1
    for elements in (maths.TILE_ELEMENTS, 150):
        monkeypatch.setattr(maths, "TILE_ELEMENTS", elements)
        found = maths.distributions(pairings, owner)
        np.testing.assert_array_equal(found.positive, counts[True])
        np.testing.assert_array_equal(found.negative, counts[False])
    assert (found.images, found.of_images) == (20, 20)
    part = maths.distributions(pairings, owner, pairs=5 * 70)
    assert part.images == 5
    assert part.positive.sum() + part.negative.sum() == 5 * 70


def test_it_is_one_of_the_metrics_of_a_model_and_of_an_ensemble() -> None:
    pairings, owner = two_branches()
    (v, w, _), (vc, wc, _) = pairings
    mixed = retrieval_metrics(v, w, owner, second=(vc, wc), weight=0.7)
    assert mixed["md"] == pytest.approx(maths.separation(pairings, owner).mean_distance)
    assert ensemble_metrics([Source(*one) for one in pairings], owner)["md"] == pytest.approx(mixed["md"])
