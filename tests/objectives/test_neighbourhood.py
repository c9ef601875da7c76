"""DIVERSITY, DISCREPANCY, and the weights of complementary samples."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coder_core.objectives.neighbour_weights import (
    drawn_neighbours,
    neighbour_sums,
    pair_weights,
    raw_scores,
    statistics,
    stats_share,
    upsilon,
)
from coder_core.ops import normalise
from tests.reference import neighbourhood as reference

MODALITIES = ["difference", "sum", "image", "text"]


def neighbourhood(seed: int, *, pairs: int = 9, count: int = 4, rows: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """(M, 3) float64 unit rows, (p,) their owners, (p, N) neighbours, some of them missing."""
    generator = torch.Generator().manual_seed(seed)
    values = normalise(torch.randn(rows, 3, generator=generator, dtype=torch.float64))
    owner = torch.randint(rows, (pairs,), generator=generator)
    neighbours = torch.stack([torch.randperm(pairs, generator=generator)[:count] for _ in range(pairs)])
    missing = torch.rand(pairs, count, generator=generator) < 0.2
    missing[:, 0] = False
    return values, owner, torch.where(missing, -1, neighbours)


def known(values: Tensor) -> Tensor:
    return torch.ones(len(values), dtype=torch.bool)


def present(row: Tensor) -> list[int]:
    return [j for j in row.tolist() if j >= 0]


def test_by_hand() -> None:
    """Three captions of three images at 0°, 60° and 90°, each the neighbour of the other two.

    Diversity of the first: neighbours at 60° and 90°, (1 + 2·cos 30° + 1) / 4. The neighbours of these are 0° and 90°
    (of the second) and 0° and 60° (of the third): cosines 1, 0, 1 and 0.5 with it.
    """
    angles = torch.tensor([0.0, 60.0, 90.0], dtype=torch.float64).deg2rad()
    values = torch.stack([angles.cos(), angles.sin()], 1)
    neighbours = torch.tensor([[1, 2], [0, 2], [0, 1]])
    found = raw_scores(values, known(values), torch.arange(3), neighbours, neighbours)
    assert found.diversity[0].item() == pytest.approx((2 + 2 * 0.8660254037844387) / 4)
    assert found.discrepancy[0].item() == pytest.approx(2.5 / 4)


@given(seed=st.integers(0, 10_000))
def test_means_equal_the_double_sums(seed: int) -> None:
    values, owner, neighbours = neighbourhood(seed)
    found = raw_scores(values, known(values), owner, neighbours, neighbours)
    rows = values[owner].tolist()
    for pair in range(len(owner)):
        near = present(neighbours[pair])
        again = [k for j in near for k in present(neighbours[j])]
        expected = reference.diversity([rows[j] for j in near])
        assert found.diversity[pair].item() == pytest.approx(expected, abs=1e-12)
        expected = reference.discrepancy(rows[pair], [rows[k] for k in again])
        assert found.discrepancy[pair].item() == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10_000))
def test_drawn_neighbours_of_neighbours_are_summed_as_drawn(seed: int) -> None:
    values, owner, neighbours = neighbourhood(seed)
    again = drawn_neighbours(neighbours, 2, torch.Generator().manual_seed(seed))
    found = raw_scores(values, known(values), owner, neighbours, again)
    rows = values[owner].tolist()
    for pair in range(len(owner)):
        drawn = [k for j in present(neighbours[pair]) for k in present(again[j])]
        expected = reference.discrepancy(rows[pair], [rows[k] for k in drawn])
        assert found.discrepancy[pair].item() == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 6))
def test_a_draw_keeps_neighbours_without_repetition_and_leaves_no_place_empty_that_could_be_filled(
    seed: int, count: int
) -> None:
    _, _, neighbours = neighbourhood(seed)
    drawn = drawn_neighbours(neighbours, count, torch.Generator().manual_seed(seed))
    assert drawn.shape == (len(neighbours), min(count, neighbours.shape[1]))
    for before, after in zip(neighbours, drawn, strict=True):
        kept = present(after)
        assert len(set(kept)) == len(kept) == min(count, len(present(before)))
        assert set(kept) <= set(present(before))


def test_the_same_generator_draws_the_same() -> None:
    _, _, neighbours = neighbourhood(3)
    first, second = (drawn_neighbours(neighbours, 2, torch.Generator().manual_seed(8)) for _ in range(2))
    assert torch.equal(first, second)


def test_what_has_no_embedding_yet_is_left_out_and_its_pair_weighs_like_the_average() -> None:
    values, owner, neighbours = neighbourhood(5, rows=9)
    owner = torch.arange(9)
    seen = known(values)
    seen[4] = False
    found = raw_scores(values.index_fill(0, torch.tensor([4]), torch.nan), seen, owner, neighbours, neighbours)
    rows = values.tolist()
    for pair in range(9):
        near = [j for j in present(neighbours[pair]) if j != 4]
        assert found.diversity[pair].item() == pytest.approx(reference.diversity([rows[j] for j in near]), abs=1e-12)
    others = torch.tensor([pair for pair in range(9) if pair != 4])
    assert found.discrepancy[4].item() == pytest.approx(found.discrepancy[others].mean().item())


def test_a_pair_without_neighbours_weighs_like_the_average() -> None:
    values, owner, neighbours = neighbourhood(6)
    neighbours[2] = -1
    found = raw_scores(values, known(values), owner, neighbours, neighbours)
    others = torch.tensor([pair for pair in range(len(owner)) if pair != 2])
    for raw in found:
        assert raw[2].item() == pytest.approx(raw[others].mean().item())
    nobody = torch.full_like(neighbours, -1)
    assert all(raw.tolist() == [0.0] * len(owner) for raw in raw_scores(values, known(values), owner, nobody, nobody))


def test_sums_of_rows_that_are_missing_are_zero() -> None:
    values = torch.eye(3)
    assert neighbour_sums(values, torch.tensor([[0, 2], [-1, -1]])).tolist() == [[1, 0, 1], [0, 0, 0]]


def test_embeddings_that_agree_have_the_highest_raw_scores() -> None:
    values = torch.ones(4, 1, dtype=torch.float64)
    neighbours = torch.tensor([[1, 2], [2, 3], [3, 0], [0, 1]])
    found = raw_scores(values, known(values), torch.arange(4), neighbours, neighbours)
    assert found.diversity.tolist() == [1.0] * 4
    assert found.discrepancy.tolist() == [1.0] * 4


@pytest.mark.parametrize("modalities", MODALITIES)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.5, 200))
def test_weights_agree_with_the_loops_and_sum_to_lambda(modalities: str, seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    images, texts = torch.rand(2, 7, generator=generator, dtype=torch.float64) * 2 - 1
    found = pair_weights(images, texts, scale=scale, modalities=modalities)  # type: ignore[arg-type]
    expected = reference.weights(images.tolist(), texts.tolist(), scale, modalities)
    assert found.tolist() == pytest.approx(expected, rel=1e-9)
    assert found.sum().item() == pytest.approx(scale)


def test_weights_by_hand() -> None:
    """λ = 2, α_X = (1.5, 0.5) and α_Y = (1, 1): both differ by 0.5, so the weights are alike; their sums do not."""
    images = torch.tensor([3.0, 1.0], dtype=torch.float64).log()
    texts = torch.zeros(2, dtype=torch.float64)
    assert pair_weights(images, texts, scale=2.0).tolist() == pytest.approx([1.0, 1.0])
    assert pair_weights(images, texts, scale=2.0, modalities="image").tolist() == pytest.approx([1.5, 0.5])
    share = 1 / (1 + 2.718281828459045)
    found = pair_weights(images, texts, scale=2.0, modalities="sum")
    assert found.tolist() == pytest.approx([2 * (1 - share), 2 * share])


def test_an_unknown_way_of_combining_is_an_error() -> None:
    with pytest.raises(ValueError, match="modalities must be"):
        pair_weights(torch.zeros(2), torch.zeros(2), scale=2.0, modalities="product")  # type: ignore[arg-type]


def test_direction_minus_one_weighs_the_diverse_and_zero_nobody() -> None:
    raw = torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64)
    for direction, order in ((-1, 1), (1, -1)):
        exponents = upsilon(raw, raw, diversity_share=1, discrepancy_share=0, direction=direction)
        weights = pair_weights(exponents, exponents, scale=3.0, modalities="image").tolist()
        assert all(order * (after - before) > 0 for before, after in pairwise(weights))
    level = upsilon(raw, raw, diversity_share=1, discrepancy_share=1, direction=0)
    for modalities in MODALITIES:
        found = pair_weights(level, level, scale=3.0, modalities=modalities)  # type: ignore[arg-type]
        assert found.tolist() == pytest.approx([1.0] * 3)


def test_shares_weigh_the_two_scores() -> None:
    first, second = torch.tensor([0.2, 0.4]), torch.tensor([0.7, 0.1])
    found = upsilon(first, second, diversity_share=3, discrepancy_share=2, direction=-1)
    assert found.tolist() == pytest.approx([-2.0, -1.4])


def test_statistics_are_of_the_raw_scores_of_both_modalities() -> None:
    """Values 0, 1, 2, 5: mean 2, population variance 3.5."""
    raw = torch.tensor([[0.0, 1.0], [2.0, 5.0]], dtype=torch.float64)
    assert statistics(raw) == pytest.approx((2.0, 3.5**0.5))
    assert stats_share(raw) == pytest.approx(2 * 3.5**0.5)


def test_statistics_without_gamma_keep_the_direction() -> None:
    """With Γ inside, μ·σ would be negative and turn the weights round."""
    raw = torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64)
    share = stats_share(raw)
    exponents = upsilon(raw, raw, diversity_share=share, discrepancy_share=0, direction=-1)
    assert share > 0
    assert exponents[0] < exponents[1] < exponents[2]


def test_weights_carry_no_gradient_from_the_scores_of_a_whole_epoch() -> None:
    """What comes in is a cache without gradient, so what comes out has none."""
    values, owner, neighbours = neighbourhood(1)
    found = raw_scores(values, known(values), owner, neighbours, neighbours)
    weights = pair_weights(found.diversity, found.discrepancy, scale=9.0)
    assert not weights.requires_grad


def test_blocks_of_columns_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    values, owner, neighbours = neighbourhood(7)
    whole = raw_scores(values, known(values), owner, neighbours, neighbours)
    monkeypatch.setattr("coder_core.objectives.neighbour_weights.COLUMNS_AT_ONCE", 2)
    blocks = raw_scores(values, known(values), owner, neighbours, neighbours)
    torch.testing.assert_close(blocks.diversity, whole.diversity)
    torch.testing.assert_close(blocks.discrepancy, whole.discrepancy)
