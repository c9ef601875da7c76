"""twin ← 0.995 · twin + 0.005 · module, buffers copied."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from coder_core.training.memory.momentum import (
    cosine_momentum,
    momentum_twin,
    share_of_start,
    start_that_leaves,
    update_twin,
)


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_by_hand() -> None:
    """0.995 · 2 + 0.005 · 4 = 2.01."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 2.0)
    twin = momentum_twin(module)
    nn.init.constant_(module.weight, 4.0)
    update_twin(twin, module, 0.995)
    assert twin.weight.item() == pytest.approx(2.01, abs=1e-6)


def test_many_steps_follow_the_closed_form() -> None:
    """A module that jumps once: after n steps the twin is new + 0.995ⁿ · (old − new)."""
    module = nn.Linear(3, 3).double()
    twin = momentum_twin(module)
    old = module.weight.detach().clone()
    with torch.no_grad():
        module.weight.add_(1.0)
    for _ in range(200):
        update_twin(twin, module, 0.995)
    expected = module.weight + 0.995**200 * (old - module.weight)
    torch.testing.assert_close(twin.weight, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.995, 1.0])
def test_every_parameter_follows(momentum: float) -> None:
    module = small()
    twin = momentum_twin(module)
    before = copy.deepcopy(twin.state_dict())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    update_twin(twin, module, momentum)
    for name, parameter in module.named_parameters():
        expected = momentum * before[name] + (1 - momentum) * parameter
        torch.testing.assert_close(twin.get_parameter(name), expected)


def test_buffers_are_copied_not_averaged() -> None:
    module = small()
    twin = momentum_twin(module)
    for _ in range(3):
        module(torch.randn(8, 3))
    update_twin(twin, module, 0.995)
    for name, buffer in module.named_buffers():
        assert torch.equal(twin.get_buffer(name), buffer), name
    assert int(twin.get_buffer("1.num_batches_tracked")) == 3


def test_the_twin_takes_no_gradient_trains_its_statistics_and_shares_nothing() -> None:
    module = small().eval()
    twin = momentum_twin(module)
    assert not any(parameter.requires_grad for parameter in twin.parameters())
    assert all(part.training for part in twin.modules())
    assert all(
        a.data_ptr() != b.data_ptr() for a, b in zip(twin.parameters(), module.parameters(), strict=True)
    )
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize("momentum", [-0.1, 1.1, float("nan")])
def test_a_momentum_outside_is_refused(momentum: float) -> None:
    module = small()
    with pytest.raises(ValueError, match="momentum must be from 0 to 1"):
        update_twin(momentum_twin(module), module, momentum)


def test_the_cosine_by_hand() -> None:
    """From 0.9 over four steps: 1 - 0.1 · (1 + cos(0, 45°, 90°, 135°)) / 2."""
    momenta = [cosine_momentum(step, 4, 0.9) for step in range(4)]
    assert momenta == pytest.approx([0.9, 0.914645, 0.95, 0.985355], abs=1e-6)


def test_what_is_left_of_the_start_is_what_a_twin_still_has_of_it() -> None:
    """The module is zero after its start of one, so the twin is the share itself."""
    module = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(module.weight)
    twin = momentum_twin(module)
    nn.init.zeros_(module.weight)
    for step in range(30):
        update_twin(twin, module, cosine_momentum(step, 30, 0.8))
    assert twin.weight.item() == pytest.approx(share_of_start(30, 0.8))


def test_a_third_of_the_start_is_left_after_forty_epochs_of_flickr30k() -> None:
    """145,000 pairs in batches of 128 from 0.99995, the values of DBL."""
    assert share_of_start(40 * (145_000 // 128), 0.99995) == pytest.approx(0.32, abs=0.005)


@pytest.mark.parametrize("steps", [1, 3, 50, 1872, 45_000])
def test_the_start_that_is_advised_leaves_no_more_than_was_asked(steps: int) -> None:
    assert share_of_start(steps, start_that_leaves(0.05, steps)) <= 0.05
    if steps > 50:
        assert share_of_start(steps, start_that_leaves(0.05, steps) + 2 / steps) > 0.05
