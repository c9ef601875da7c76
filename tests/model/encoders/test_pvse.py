"""K embeddings of a sample agree with the loops; padding is never read."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coder_core.model.encoders.pooling import KeepAll, MeanPooling, PVSEPooling
from tests.reference.scorers import several

LENGTHS = torch.tensor([4, 1, 3])


@pytest.fixture
def pooling() -> PVSEPooling:
    torch.manual_seed(0)
    module = PVSEPooling(MeanPooling(), 6, 3).double()
    for parameter in (module.norm.weight, module.norm.bias, module.residual.bias):
        nn.init.normal_(parameter)
    return module


def features() -> torch.Tensor:
    return torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_it_agrees_with_the_loops(pooling: PVSEPooling) -> None:
    rows = features()
    embeddings = pooling(rows, LENGTHS)
    for k, length in enumerate(LENGTHS.tolist()):
        existing = rows[k, :length]
        expected = several(
            existing.tolist(),
            existing.mean(0).tolist(),
            pooling.hidden.weight.tolist(),
            pooling.heads.weight.tolist(),
            pooling.residual.weight.tolist(),
            pooling.residual.bias.tolist(),
            pooling.norm.weight.tolist(),
            pooling.norm.bias.tolist(),
        )
        torch.testing.assert_close(embeddings[k], torch.tensor(expected, dtype=torch.float64))


def test_gradients(pooling: PVSEPooling) -> None:
    assert torch.autograd.gradcheck(lambda rows: pooling(rows, LENGTHS), features().requires_grad_())


def test_padding_is_never_read(pooling: PVSEPooling) -> None:
    rows = features()
    before = pooling(rows, LENGTHS)
    rows[1, 1:] = 1e3
    torch.testing.assert_close(pooling(rows, LENGTHS), before)
    weights = pooling.attention(rows, LENGTHS)
    torch.testing.assert_close(weights.sum(1), torch.ones(3, 3, dtype=torch.float64))
    assert not weights[1, 1:].any()


def test_local_features_are_kept_as_they_are() -> None:
    rows = features()
    assert KeepAll()(rows, LENGTHS) is rows
