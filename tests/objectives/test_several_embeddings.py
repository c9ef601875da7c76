"""PVSE's regularisers agree with the loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coder_core.objectives import head_diversity, mean_discrepancy
from coder_core.ops import normalise
from tests.reference import scorers as reference


def samples(seed, batch=4, heads=3):
    """Draw (2, B, K, 5) float64 embeddings of images and captions."""
    return torch.randn(2, batch, heads, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(seed=st.integers(0, 10_000), heads=st.integers(1, 4))
def test_head_diversity_matches_loops(seed, heads):
    residuals = samples(seed, heads=heads)[0]
    expected = list(map(reference.head_diversity, residuals.tolist()))
    assert head_diversity(residuals).tolist() == pytest.approx(expected, abs=1e-12)


def test_head_diversity_by_hand_and_its_gradients():
    """Orthogonal heads cost nothing whatever their length; three equal ones √6 / 9; the sign does not matter."""
    orthogonal = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    equal = torch.ones(3, 3)
    opposite = equal * torch.tensor([[1.0], [-1.0], [1.0]])
    actual = head_diversity(torch.stack([orthogonal, equal, opposite, torch.zeros(3, 3)]))
    torch.testing.assert_close(actual, torch.tensor([0.0, 6**0.5 / 9, 6**0.5 / 9, 0.0]))
    # Orthogonal heads and equal vectors have finite gradients
    both = samples(3).requires_grad_()
    assert torch.autograd.gradcheck(lambda sides: head_diversity(sides[0]), both)
    assert torch.autograd.gradcheck(lambda sides: mean_discrepancy(*sides, *sides), both)
    heads = torch.eye(3).unsqueeze(0).requires_grad_()
    images = torch.ones(40, 3, 4).requires_grad_()
    head_diversity(heads).sum().backward()
    # enough rows for the distance by a product
    units = normalise(images)
    texts = torch.ones(40, 3, 4)
    mean_discrepancy(units, texts, units, texts).mean().backward()
    for gradient in (heads.grad, images.grad):
        assert gradient.isfinite().all()


@given(seed=st.integers(0, 10_000))
def test_the_mean_discrepancy_matches_loops(seed):
    images, texts = normalise(samples(seed))
    expected = reference.discrepancy(images.flatten(0, 1).tolist(), texts.flatten(0, 1).tolist())
    shares = mean_discrepancy(images, texts, images, texts)
    assert shares.mean().item() == pytest.approx(expected)
    assert shares.mean() >= 0
    parts = [mean_discrepancy(images[part], texts[part], images, texts) for part in (slice(1), slice(1, 4))]
    torch.testing.assert_close(torch.cat(parts), shares)  # as several processes share a batch
    assert mean_discrepancy(images, images, images, images).abs().max() < 1e-12
