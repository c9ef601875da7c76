"""Prototype-guided classification."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.objectives.prototype_guided import prototype_guided, prototype_logits
from coder_core.ops import normalise
from tests.reference import prototypes as reference


@pytest.mark.parametrize(
    ("temperature", "label", "expected"), [(1.0, 0, 4 / 3), (1.0, 1, 4), (0.5, 0, 10 / 9)]
)
def test_by_hand(temperature, label, expected):
    """Logits (log 3, 0): the first prototype has probability 3/4, at a temperature of one half 9/10."""
    rows, classifier = torch.tensor([[1.0, 0.0]]), torch.tensor([[math.log(3), 5.0], [0.0, -2.0]])
    logits = prototype_logits(rows, classifier, temperature=temperature)
    assert prototype_guided(logits, torch.tensor([label])).tolist() == pytest.approx([math.log(expected)])


@given(seed=st.integers(0, 10_000), pairs=st.integers(1, 6), count=st.integers(2, 7))
def test_both_modalities_agree_with_the_loops(seed, pairs, count):
    generator = torch.Generator().manual_seed(seed)
    images, texts = normalise(torch.randn(2, pairs, 4, generator=generator, dtype=torch.float64))
    classifier = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(count, (pairs,), generator=generator)
    actual = sum(prototype_guided(prototype_logits(side, classifier), labels) for side in (images, texts))
    rows, loop = classifier.tolist(), reference.cross_entropy
    expected = [
        loop(image, rows, label) + loop(text, rows, label)
        for image, text, label in zip(images.tolist(), texts.tolist(), labels.tolist(), strict=True)
    ]
    assert actual.tolist() == pytest.approx(expected, rel=1e-10)


def test_gradients():
    rows = torch.randn(9, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    vectors, classifier = (part.clone().requires_grad_() for part in rows.split([4, 5]))
    labels = torch.tensor([0, 4, 2, 2])
    assert gradcheck(lambda v, p: prototype_guided(prototype_logits(v, p), labels), (vectors, classifier))


def test_large_logits_stay_finite_half_precision_is_raised_and_what_is_impossible_refused():
    assert prototype_guided(torch.tensor([[1e4, 0.0]]), torch.tensor([1])).tolist() == [1e4]
    half = torch.randn(3, 4).bfloat16()
    logits = prototype_logits(half, half)
    assert logits.dtype == prototype_guided(logits.bfloat16(), torch.tensor([0, 1, 2])).dtype == torch.float32
    for label in (-1, 2):
        with pytest.raises(ValueError, match="labels run from 0 to 1"):
            prototype_guided(torch.zeros(1, 2), torch.tensor([label]))
    with pytest.raises(ValueError, match="temperature must be > 0"):
        prototype_logits(torch.zeros(1, 2), torch.zeros(2, 2), temperature=0.0)
