"""Dropout on the CPU: who stays, by how much it grows, where its chance comes from."""

from __future__ import annotations

import pytest
import torch

from coder_core.model.encoders.dropout import Dropout, scaled_mask


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_p_says_and_the_mean_stays(p: float) -> None:
    """A binomial count of a million draws lies within five standard deviations of its mean."""
    torch.manual_seed(0)
    output = Dropout(p)(torch.ones(1000, 1000))
    dropped = int((output == 0).sum())
    spread = (p * (1 - p) * 1e6) ** 0.5
    assert abs(dropped - p * 1e6) < 5 * spread
    staying = round((1 - p) * 65536) / 65536
    assert set(output.unique().tolist()) == {0.0, torch.tensor(1 / staying).item()}
    assert abs(float(output.double().mean()) - 1) < 5 * spread / (1 - p) / 1e6


def test_elements_are_dropped_independently_of_their_neighbours() -> None:
    """Rows, columns and the four elements of one draw are uncorrelated."""
    torch.manual_seed(1)
    stays = (scaled_mask(torch.empty(1024, 1024), 0.5) > 0).double() - 0.5
    for shift in (1, 2, 3, 4, 1024, 1025):
        flat = stays.flatten()
        assert abs(float((flat[shift:] * flat[:-shift]).mean())) / 0.25 < 5e-3


def test_the_chance_comes_from_torchs_random_state() -> None:
    features, dropout = torch.randn(5, 7), Dropout(0.5)
    torch.manual_seed(3)
    first, second = dropout(features), dropout(features)
    torch.manual_seed(3)
    assert torch.equal(dropout(features), first)
    assert torch.equal(dropout(features), second)
    assert not torch.equal(first, second)


def test_the_mask_of_a_seed_never_changes() -> None:
    """A run continued years later draws the same numbers."""
    torch.manual_seed(0)
    mask = scaled_mask(torch.empty(18), 0.5) > 0
    assert "".join(str(int(stays)) for stays in mask) == "100100001011110110"


def test_the_gradient_passes_where_the_value_does() -> None:
    features = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(4)
    output = Dropout(0.3)(features)
    (gradient,) = torch.autograd.grad(output.sum(), features)
    torch.testing.assert_close(gradient * features, output)

    def repeat(values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(4)
        return Dropout(0.3)(values)

    assert torch.autograd.gradcheck(repeat, features)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.4, False)])
def test_nothing_is_dropped_without_a_chance_or_in_evaluation(p: float, training: bool) -> None:
    features = torch.randn(4, 3)
    assert torch.equal(Dropout(p).train(training)(features), features)


@pytest.mark.parametrize("p", [1e-9, 1 - 1e-9])
def test_a_chance_beyond_the_steps_is_the_last_step(p: float) -> None:
    assert bool(torch.isfinite(Dropout(p)(torch.ones(200))).all())


def test_a_half_precision_input_takes_pytorchs_dropout() -> None:
    torch.manual_seed(5)
    output = Dropout(0.5)(torch.ones(64, dtype=torch.bfloat16))
    assert output.dtype == torch.bfloat16
    assert set(output.tolist()) == {0.0, 2.0}
