"""Normalisation and masked statistics, edge cases above all."""

import itertools
import math

import pytest
import torch
from torch.autograd import gradcheck

from coder_core import ops


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-10])
def test_rows_of_negligible_length_become_zero_without_gradient(length):
    rows = torch.tensor([[length, 0.0], [3.0, 4.0]], requires_grad=True)
    unit = ops.normalise(rows)
    unit.sum().backward()
    torch.testing.assert_close(unit, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    assert rows.grad[0].tolist() == [0.0, 0.0]
    assert rows.grad[1].abs().max() > 0
    assert rows.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_converted_before_squaring_and_nan_is_kept(dtype):
    """300² overflows float16."""
    unit = ops.normalise(torch.tensor([[300.0, 400.0], [float("nan"), 1.0]], dtype=dtype))
    assert unit.dtype == torch.float32
    torch.testing.assert_close(unit[0], torch.tensor([0.6, 0.8]))
    assert unit[1].isnan().any()


def test_masked_functions_by_hand():
    """The first two of (1, 3, NaN) count, nothing in the second row. log(1 + e⁰ + e⁰) = log 3; without entries
    log 1 = 0; for a huge x the result is x."""
    values = torch.tensor([[1.0, 3.0, float("nan")], [float("inf"), 1.0, 1.0]], requires_grad=True)
    mean = ops.masked_mean(values, torch.tensor([[True, True, False], [False, False, False]]))
    (gradient,) = torch.autograd.grad(mean.sum(), values)
    assert (mean.tolist(), gradient.tolist()) == ([2.0, 0.0], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True], [False, False], [True, False]])
    sums = ops.log1p_sum_exp(torch.tensor([[0.0, 0.0], [9.0, 9.0], [1e6, 0.0]]), mask)
    assert sums.tolist() == pytest.approx([math.log(3), 0.0, 1e6])


def test_gradients():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(3, 4, generator=generator) > 0.3
    assert gradcheck(ops.normalise, values)
    assert gradcheck(ops.lengths, values)
    for function in (ops.masked_mean, ops.log1p_sum_exp):
        assert gradcheck(function, (values, mask))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_best_column_is_the_first_maximum_or_nan(dtype):
    rows = [[0.0, 2.0, 2.0], [3.0, 1.0, 3.0], [5.0, float("nan"), 6.0]]
    columns = ops.best_columns(torch.tensor(rows, dtype=dtype, requires_grad=True))
    assert columns.tolist() == [1, 0, 1]
    assert (columns.dtype, columns.requires_grad) == (torch.int64, False)


def test_mean_of_parts_gives_the_mean_cosine_between_parts():
    torch.manual_seed(2)
    first, second = ops.normalise(torch.randn(2, 3, 4, 5, dtype=torch.float64))
    lengths = torch.tensor([4, 1, 2])
    means = ops.mean_of_parts(first, lengths)
    of_second = ops.mean_of_parts(second)
    for i, j in itertools.product(range(3), range(3)):
        cosines = [float(a @ b) for a in first[i, : lengths[i]] for b in second[j]]
        assert (means[i] @ of_second[j]).item() == pytest.approx(sum(cosines) / len(cosines))
    assert ops.mean_of_parts(means) is means
    hidden = first.clone()
    hidden[1, 1:] = torch.nan
    assert torch.equal(ops.mean_of_parts(hidden, lengths), means)
