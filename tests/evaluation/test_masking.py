"""Masking: interactions and areas against loops over all subsets, and the masks for many players."""

import numpy as np
import pytest

from coder_core.evaluation.masking import STEPS, area_between, curve_masks, draw_masks, effects, interactions
from tests.reference import masking as loops


def encoder(players, seed):
    """Return a nonlinear function of a subset, (D,) unit row, float64."""
    random = np.random.default_rng(seed)
    weights = random.normal(size=(players, 5))
    more = random.normal(size=(5, 5))
    offset = random.normal(size=5)

    def encode(kept):
        row = np.tanh(np.tanh(np.array(kept, np.float64) @ weights + offset) @ more)
        return row / np.linalg.norm(row)

    return encode


def test_interactions_of_all_subsets_are_banzhafs():
    picture = encoder(4, 0)
    text = encoder(3, 1)
    cell_masks = draw_masks(4)
    word_masks = draw_masks(3)
    cells = effects(cell_masks, np.stack([picture(mask) for mask in cell_masks]))
    words = effects(word_masks, np.stack([text(mask) for mask in word_masks]))
    actual = interactions(words, cells)
    for word in range(3):
        for cell in range(4):
            expected = loops.banzhaf_interaction(
                lambda kept: picture(kept[:4]) @ text(kept[4:]), 7, 4 + word, cell
            )
            assert actual[word, cell] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("players", [7, 49, 63, 64])
def test_many_players_are_in_half_of_the_masks_and_uncorrelated(players):
    masks = draw_masks(players)
    signs = np.where(masks, 1, -1)
    assert len(masks) == (256 if players == 64 else 128)
    np.testing.assert_array_equal(signs.T @ signs, len(masks) * np.eye(players, dtype=int))
    assert {tuple(row) for row in ~masks} == {tuple(row) for row in masks}
    first = masks[: len(masks) // 2]  # the others are their complements
    assert (first.sum(0) == len(first) // 2).all()
    random = np.random.default_rng(2)
    linear = random.normal(size=(players, 3))
    pairs = random.normal(size=(players, players, 3))
    kept = signs.astype(np.float64)
    rows = kept @ linear / 2 + np.einsum("ni,nj,ijd->nd", kept, kept, pairs)
    np.testing.assert_allclose(effects(masks, rows), linear, atol=1e-9)  # pairs cancel


def test_up_to_six_players_have_all_subsets_and_more_have_random_ones():
    assert len({tuple(mask) for mask in draw_masks(6)}) == 64
    assert len(draw_masks(7)) == 128
    masks = draw_masks(49)
    np.testing.assert_array_equal(masks, draw_masks(49, seed=0))
    assert (masks != draw_masks(49, seed=1)).any()
    assert 10 < masks[0].sum() < 39  # not all: signs are random, too


def test_estimated_interactions_are_near_the_exact_ones():
    """Eight cells: 128 of 256 subsets."""
    picture = encoder(8, 3)
    row = encoder(2, 4)((True, True))
    masks = draw_masks(8)
    estimate = effects(masks, np.stack([picture(mask) for mask in masks])) @ row
    all_masks = (np.arange(256)[:, None] >> np.arange(8)) & 1 == 1
    exact = effects(all_masks, np.stack([picture(mask) for mask in all_masks])) @ row
    assert np.corrcoef(estimate, exact)[0, 1] > 0.95


def test_area_between_curves_by_loops_rewards_the_right_order():
    weights = np.linspace(2, 0.1, 23) ** 2
    importance = weights.copy()
    inserted, deleted = curve_masks(importance)
    assert inserted.shape == (STEPS + 1, 23)
    curves = [masks @ weights for masks in (inserted, deleted)]
    counts = np.linspace(0, 23, STEPS + 1).round().astype(int)
    expected = loops.area_between(lambda kept: float(np.dot(kept, weights)), importance, counts)
    assert area_between(*curves) == pytest.approx(expected)
    wrong = [masks @ weights for masks in curve_masks(-importance)]
    assert area_between(*wrong) == pytest.approx(-expected, rel=0.05)
    assert area_between(*curves) > 0
    importance[0] = np.nan  # not covered: it comes last
    inserted, _ = curve_masks(importance)
    assert inserted[-1, 0]
    assert not inserted[:-1, 0].any()
