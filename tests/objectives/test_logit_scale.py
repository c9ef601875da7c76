"""The scale of the logits: where it starts, what it never exceeds, and what is refused."""

import pytest
import torch

from coder_core.objectives.modules import LogitScale, TripletLoss


def test_a_fixed_scale_is_one_over_the_temperature():
    assert LogitScale(0.005, learn=False)() == 200
    assert not list(LogitScale(0.005, learn=False).parameters())


@pytest.mark.parametrize("temperature", [0.02, 0.07, 0.1, 3.0])
def test_a_learned_scale_starts_at_one_over_the_temperature(temperature):
    scale = LogitScale(temperature, learn=True)
    assert scale().item() == pytest.approx(1 / temperature, rel=1e-6)
    assert scale.double()().item() == pytest.approx(1 / temperature, rel=1e-12)


def test_a_learned_scale_never_exceeds_100_and_returns_to_it():
    scale = LogitScale(0.05, learn=True)
    with torch.no_grad():
        scale.log_scale.add_(10)
    assert scale().item() == pytest.approx(100)
    scale.limit()
    assert scale.log_scale.exp().item() == pytest.approx(100)
    with torch.no_grad():
        scale.log_scale.sub_(1)
    before = scale.log_scale.item()
    scale.limit()
    assert scale.log_scale.item() == before
    LogitScale(0.05, learn=False).limit()


def test_temperatures_without_a_scale_are_refused():
    for learn in (False, True):
        for temperature in (0.0, -1.0, float("nan")):
            with pytest.raises(ValueError, match="temperature must be "):
                LogitScale(temperature, learn=learn)
    with pytest.raises(ValueError, match=r"temperature must be >= 0.01 if the scale is learned, got 0.0099"):
        LogitScale(0.0099, learn=True)


def test_the_margin_of_a_triplet_may_be_zero_and_both_forms_are_one_module():
    loss = TripletLoss(0.0)
    assert loss.hardest
    loss.hardest = False
    assert not loss.hardest
    images = torch.eye(3)
    texts = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    # Captions 0 and 1 are exchanged: each of four queries has one negative that scores 1 more than its match, 0
    assert loss(images, texts).item() == pytest.approx(4 / 3)
    with pytest.raises(ValueError, match="margin must be >= 0"):
        TripletLoss(-0.1)
