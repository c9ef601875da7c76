"""The scaled matrices against loops, block means against the sharp cells, and every number of one pair."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.api.diversity import Loss
from coder_core.api.sides import Sides, sides
from coder_core.api.similarity import scaling
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from tests.reference.scaling import scaled as reference
from tests.support.run_folders import synthetic

LOSS = Loss(temperature=0.08, gamma=0.25, epsilon=0.15)


def problem(images: int = 9, direction: str = "image") -> Sides:
    v, w, owner = synthetic(images, noise=1.0)
    return sides(v, w, owner, direction)  # type: ignore[arg-type]


def pairs(count: int = 12) -> Sides:
    """A batch of pairs in which two images stand twice."""
    v, w, owner = synthetic(count - 2, noise=1.0)
    texts = np.array([0, 1, 5, 6, *range(10, 5 * (count - 4) + 10, 5)])[:count]
    return Sides(v[owner[texts]], w[texts], owner[texts], owner[texts])


@pytest.mark.parametrize("direction", ["image", "text"])
def test_every_cell_agrees_with_the_loops(direction: str) -> None:
    s = problem(direction=direction)
    found = scaling.scale(s, scaling.anchor_diversity(s, LOSS), LOSS)
    scores = s.anchors.astype(np.float64) @ s.candidates.T.astype(np.float64)
    negative = s.anchor_images[:, None] != s.candidate_images[None]
    diversity, exponent, plain, share = reference(
        scores, negative, temperature=0.08, gamma=0.25, epsilon=0.15
    )
    assert (found.row_step, found.column_step) == (1, 1)
    np.testing.assert_allclose(found.spread.diversity, diversity, rtol=1e-6)
    np.testing.assert_array_equal(found.spread.negatives, negative.sum(1))
    np.testing.assert_allclose(found.similarity, scores, atol=1e-6)
    np.testing.assert_allclose(found.exponent, exponent, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.change, exponent - plain, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.share, share, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("tile", [1, 37, 1_000_000])
@pytest.mark.parametrize(("images", "cells"), [(9, 4), (10, 7), (8, 8), (5, 2)])
def test_blocks_are_the_means_of_their_cells(
    images: int, cells: int, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = problem(images)
    spread = scaling.anchor_diversity(s, LOSS)
    sharp = scaling.scale(s, spread, LOSS, cells=10_000)
    monkeypatch.setattr(scaling, "TILE", tile)
    blocks = scaling.scale(s, spread, LOSS, cells=cells)
    r, c = blocks.row_step, blocks.column_step
    assert max(blocks.similarity.shape) <= cells
    for name in ("similarity", "exponent", "change", "share"):
        cell, block = getattr(sharp, name), getattr(blocks, name)
        for i in range(block.shape[0]):
            for j in range(block.shape[1]):
                part = cell[i * r : (i + 1) * r, j * c : (j + 1) * c]
                expected = np.nan if np.isnan(part).all() else np.nanmean(part)
                np.testing.assert_allclose(block[i, j], expected, rtol=1e-4, atol=1e-6)


def test_a_large_matrix_is_never_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest array made on the way is a tile, though the matrix has a hundred times as many cells."""
    s = problem(400)
    spread = scaling.anchor_diversity(s, LOSS)
    monkeypatch.setattr(scaling, "TILE", 8_000)
    seen = []
    honest = scaling.shares

    def watch(tile: np.ndarray, *rest: object) -> np.ndarray:
        seen.append(tile.size)
        return honest(tile, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(scaling, "shares", watch)
    found = scaling.scale(s, spread, LOSS)
    assert max(seen) <= 8_000
    assert sum(seen) == 400 * 2_000
    assert found.similarity.shape == (200, 250)


def test_small_temperatures_do_not_overflow() -> None:
    s = problem()
    loss = Loss(temperature=0.001, gamma=-1.0, epsilon=0.1)
    found = scaling.scale(s, scaling.anchor_diversity(s, loss), loss)
    np.testing.assert_allclose(np.nansum(found.share, 1), 1.0, rtol=1e-4)
    with pytest.raises(ValueError, match="temperature must be > 0"):
        scaling.scale(s, scaling.anchor_diversity(s, LOSS), Loss(temperature=0.0))


def test_one_pair_by_hand() -> None:
    """Anchor (1, 0) sees its own (1, 0), and negatives at 0.6 and 0.0: mean 0.3, deviation 0.3."""
    v = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], np.float32)
    s = Sides(v, v, np.arange(3), np.arange(3))
    loss = Loss(temperature=0.1, gamma=0.3, epsilon=0.1)
    spread = scaling.anchor_diversity(s, loss)
    pair = scaling.open_pair(s, spread, loss, 0, 1, paired=True)
    assert pair.negatives == 2
    assert pair.spread == pytest.approx(0.3, abs=1e-6)
    assert pair.raw == pytest.approx(1 + np.exp(-0.1 / 0.3), abs=1e-6)
    assert pair.diversity == pytest.approx(pair.raw / pair.largest)
    assert pair.plain == pytest.approx(3.0, abs=1e-5)
    assert pair.exponent == pytest.approx(3.0 / pair.diversity, abs=1e-5)
    assert pair.total_plain == pytest.approx(1 + np.exp(3.0) + np.exp(-3.0), rel=1e-5)
    assert pair.share_plain == pytest.approx(np.exp(3.0) / pair.total_plain, rel=1e-5)
    assert pair.share == pytest.approx(np.exp(pair.exponent) / pair.total, rel=1e-6)
    assert pair.positive == pytest.approx(1.0)
    own = scaling.open_pair(s, spread, loss, 2, 2, paired=True)
    assert own.own
    assert np.isnan(own.exponent)
    with pytest.raises(IndexError, match="no cell"):
        scaling.open_pair(s, spread, loss, 3, 0, paired=True)


def test_the_pairs_of_a_batch_add_up_to_the_training_loss() -> None:
    """`open_pair` of every diagonal cell is what the objective says about the same scores."""
    import torch

    s = pairs()
    spread = scaling.anchor_diversity(s, LOSS)
    scores = torch.from_numpy(s.anchors.astype(np.float64) @ s.candidates.T.astype(np.float64))
    negatives = torch.from_numpy(s.anchor_images[:, None] != s.candidate_images[None])
    expected = diversity_contrastive(
        scores,
        scores.diagonal(),
        negatives,
        diversity=torch.from_numpy(spread.diversity),
        temperature=0.08,
        margin=0.25,
    )
    plain = diversity_contrastive(scores, scores.diagonal(), negatives, temperature=0.08, margin=0.25)
    opened = [scaling.open_pair(s, spread, LOSS, k, k, paired=True) for k in range(len(s.anchors))]
    np.testing.assert_allclose([pair.loss_value for pair in opened], expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose([pair.loss_plain for pair in opened], plain.numpy(), rtol=1e-5)


def test_cells_and_pairs_say_the_same() -> None:
    s = pairs()
    spread = scaling.anchor_diversity(s, LOSS)
    found = scaling.scale(s, spread, LOSS)
    for anchor in range(len(s.anchors)):
        for candidate in range(len(s.candidates)):
            pair = scaling.open_pair(s, spread, LOSS, anchor, candidate, paired=True)
            assert pair.own == np.isnan(found.exponent[anchor, candidate])
            np.testing.assert_allclose(pair.similarity, found.similarity[anchor, candidate], atol=1e-6)
            np.testing.assert_allclose(pair.exponent, found.exponent[anchor, candidate], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(pair.share, found.share[anchor, candidate], rtol=1e-4, atol=1e-7)
