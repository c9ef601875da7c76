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


def test_by_hand() -> None:
    """Logits (log 3, 0): the first prototype has probability 3/4."""
    logits = prototype_logits(torch.tensor([[1.0, 0.0]]), torch.tensor([[math.log(3), 5.0], [0.0, -2.0]]))
    assert prototype_guided(logits, torch.tensor([0])).tolist() == pytest.approx([math.log(4 / 3)])
    assert prototype_guided(logits, torch.tensor([1])).tolist() == pytest.approx([math.log(4)])


def test_a_temperature_divides_the_logits() -> None:
    """Logit difference log 3 at temperature 1, 2 · log 3 at one half: probability 9/10."""
    rows, classifier = torch.tensor([[1.0, 0.0]]), torch.tensor([[math.log(3), 5.0], [0.0, -2.0]])
    logits = prototype_logits(rows, classifier, temperature=0.5)
    assert prototype_guided(logits, torch.tensor([0])).tolist() == pytest.approx([math.log(10 / 9)])
    with pytest.raises(ValueError, match="temperature must be > 0"):
        prototype_logits(rows, classifier, temperature=0.0)


@given(seed=st.integers(0, 10_000), pairs=st.integers(1, 6), count=st.integers(2, 7))
def test_both_modalities_agree_with_the_loops(seed: int, pairs: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    images, texts = (
        normalise(torch.randn(pairs, 4, generator=generator, dtype=torch.float64)) for _ in range(2)
    )
    classifier = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(count, (pairs,), generator=generator)
    actual = sum(prototype_guided(prototype_logits(side, classifier), labels) for side in (images, texts))
    expected = [
        reference.cross_entropy(image, classifier.tolist(), label)
        + reference.cross_entropy(text, classifier.tolist(), label)
        for image, text, label in zip(images.tolist(), texts.tolist(), labels.tolist(), strict=True)
    ]
    assert isinstance(actual, torch.Tensor)
    assert actual.tolist() == pytest.approx(expected, rel=1e-10)


def test_gradients() -> None:
    generator = torch.Generator().manual_seed(3)
    vectors = torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    classifier = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2, 2])
    assert gradcheck(lambda v, p: prototype_guided(prototype_logits(v, p), labels), (vectors, classifier))


def test_large_logits_stay_finite_and_half_precision_is_raised() -> None:
    assert prototype_guided(torch.tensor([[1e4, 0.0]]), torch.tensor([1])).tolist() == [1e4]
    half = torch.randn(3, 4).bfloat16()
    logits = prototype_logits(half, half)
    assert logits.dtype == torch.float32
    assert prototype_guided(logits.bfloat16(), torch.tensor([0, 1, 2])).dtype == torch.float32


@pytest.mark.parametrize("label", [-1, 2])
def test_a_label_without_a_row_is_refused(label: int) -> None:
    with pytest.raises(ValueError, match="labels run from 0 to 1"):
        prototype_guided(torch.zeros(1, 2), torch.tensor([label]))
