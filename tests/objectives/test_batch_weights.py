"""HAL, MITHUN and AMRANI as weights of a batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coder_core.objectives.batch_weights import (
    AMRANI_NEIGHBOURS,
    HAL_SHARPNESS,
    HAL_THRESHOLD,
    density_weights,
    hub_weights,
    rank_weights,
)
from coder_core.ops import normalise
from tests.reference import batch_weights as reference


def batch(seed: int, size: int = 12) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(B, 4) float64 images and captions, (B,) ids of which some repeat, and who is a negative of whom."""
    generator = torch.Generator().manual_seed(seed)
    images, captions = normalise(torch.randn(2, size, 4, generator=generator, dtype=torch.float64))
    ids = torch.randint(size - 2, (size,), generator=generator)
    return images, captions, ids, ids[:, None] != ids[None, :]


@given(seed=st.integers(0, 10_000), scale=st.floats(0.5, 100))
def test_all_three_agree_with_the_loops_and_sum_to_lambda(seed: int, scale: float) -> None:
    images, captions, ids, negatives = batch(seed)
    scores, names = images @ captions.T, ids.tolist()
    matrix = scores.tolist()
    near, close = images @ images.T, captions @ captions.T
    cases = [
        (hub_weights(scores, negatives, scale=scale),
         reference.hub_weights(matrix, names, scale, HAL_SHARPNESS, HAL_THRESHOLD)),
        (rank_weights(scores, negatives, scale=scale), reference.rank_weights(matrix, names, scale)),
        (density_weights(near, close, negatives, scale=scale),
         reference.density_weights(near.tolist(), close.tolist(), names, scale, AMRANI_NEIGHBOURS)),
    ]  # fmt: skip
    for found, expected in cases:
        assert found.tolist() == pytest.approx(expected, rel=1e-9)
        assert found.sum().item() == pytest.approx(scale)


def test_ranks_by_hand() -> None:
    """Three pairs. The first image ranks its caption last of three, the others first; captions rank theirs first."""
    scores = torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]])
    negatives = ~torch.eye(3, dtype=torch.bool)
    first, last = 1 + 1 / 3, 2.0
    raw = torch.tensor([(last + first) / 2, first, first])
    torch.testing.assert_close(rank_weights(scores, negatives, scale=3.0), 3 * raw / raw.sum())


def test_a_tie_counts_above_the_positive() -> None:
    scores = torch.tensor([[0.5, 0.5], [0.0, 0.5]])
    found = rank_weights(scores, ~torch.eye(2, dtype=torch.bool), scale=2.0)
    assert found.tolist() == pytest.approx([1.0, 1.0])  # both rank last in one direction, first in the other
    worse = rank_weights(torch.tensor([[0.5, 0.5], [0.6, 0.7]]), ~torch.eye(2, dtype=torch.bool), scale=2.0)
    assert worse[0] > worse[1]


def test_a_hub_weighs_most() -> None:
    """Caption 2 comes near every image."""
    scores = torch.full((4, 4), -0.2)
    scores[:, 2] = 0.6
    found = hub_weights(scores, ~torch.eye(4, dtype=torch.bool), scale=4.0)
    assert found.argmax().item() == 2
    assert found[0].item() == pytest.approx(found[1].item())


def test_both_modalities_have_to_be_dense() -> None:
    """Pairs 0 and 1 agree in image and caption, 2 and 3 in their images alone."""
    images = torch.tensor([[1.0, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1]])
    captions = torch.tensor([[1.0, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    found = density_weights(images, captions, ~torch.eye(4, dtype=torch.bool), scale=4.0)
    assert found[0] == found[1] > found[2] == found[3]


def test_a_batch_of_one_image_weighs_all_alike() -> None:
    images, captions, _, _ = batch(4)
    nobody = torch.zeros(12, 12, dtype=torch.bool)
    for found in (
        hub_weights(images @ captions.T, nobody, scale=12.0),
        rank_weights(images @ captions.T, nobody, scale=12.0),
        density_weights(images @ images.T, captions @ captions.T, nobody, scale=12.0),
    ):
        assert found.tolist() == pytest.approx([1.0] * 12)


def test_scores_far_from_zero_stay_finite() -> None:
    scores = torch.full((3, 3), 1.0)
    found = hub_weights(scores * 50, ~torch.eye(3, dtype=torch.bool), scale=3.0)
    assert found.tolist() == pytest.approx([1.0] * 3)
