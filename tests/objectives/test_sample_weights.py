"""Sample weights: neighbour diversity and discrepancy, COMBINED, HAL, MITHUN and AMRANI; losses within a modality."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coder_core.objectives import batch_weights as source
from coder_core.objectives.complementary import (
    combination_shares,
    combined_weights,
    is_neighbour,
    neighbour_scores,
    pair_weights,
    sample_neighbours,
)
from coder_core.ops import normalise
from tests.reference import batch_weights as of_batches
from tests.reference import neighbourhood as reference

MODALITIES = ["difference", "sum", "image", "text"]
LEVELS = torch.tensor([[0.9, 0.9], [0.5, 0.5], [0.1, 0.1]], dtype=torch.float64)


def neighbourhood(seed, *, rows=5):
    """Draw (M, 3) float64 unit rows, (9,) owners and (9, 4) neighbours, some of them missing (−1)."""
    generator = torch.Generator().manual_seed(seed)
    values = normalise(torch.randn(rows, 3, generator=generator, dtype=torch.float64))
    owner = torch.randint(rows, (9,), generator=generator)
    neighbours = torch.stack([torch.randperm(9, generator=generator)[:4] for _ in range(9)])
    missing = torch.rand(9, 4, generator=generator) < 0.5
    missing[:, 0] = False
    return values, owner, torch.where(missing, -1, neighbours)


def scores_of(values, owner, neighbours, second=None):
    """Return diversity and discrepancy if all rows are known; `second` are sampled neighbours of neighbours."""
    every = torch.ones(len(values), dtype=torch.bool)
    return neighbour_scores(values, every, owner, neighbours, neighbours if second is None else second)


def present(row):
    return [j for j in row.tolist() if j >= 0]


def test_scores_and_shares_by_hand_and_in_blocks_of_columns(monkeypatch):
    """Three captions of three images at 0°, 60° and 90°, each the neighbour of the other two. Diversity of the
    first: neighbours at 60° and 90°, (1 + 2·cos 30° + 1) / 4. The neighbours of these are 0° and 90° (of the
    second) and 0° and 60° (of the third): cosines 1, 0, 1 and 0.5 with it."""
    angles = torch.tensor([0.0, 60.0, 90.0], dtype=torch.float64).deg2rad()
    values = torch.stack([angles.cos(), angles.sin()], 1)
    actual = scores_of(values, torch.arange(3), torch.tensor([[1, 2], [0, 2], [0, 1]]))
    assert actual.diversity[0].item() == pytest.approx((2 + 2 * 0.8660254037844387) / 4)
    assert actual.discrepancy[0].item() == pytest.approx(2.5 / 4)
    # COMBINED-STATS: values 0, 1, 2, 5 have the mean 2 and the population variance 3.5
    raw = torch.tensor([[0.0, 1.0], [2.0, 5.0]], dtype=torch.float64)
    assert combination_shares("diversity", raw, raw) == combination_shares("random", raw, raw) == (1, 0)
    assert combination_shares("discrepancy", raw, raw) == (0, 1)
    assert combination_shares("combined", raw, raw) == (1, 1)
    assert combination_shares("combined", raw, raw, validated=(0.6, 0.2)) == (0.6, 0.2)
    assert combination_shares("combined-stats", raw, 2 * raw) == pytest.approx((2 * 3.5**0.5, 8 * 3.5**0.5))
    with pytest.raises(ValueError, match="kind must be"):
        combination_shares("hal", raw, raw)
    whole = scores_of(*neighbourhood(7))
    monkeypatch.setattr("coder_core.objectives.complementary.COLUMNS_AT_ONCE", 2)
    torch.testing.assert_close(scores_of(*neighbourhood(7)), whole)


@pytest.mark.parametrize("sampled", [False, True])
@given(seed=st.integers(0, 10_000))
def test_neighbour_scores_equal_double_sums(sampled, seed):
    values, owner, neighbours = neighbourhood(seed)
    second = sample_neighbours(neighbours, 2, torch.Generator().manual_seed(seed)) if sampled else neighbours
    actual = scores_of(values, owner, neighbours, second)
    rows = values[owner].tolist()
    for pair in range(len(owner)):
        first = present(neighbours[pair])
        expected = reference.diversity([rows[j] for j in first])
        assert actual.diversity[pair].item() == pytest.approx(expected, abs=1e-12)
        expected = reference.discrepancy(rows[pair], [rows[k] for j in first for k in present(second[j])])
        assert actual.discrepancy[pair].item() == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6))
def test_sampled_neighbours_are_distinct_and_fill_every_place(seed, count):
    _, _, neighbours = neighbourhood(seed)
    drawn = sample_neighbours(neighbours, count, torch.Generator().manual_seed(seed))
    assert drawn.shape == (len(neighbours), min(count, neighbours.shape[1]))
    for before, after in zip(neighbours, drawn, strict=True):
        drawn_rows = present(after)
        assert len(set(drawn_rows)) == len(drawn_rows) == min(count, len(present(before)))
        assert set(drawn_rows) <= set(present(before))


def test_pairs_without_embedding_or_neighbours_get_the_mean_score():
    values, _, neighbours = neighbourhood(5, rows=9)
    rows = values.tolist()
    values[4] = torch.nan
    actual = neighbour_scores(values, torch.arange(9) != 4, torch.arange(9), neighbours, neighbours)
    for pair in range(9):
        expected = reference.diversity([rows[j] for j in present(neighbours[pair]) if j != 4])
        assert actual.diversity[pair].item() == pytest.approx(expected, abs=1e-12)
    embedded = actual.discrepancy[torch.arange(9) != 4]
    assert actual.discrepancy[4].item() == pytest.approx(embedded.mean().item())
    values, owner, neighbours = neighbourhood(6)
    neighbours[2] = -1
    for raw in scores_of(values, owner, neighbours):
        assert raw[2].item() == pytest.approx(raw[torch.arange(len(owner)) != 2].mean().item())
    nobody = torch.full_like(neighbours, -1)
    assert all(raw.tolist() == [0.0] * len(owner) for raw in scores_of(values, owner, nobody))


@pytest.mark.parametrize("modalities", MODALITIES)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.5, 200))
def test_weights_match_loops_and_sum_to_lambda(modalities, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    images, texts = torch.rand(2, 7, generator=generator, dtype=torch.float64) * 2 - 1
    actual = pair_weights(images, texts, scale=scale, modalities=modalities)
    expected = reference.weights(images.tolist(), texts.tolist(), scale, modalities)
    assert actual.tolist() == pytest.approx(expected, rel=1e-9)
    assert actual.sum().item() == pytest.approx(scale)


def test_weights_directions_and_shares_by_hand():
    """λ = 2, α_X = (1.5, 0.5) and α_Y = (1, 1): both differ by 0.5, so the weights are alike; their sums do not."""
    images = torch.tensor([3.0, 1.0], dtype=torch.float64).log()
    texts = torch.zeros(2, dtype=torch.float64)
    assert pair_weights(images, texts, scale=2.0).tolist() == pytest.approx([1.0, 1.0])
    assert pair_weights(images, texts, scale=2.0, modalities="image").tolist() == pytest.approx([1.5, 0.5])
    share = 1 / (1 + 2.718281828459045)
    actual = pair_weights(images, texts, scale=2.0, modalities="sum")
    assert actual.tolist() == pytest.approx([2 * (1 - share), 2 * share])
    with pytest.raises(ValueError, match="modalities must be"):
        pair_weights(images, texts, scale=2.0, modalities="product")
    # Also with the statistics, which must not include Γ: it would make μ·σ negative and reverse the
    # weights
    for kind in ("diversity", "combined-stats"):
        for direction, order in ((-1, 1), (1, -1)):
            weights = combined_weights(kind, LEVELS, LEVELS, direction=direction, modalities="image")
            assert all(order * (after - before) > 0 for before, after in pairwise(weights.tolist()))
    for modalities in MODALITIES:
        level = combined_weights("combined", LEVELS, LEVELS, direction=0, modalities=modalities)
        assert level.tolist() == pytest.approx([1.0] * 3)
    # Exponents −(3·0.2 + 2·0.7) = −2 and −(3·0.4 + 2·0.1) = −1.4 of images and captions alike
    diversity = torch.tensor([[0.2] * 2, [0.4] * 2])
    discrepancy = torch.tensor([[0.7] * 2, [0.1] * 2])
    actual = combined_weights("combined", diversity, discrepancy, shares=(3, 2), scale=0.5, modalities="text")
    torch.testing.assert_close(actual, torch.tensor([-2.0, -1.4]).softmax(0))


def batch(seed, size):
    """Draw (B, 4) float64 images and captions, and (B,) ids, some of which repeat."""
    generator = torch.Generator().manual_seed(seed)
    images, captions = normalise(torch.randn(2, size, 4, generator=generator, dtype=torch.float64))
    return images, captions, torch.randint(size - 2, (size,), generator=generator)


@given(seed=st.integers(0, 10_000), size=st.integers(4, 12), scale=st.floats(0.5, 100))
def test_hal_mithun_and_amrani_weights_match_loops_and_sum_to_lambda(seed, size, scale):
    images, captions, ids = batch(seed, size)
    scores = images @ captions.T
    names = ids.tolist()
    negatives = ids[:, None] != ids
    sides = (images @ images.T).tolist(), (captions @ captions.T).tolist()
    hal = source.HAL_SHARPNESS, source.HAL_THRESHOLD
    loops = {
        "hal": of_batches.hub_weights(scores.tolist(), names, scale, *hal),
        "mithun": of_batches.rank_weights(scores.tolist(), names, scale),
        "amrani": of_batches.density_weights(*sides, names, scale, source.AMRANI_NEIGHBOURS),
    }
    for kind, expected in loops.items():
        actual = source.batch_weights(kind, scores, images, captions, negatives, scale=scale)
        assert actual.tolist() == pytest.approx(expected, rel=1e-9)
        assert actual.sum().item() == pytest.approx(scale)
        one_image = source.batch_weights(kind, scores, images, captions, negatives & False, scale=size)
        assert one_image.tolist() == pytest.approx([1.0] * size)


def others(size):
    return ~torch.eye(size, dtype=torch.bool)


def test_rank_hub_and_density_weights_by_hand():
    """Three pairs. The first image ranks its caption last, also behind one with the same score; the other
    images and all captions rank their match first."""
    scores = torch.tensor([[0.1, 0.1, 0.3], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]])
    first = 1 + 1 / 3
    last = 2.0
    raw = torch.tensor([(last + first) / 2, first, first])
    torch.testing.assert_close(source.rank_weights(scores, others(3), scale=3.0), 3 * raw / raw.sum())
    # Caption 2 is near every image; scores far from zero give finite weights
    scores = torch.full((4, 4), -0.2)
    scores[:, 2] = 0.6
    actual = source.hub_weights(scores, others(4), scale=4.0)
    assert (actual.argmax().item(), actual[0].item()) == (2, pytest.approx(actual[1].item()))
    far = source.hub_weights(torch.full((3, 3), 50.0), others(3), scale=3.0)
    assert far.tolist() == pytest.approx([1.0] * 3)
    # Pairs 0 and 1 agree in image and caption, 2 and 3 in their images only
    images = torch.eye(4)
    captions = torch.eye(4)
    for side, i, j in ((images, 0, 1), (captions, 0, 1), (images, 2, 3)):
        side[i, j] = side[j, i] = 0.9
    actual = source.density_weights(images, captions, others(4), scale=4.0)
    assert actual[0] == actual[1] > actual[2] == actual[3]


@given(
    rows=st.lists(st.lists(st.integers(-1, 6), min_size=3, max_size=3), min_size=1, max_size=4),
    candidates=st.lists(st.integers(0, 7), min_size=1, max_size=5),
)
def test_neighbours_in_the_batch_are_found(rows, candidates):
    expected = [[candidate in row for candidate in candidates] for row in rows]
    assert is_neighbour(torch.tensor(rows), torch.tensor(candidates)).tolist() == expected
