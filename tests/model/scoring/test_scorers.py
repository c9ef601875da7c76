"""Scorers and their gradients agree with loops, for all sizes of blocks and padding."""

import pytest
import torch

from coder_core.model import scoring
from coder_core.model.scoring import InteractionScorer, PVSEScorer
from coder_core.objectives.pairs import CosineScorer
from coder_core.ops import normalise
from tests.reference import scorers as reference


def samples(count, longest, size, seed):
    """Return unit rows and lengths from 1 to `longest`; rows beyond a length are not zero, so reading them shows."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, longest, size, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    return normalise(rows), lengths


def scorer(size):
    torch.manual_seed(3)
    model = InteractionScorer(size, size=4, sharpness=9.0).double()
    for layer in (model.align, model.score):
        torch.nn.init.normal_(layer.bias, std=0.1)
    return model


def test_the_best_pair_by_hand_and_by_loops():
    """Embeddings (1, 0) and (0, 1) of an image, (0.6, 0.8) and (−1, 0) of a caption: the largest product is 0.8."""
    image = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    text = torch.tensor([[[0.6, 0.8], [-1.0, 0.0]]])
    assert PVSEScorer()(image, text).tolist() == [[pytest.approx(0.8)]]
    images = samples(5, 3, 6, 0)[0]
    texts = samples(7, 3, 6, 1)[0]
    expected = [[reference.best_pair(image, text) for text in texts.tolist()] for image in images.tolist()]
    torch.testing.assert_close(PVSEScorer()(images, texts), torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(PVSEScorer()(images[:, :1], texts[:, :1]), CosineScorer()(images[:, 0], texts[:, 0]))


@pytest.mark.parametrize("block", [1, 200, scoring.BLOCK])
def test_the_interaction_matches_loops_in_blocks_of_any_size(block, monkeypatch):
    monkeypatch.setattr(scoring, "ROWS", 2 if block < 1000 else 64)
    monkeypatch.setattr(scoring, "BLOCK", block)
    (images, image_lengths) = samples(5, 4, 6, 0)
    (texts, text_lengths) = samples(7, 5, 6, 1)
    model = scorer(6)
    weights = model.align.weight.tolist(), model.align.bias.tolist(), model.score.weight[0].tolist()
    sides = zip(images, image_lengths, strict=True), zip(texts, text_lengths, strict=True)
    regions, words = ([rows[:length].tolist() for rows, length in side] for side in sides)
    bias = model.score.bias.item()
    expected = [[reference.interaction(v, w, *weights, bias, 9.0) for w in words] for v in regions]
    actual = model(images, texts, image_lengths, text_lengths)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))
    with torch.no_grad():
        assert torch.equal(model(images, texts, image_lengths, text_lengths), actual)


def test_gradients(monkeypatch):
    """Derivatives by samples and by parameters, through blocks that are recomputed in the backward pass."""
    (images, image_lengths) = samples(2, 2, 3, 6)
    (texts, text_lengths) = samples(2, 3, 3, 7)
    inputs = images.requires_grad_(), texts.requires_grad_()
    assert torch.autograd.gradcheck(PVSEScorer(), inputs)
    monkeypatch.setattr(scoring, "BLOCK", 1)
    model = scorer(3)
    names = [name for name, _ in model.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]

    def scores(v, w, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, named, (v, w, image_lengths, text_lengths))

    assert torch.autograd.gradcheck(scores, (*inputs, *values))


def test_padding_is_ignored_and_unmatched_words_attend_uniformly():
    (images, image_lengths) = samples(4, 4, 6, 8)
    (texts, text_lengths) = samples(5, 4, 6, 9)
    images = images.requires_grad_()
    texts = texts.requires_grad_()
    scorer(6)(images, texts, image_lengths, text_lengths).sum().backward()
    for side, lengths in ((images, image_lengths), (texts, text_lengths)):
        beyond = torch.arange(4) >= lengths.unsqueeze(1)
        assert not side.grad[beyond].any()
        assert side.grad[~beyond].any(-1).all()
    # All cosines are below zero: the row of zeros has no length, the softmax is uniform, nothing is NaN
    model = scorer(3)
    regions = torch.eye(3, dtype=torch.float64)[None, :2]
    words = -torch.ones(1, 1, 3, dtype=torch.float64) / 3**0.5
    actual = model(regions.requires_grad_(), words, torch.tensor([2]), torch.tensor([1]))
    actual.sum().backward()
    expected = torch.tanh(model.score(normalise(model.align((words[0, 0] - regions[0].mean(0)).square()))))
    torch.testing.assert_close(actual[0], expected)
    assert regions.grad.isfinite().all()
