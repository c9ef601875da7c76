"""A bidirectional GRU over packed sequences, exact and close to the speed of its matrix products on a CPU.

PyTorch's own CPU kernel projects and steps one direction after the other, and autograd repeats every small operation
of every step. This one projects every distinct word once for both directions, lets each step's product add straight
into the gates, steps both directions together, and collects each weight's gradient in a single product at the end.
The parameters are those of an ordinary `nn.GRU`.

The gates of a word stand in one row in the order c, r, z, n (c is the recurrent share of the candidate n, before r
scales it): c, r, z are what the recurrent weight adds to, r, z, n what the input weight adds to, each one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from coder_core.cpu.products import factor_type, few_shapes, products_for

PADDING = 16  # floats after each row of a weight: rows a power of two apart fall into the same cache lines
BLOCK = 512  # rows transposed at a time
STEP_ROWS, TABLE_ROWS = 8, 64  # of `few_shapes`: a step's sequences, a batch's words


@dataclass(frozen=True)
class Packing:
    """Where every word of a padded batch (B, T) stands in the packed, time-major order both directions share.

    Args:
        forward_words: (N,) flat indices b·T + t into the padded batch, step by step.
        backward_words: (N,) the same with every sequence read from its end.
        place: (2, B·T) for each direction the packed row of a padded position; N (a zero row) where padded.
        earlier: (N − B,) for every packed row after the first step, the row of the same sequence one step before.
        steps: how many sequences are still running at each step.
    """

    forward_words: Tensor
    backward_words: Tensor
    place: Tensor
    earlier: Tensor
    steps: list[int]


def pack(lengths: Tensor, longest: int) -> Packing:
    """Order the words of sequences with these lengths, all at least 1."""
    device, lengths = lengths.device, lengths.cpu()
    order = torch.argsort(lengths, descending=True, stable=True)
    running = torch.arange(longest).unsqueeze(1) < lengths[order].unsqueeze(0)  # (T, B)
    step, row = running.nonzero(as_tuple=True)
    sequence = order[row]
    forward_words = sequence * longest + step
    backward_words = sequence * longest + lengths[sequence] - 1 - step
    count = len(step)
    place = torch.full((2, len(lengths) * longest), count)
    place[0, forward_words] = torch.arange(count)
    place[1, backward_words] = torch.arange(count)
    steps = running.sum(1)
    steps = steps[steps > 0]
    earlier = torch.arange(len(lengths), count) - steps[:-1].repeat_interleave(steps[1:])
    return Packing(
        forward_words.to(device), backward_words.to(device), place.to(device), earlier.to(device), steps.tolist()
    )


def _candidate_first(weight: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Rows r, z, n -> n and r, z: the recurrent weight in the order of the gates c, r, z."""
    return weight[2 * size :], weight[: 2 * size]


def _turned_padded_copy(parts: Sequence[Tensor]) -> Tensor:
    """The transpose of matrices that stand one below the other, its rows spaced apart. Through contiguous blocks: only
    those does PyTorch transpose fast."""
    rows, first = sum(len(part) for part in parts), 0
    turned = parts[0].new_empty(parts[0].shape[1], rows + PADDING)[:, :rows]
    for block in (block for part in parts for block in part.split(BLOCK)):
        turned[:, first : first + len(block)] = block.T.contiguous()
        first += len(block)
    return turned


def _padded_copy(parts: Sequence[Tensor]) -> Tensor:
    """Matrices one below the other, rows spaced apart."""
    rows, columns = sum(len(part) for part in parts), parts[0].shape[1]
    copied = parts[0].new_empty(rows, columns + PADDING)[:, :columns]
    for place, part in zip(copied.split([len(part) for part in parts]), parts, strict=True):
        place.copy_(part)
    return copied


def _project(table: Tensor, w_in: Tensor, b_in: Tensor, b_hidden: Tensor, factors: torch.dtype) -> Tensor:
    """(U, I) -> (U, 4H): all biases, and the input's share of r, z, n."""
    size = w_in.shape[0] // 3
    projected = table.new_empty(table.shape[0], 4 * size)
    projected[:, :size] = b_hidden[2 * size :]
    bias = torch.cat([b_in[: 2 * size] + b_hidden[: 2 * size], b_in[2 * size :]])
    if factors == table.dtype:
        torch.addmm(bias, table, w_in.T, out=projected[:, size:])
    else:
        torch.add(torch.mm(table.to(factors), w_in.to(factors).T), bias, out=projected[:, size:])
    return projected


def _recurrent(weight: Tensor, size: int, factors: torch.dtype) -> Tensor:
    """(3H, H) -> (H, 3H) for the gates c, r, z."""
    parts = _candidate_first(weight, size)
    return _turned_padded_copy(parts) if factors == weight.dtype else torch.cat([p.to(factors) for p in parts]).T


def _add_product(into: Tensor, states: Tensor, recurrent: Tensor) -> None:
    if recurrent.dtype == states.dtype:
        into.addmm_(states, recurrent)
    else:
        into += torch.mm(states.to(recurrent.dtype), recurrent)


def _tanh(values: Tensor) -> None:
    """In place. On a CPU NumPy's takes a tenth of the time of PyTorch's."""
    if values.dtype in (torch.float32, torch.float64):
        np.tanh(values.numpy(), out=values.numpy())
    else:
        values.tanh_()


def _states(
    table: Tensor, rows: Tensor, steps: list[int], keep: bool, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Gates (2, N, 4H), of the last step alone unless they are kept, and states (2, N + 1, H), the last of them zero;
    spare rows follow in both."""
    size, count = parameters[1].shape[1], rows.shape[1]
    factors = table.dtype if keep else factor_type(table)
    # A step's product may run over rows of the next step, which are written afterwards, and over these spare ones.
    gates = table.new_empty(2, (count if keep else steps[0]) + STEP_ROWS, 4 * size)
    hidden = table.new_empty(2, count + 1 + STEP_ROWS, size)
    hidden[:, count] = 0  # what padded positions read
    projected, recurrent = [], []
    for k in (0, 1):
        w_in, w_hidden, b_in, b_hidden = parameters[4 * k : 4 * k + 4]
        projected.append(_project(table, w_in, b_in, b_hidden, factors))
        recurrent.append(_recurrent(w_hidden, size, factors))
    before = table.new_zeros(2, steps[0], size)
    start = earlier = 0
    for t, running in enumerate(steps):
        packed, first = slice(start, start + running), start if keep else 0
        here, height = gates[:, first : first + running], few_shapes(running, STEP_ROWS)
        for k in (0, 1):
            torch.index_select(projected[k], 0, rows[k, packed], out=here[k])
            if t > 0:
                into = gates[k, first : first + height, : 3 * size]
                _add_product(into, hidden[k, earlier : earlier + height], recurrent[k])
        c, rz, n = here.split([size, 2 * size, size], dim=-1)
        r, z = rz.sigmoid_().split(size, dim=-1)
        _tanh(n.addcmul_(r, c))
        before = torch.lerp(n, before[:, :running], z, out=hidden[:, packed])
        start, earlier = start + running, start
    return gates, hidden


class _PackedGRU(torch.autograd.Function):
    """Table (U, I), rows (2, N) of it in packed order -> states (2, B·T, H), or their mean (B·T, H); 0 where padded."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, rows: Tensor, packing: Packing, average: bool, keep: bool, *parameters: Tensor
    ) -> Tensor:
        with products_for(parameters[1].shape[1]):
            gates, hidden = _states(table, rows, packing.steps, keep, parameters)
        if keep:
            ctx.save_for_backward(table, rows, gates, hidden, *parameters)
        ctx.packing, ctx.average = packing, average
        if not average:
            return torch.stack([hidden[k].index_select(0, packing.place[k]) for k in (0, 1)])
        other = torch.cat([packing.place[1][packing.forward_words], packing.place.new_tensor([rows.shape[1]])])
        mean = hidden[1].index_select(0, other).lerp_(hidden[0, : len(other)], 0.5)  # in the order of the forward words
        return mean.index_select(0, packing.place[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        table, rows, gates, hidden, *parameters = ctx.saved_tensors
        packing: Packing = ctx.packing
        size, steps, count = parameters[1].shape[1], packing.steps, rows.shape[1]
        down = gradient.new_empty(2, count, size)  # the gradient of every state
        for k, words in enumerate((packing.forward_words, packing.backward_words)):
            torch.index_select(gradient if ctx.average else gradient[k], 0, words, out=down[k])
        if ctx.average:
            down *= 0.5
        recurrent = [_padded_copy(_candidate_first(parameters[4 * k + 1], size)) for k in (0, 1)]
        with products_for(size):
            through = _through_time(gates, hidden, down, recurrent, steps)
            return _gradients(ctx.needs_input_grad[0], table, rows, packing, through, hidden, parameters)


def _through_time(gates: Tensor, hidden: Tensor, down: Tensor, recurrent: list[Tensor], steps: list[int]) -> Tensor:
    """Gradients of the gates before their sigmoid and tanh, (2, N, 4H); `down` gains what later steps send back."""
    count, size = down.shape[1:]
    rows = steps[0] + few_shapes(count - steps[0], TABLE_ROWS)
    through = gates.new_empty(2, max(rows, count + STEP_ROWS), 4 * size)
    through[:, count:] = 0  # rows that round products up; `_gradients` adds them
    spare = gates.new_empty(steps[0] + STEP_ROWS, size)
    gates = gates[:, :count]
    widths = [size, size, size, size]
    c, r, z, n = (part.split(steps, dim=1) for part in gates.split(widths, dim=-1))
    d_c, d_r, d_z, d_n = (part.split(steps, dim=1) for part in through[:, :count].split(widths, dim=-1))
    rz, d_rz = (whole[:, :count, size : 3 * size].split(steps, dim=1) for whole in (gates, through))
    states, downs = hidden[:, :count].split(steps, dim=1), down.split(steps, dim=1)
    start = count
    for t in reversed(range(len(steps))):
        here, start = downs[t], start - steps[t]
        torch.addcmul(here, here, z[t], value=-1, out=d_n[t])
        torch.ops.aten.tanh_backward.grad_input(d_n[t], n[t], grad_input=d_n[t])
        torch.mul(d_n[t], r[t], out=d_c[t])
        torch.mul(d_n[t], c[t], out=d_r[t])
        if t > 0:
            torch.sub(states[t - 1][:, : steps[t]], n[t], out=d_z[t])
        else:
            torch.neg(n[t], out=d_z[t])
        d_z[t].mul_(here)
        torch.ops.aten.sigmoid_backward.grad_input(d_rz[t], rz[t], grad_input=d_rz[t])
        if t > 0:
            earlier = downs[t - 1][:, : steps[t]]
            earlier.addcmul_(here, z[t])
            height = few_shapes(steps[t], STEP_ROWS)
            for k in (0, 1):
                down_here = through[k, start : start + height, : 3 * size]
                if height == steps[t]:
                    earlier[k].addmm_(down_here, recurrent[k])
                else:
                    earlier[k] += torch.mm(down_here, recurrent[k], out=spare[:height])[: steps[t]]
    return through


def _gradients(
    for_table: bool, table: Tensor, rows: Tensor, packing: Packing, through: Tensor, hidden: Tensor,
    parameters: list[Tensor],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """What `_PackedGRU.backward` returns: for the table, four constants, and the eight parameters."""
    size, first = hidden.shape[-1], packing.steps[0]
    count = rows.shape[1]
    to_table = torch.zeros_like(table) if for_table else None
    found: list[Tensor] = []
    earlier = lengthened(packing.earlier)  # the gradients behind the last word are zero
    for k in (0, 1):
        w_in, w_hidden = parameters[4 * k], parameters[4 * k + 1]
        gradients = through[k, :count, size:]
        to_inputs = torch.ops.aten.embedding_dense_backward(gradients, rows[k], len(table), -1, False)
        if to_table is not None:
            to_table.addmm_(to_inputs, w_in)
        before = hidden[k].index_select(0, earlier)
        later = through[k, first : first + len(earlier)]
        to_hidden = torch.empty_like(w_hidden)
        torch.mm(later[:, size : 3 * size].T, before, out=to_hidden[: 2 * size])
        torch.mm(later[:, :size].T, before, out=to_hidden[2 * size :])
        sums = through[k].sum(0)
        to_biases = sums[size:], torch.cat([sums[size : 3 * size], sums[:size]])
        found += [to_inputs.T @ table, to_hidden, *to_biases]
    return to_table, None, None, None, None, *found


def lengthened(indices: Tensor) -> Tensor:
    """Indices of a table's rows, with zeros behind them up to a number of rows that batches share (`few_shapes`)."""
    return torch.cat([indices, indices.new_zeros(few_shapes(len(indices), TABLE_ROWS) - len(indices))])


def bidirectional_over(
    gru: nn.GRU, layer: int, table: Tensor, rows: Tensor, packing: Packing, *, average: bool = False
) -> Tensor:
    """One layer of a bidirectional GRU over words that are rows of a table.

    Args:
        gru: holds the parameters.
        layer: which of its layers.
        table: (U, I) distinct inputs.
        rows: (2, N) for each direction the row of the table that every packed word has.
        packing: of the batch's lengths.
        average: return the mean of the two directions.

    Returns:
        (2, B·T, H) forward and backward states, or (B·T, H) their mean; zero at padded positions.
    """
    names = [f"{name}_l{layer}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    parameters = [getattr(gru, name + suffix) for suffix in ("", "_reverse") for name in names]
    keep = torch.is_grad_enabled()  # what only the backward pass reads
    return _PackedGRU.apply(table, rows, packing, average, keep, *parameters)


def bidirectional(gru: nn.GRU, layer: int, words: Tensor, packing: Packing, *, average: bool = False) -> Tensor:
    """One layer of a bidirectional GRU over padded input.

    Args:
        gru: holds the parameters.
        layer: which of its layers.
        words: (B, T, I) padded input.
        packing: of the batch's lengths.
        average: return the mean of the two directions.

    Returns:
        (2, B, T, H) forward and backward states, or (B, T, H) their mean; zero at padded positions.
    """
    batch, longest, width = words.shape
    table = words.reshape(-1, width).index_select(0, lengthened(packing.forward_words))
    rows = torch.stack([torch.arange(len(packing.forward_words)), packing.place[0][packing.backward_words]])
    states = bidirectional_over(gru, layer, table, rows, packing, average=average)
    return states.view(*states.shape[:-2], batch, longest, -1)
