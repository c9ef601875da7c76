"""Captions through a bidirectional GRU: one feature per word, the mean of both directions (vsepp, vse_infty).

On a CPU it has its own kernel over packed sequences, exact and almost as fast as its matrix products alone. PyTorch's
kernel projects and steps one direction after the other, and autograd repeats every small operation of every step. This
one projects every distinct word only once per direction, adds each step's product directly into the gates, steps both
directions together, and computes each weight's gradient in a single product at the end. The parameters are those of an
ordinary `nn.GRU`. Without it a training step takes 1.2 to 1.55 times as long (lab/cpu_tricks.md).

A word's gates are one row in the order c, r, z, n, where c is the recurrent part of the candidate n before r scales it.
The recurrent weight adds to the block c, r, z, the input weight to the block r, z, n.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from coder_core.model.device import factor_type, rounded_rows
from coder_core.ops.vectors import on_host, to_device

PADDING = 16  # unused floats after each row of a weight: rows a power of two apart conflict in the cache
# units of `rounded_rows`, for a step's sequences and a batch's words
STEP_ROWS = 8
TABLE_ROWS = 64


def word_vectors(words: int, size: int, initial: Tensor | None = None) -> nn.Embedding:
    """Return trainable vectors of a vocabulary: `initial`, (words, size), or random ones."""
    vectors = nn.Embedding(words, size)
    if initial is None:
        nn.init.uniform_(vectors.weight, -0.1, 0.1)
    else:
        with torch.no_grad():
            vectors.weight.copy_(initial)
    return vectors


class RecurrentWords(nn.Module):
    """Bidirectional GRU, word ids -> (B, T, D) word features. `dropout` applies to components of the word vectors."""

    def __init__(
        self, vectors: nn.Embedding, dimension: int, *, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.vectors = vectors
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(vectors.embedding_dim, dimension, layers, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Encode captions: (B, T) int64 ids, (B,) lengths -> (B, T, D), zero at padded positions."""
        if words.device.type != "cpu":
            return mean_states(self.gru, self.dropout(self.vectors(words)), lengths)
        packing = pack(lengths, words.shape[1])
        if self.gru.num_layers > 1 or (self.training and self.dropout.p > 0):
            return _all_layers(self.gru, self.dropout(self.vectors(words)), packing)
        # Equal words have equal vectors and are projected once.
        distinct, row = torch.unique(words, return_inverse=True)
        table = self.vectors(_rounded_up(distinct))
        rows = row.flatten()[packing.words]
        states = _layer_over_table(self.gru, 0, table, LayerWords(rows, packing, average=True))
        return states.view(*words.shape, -1)


def mean_states(gru: nn.GRU, features: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean of a bidirectional GRU's directions: (B, T, I), (B,) -> (B, T, H), zero at padded positions."""
    # Sorted here and not by pack_padded_sequence, which would wait for a GPU to take the order.
    by_length, order = torch.sort(on_host(lengths), descending=True)
    longest_first = features.index_select(0, to_device(order, features.device))
    packed = pack_padded_sequence(longest_first, by_length, batch_first=True)
    states, _ = pad_packed_sequence(gru(packed)[0], batch_first=True, total_length=features.shape[1])
    states = states.index_select(0, to_device(torch.argsort(order), features.device))
    forward, backward = states.chunk(2, dim=-1)
    return (forward + backward) / 2


@dataclass(frozen=True)
class Packing:
    """Position of every word of a padded batch (B, T) in the packed, time-major order that both directions share."""

    words: Tensor
    """(2, N) flat indices b·T + t into the padded batch, step by step; the second row starts at the sequences' ends."""
    rows: Tensor
    """(2, B·T) for each direction, the packed row of each position of the padded batch; N, a zero row, for padding."""
    previous: Tensor
    """(N − B,) for every packed row after the first step, the row of the same sequence one step earlier."""
    steps: list[int]  # number of sequences still running at each step


class LayerWords(NamedTuple):
    """The words that one layer runs over, and how it returns its states."""

    rows: Tensor  # (2, N) for each direction in packed order, each word's row in a table of inputs
    packing: Packing
    average: bool  # return the mean of both directions


def pack(lengths: Tensor, longest: int) -> Packing:
    """Compute the packing of sequences with these lengths, all at least 1."""
    order = torch.argsort(lengths, descending=True, stable=True)
    lengths = lengths[order].unsqueeze(1)
    first = order.unsqueeze(1) * longest
    step = torch.arange(longest)
    forward, backward = (
        pack_padded_sequence(first + words, lengths.squeeze(1), batch_first=True)
        for words in (step, lengths - 1 - step)
    )
    words = torch.stack([forward.data, backward.data])
    steps = forward.batch_sizes
    count = words.shape[1]
    rows = torch.full((2, len(order) * longest), count).scatter_(1, words, torch.arange(count).expand(2, -1))
    previous = torch.arange(len(order), count) - steps[:-1].repeat_interleave(steps[1:])
    return Packing(words, rows, previous, steps.tolist())


def _all_layers(gru: nn.GRU, features: Tensor, packing: Packing) -> Tensor:
    """Run padded (B, T, I) features through every layer -> (B, T, H), the mean of the last layer's directions."""
    batch, longest, _ = features.shape
    positions = packing.words[0]
    rows = torch.stack([torch.arange(len(positions)), packing.rows[0][packing.words[1]]])
    for layer in range(gru.num_layers):
        table = features.reshape(batch * longest, -1).index_select(0, _rounded_up(positions))
        is_last = layer == gru.num_layers - 1
        states = _layer_over_table(gru, layer, table, LayerWords(rows, packing, average=is_last))
        features = states.view(*states.shape[:-2], batch, longest, -1)
        if not is_last:
            features = torch.cat([*features], dim=-1)
    return features


def _layer_over_table(gru: nn.GRU, layer: int, table: Tensor, words: LayerWords) -> Tensor:
    """Run one layer over words given as rows of a table of inputs (U, I) -> (2, B·T, H) forward and backward states, or
    (B·T, H) their mean; zero at padded positions."""
    names = [f"{name}_l{layer}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    parameters = [getattr(gru, name + suffix) for suffix in ("", "_reverse") for name in names]
    return _PackedGRU.apply(table, words, torch.is_grad_enabled(), *parameters)


class _PackedGRU(torch.autograd.Function):
    """GRU layer: table (U, I) and words -> states (2, B·T, H) or their mean (B·T, H); 0 at padding."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, words: LayerWords, for_backward: bool, *parameters: Tensor
    ) -> Tensor:
        rows = words.rows
        packing = words.packing
        gates, hidden = _run(table, rows, packing.steps, for_backward, parameters)
        if for_backward:
            ctx.save_for_backward(table, gates, hidden, *parameters)
        ctx.words = words

        if not words.average:
            return torch.stack([hidden[k].index_select(0, packing.rows[k]) for k in (0, 1)])
        backward = torch.cat([packing.rows[1][packing.words[0]], packing.rows.new_tensor([rows.shape[1]])])
        in_forward_order = hidden[1].index_select(0, backward)
        return in_forward_order.lerp_(hidden[0, : len(backward)], 0.5).index_select(0, packing.rows[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        table, gates, hidden, *parameters = ctx.saved_tensors
        words: LayerWords = ctx.words
        packing = words.packing
        size = parameters[1].shape[1]
        count = words.rows.shape[1]
        to_hidden = gradient.new_empty(2, count, size)
        for k in (0, 1):
            direction = gradient if words.average else gradient[k]
            torch.index_select(direction, 0, packing.words[k], out=to_hidden[k])
        if words.average:
            to_hidden *= 0.5

        weights = (parameters[1], parameters[5])
        recurrent = [torch.cat(_candidate_first(w), out=_spaced(w, 3 * size, size)) for w in weights]
        to_gates = _run_back(gates, hidden, to_hidden, recurrent, packing.steps)
        to_inputs, to_parameters = _gradients(table, words, to_gates, hidden, parameters)

        to_table = None
        if ctx.needs_input_grad[0]:
            to_table = torch.zeros_like(table)
            for k in (0, 1):
                to_table.addmm_(to_inputs[k], parameters[4 * k])
        return to_table, None, None, *to_parameters


def _run(
    table: Tensor, rows: Tensor, steps: list[int], for_backward: bool, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return gates (2, N, 4H), or a buffer for a single step if no backward pass follows, and states (2, N + 1, H), the
    last of them zero; both have spare rows at the end."""
    size = parameters[1].shape[1]
    count = rows.shape[1]
    factors = table.dtype if for_backward else factor_type(table)
    # A step's product may overwrite rows of the next step, which are written afterwards, and these spare rows.
    gates = table.new_empty(2, (count if for_backward else steps[0]) + STEP_ROWS, 4 * size)
    hidden = table.new_empty(2, count + 1 + STEP_ROWS, size)
    hidden[:, count] = 0  # read at padded positions
    projected = []
    recurrent = []
    for k in (0, 1):
        w_in, w_hidden, b_in, b_hidden = parameters[4 * k : 4 * k + 4]
        projected.append(_project(table, w_in, b_in, b_hidden, factors))
        recurrent.append(_recurrent(w_hidden, factors))

    state = table.new_zeros(2, steps[0], size)
    start = 0
    previous = 0
    for t, running in enumerate(steps):
        packed = slice(start, start + running)
        first = start if for_backward else 0
        step_gates = gates[:, first : first + running]
        height = rounded_rows(running, STEP_ROWS)
        for k in (0, 1):
            torch.index_select(projected[k], 0, rows[k, packed], out=step_gates[k])
            if t > 0:
                into = gates[k, first : first + height, : 3 * size]
                _add_product(into, hidden[k, previous : previous + height], recurrent[k])
        c, rz, n = step_gates.split([size, 2 * size, size], dim=-1)
        r, z = rz.sigmoid_().split(size, dim=-1)
        values = n.addcmul_(r, c).numpy()
        np.tanh(values, out=values)  # a tenth of the time of PyTorch's on a CPU
        state = torch.lerp(n, state[:, :running], z, out=hidden[:, packed])
        previous = start
        start += running
    return gates, hidden


def _project(table: Tensor, w_in: Tensor, b_in: Tensor, b_hidden: Tensor, factors: torch.dtype) -> Tensor:
    """Project inputs (U, I) to gates (U, 4H): all biases, and the input's part of r, z, n."""
    size = w_in.shape[0] // 3
    projected = table.new_empty(table.shape[0], 4 * size)
    projected[:, :size] = b_hidden[2 * size :]
    bias = torch.cat([b_in[: 2 * size] + b_hidden[: 2 * size], b_in[2 * size :]])
    if factors == table.dtype:
        torch.addmm(bias, table, w_in.T, out=projected[:, size:])
    else:
        torch.add(table.to(factors) @ w_in.to(factors).T, bias, out=projected[:, size:])
    return projected


def _recurrent(weight: Tensor, factors: torch.dtype) -> Tensor:
    """Transpose a recurrent weight, (3H, H) -> (H, 3H), in the order of the gates c, r, z."""
    parts = torch.cat(_candidate_first(weight))
    if factors != weight.dtype:
        return parts.to(factors).T
    rows, columns = parts.T.shape
    return _spaced(parts, rows, columns).copy_(parts.T)


def _add_product(into: Tensor, states: Tensor, recurrent: Tensor) -> None:
    if recurrent.dtype == states.dtype:
        into.addmm_(states, recurrent)
    else:
        into += torch.mm(states.to(recurrent.dtype), recurrent)


def _run_back(
    gates: Tensor, hidden: Tensor, to_hidden: Tensor, recurrent: list[Tensor], steps: list[int]
) -> Tensor:
    """Return gradients of the gates before sigmoid and tanh, (2, N, 4H); add those from later steps to `to_hidden`."""
    count, size = to_hidden.shape[1:]
    height = steps[0] + rounded_rows(count - steps[0], TABLE_ROWS)
    to_gates = gates.new_empty(2, max(height, count + STEP_ROWS), 4 * size)
    to_gates[:, count:] = 0  # rows that round products up; `_gradients` sums over them
    spare = gates.new_empty(steps[0] + STEP_ROWS, size)

    def by_gate(values: Tensor) -> list[tuple[Tensor, ...]]:  # c, r, z, n, and r with z, step by step
        parts = [*values[:, :count].split(size, dim=-1), values[:, :count, size : 3 * size]]
        return [part.split(steps, dim=1) for part in parts]

    (c, r, z, n, rz) = by_gate(gates)
    (to_c, to_r, to_z, to_n, to_rz) = by_gate(to_gates)
    states = hidden[:, :count].split(steps, dim=1)
    to_states = to_hidden.split(steps, dim=1)
    start = count
    for t in reversed(range(len(steps))):
        to_state = to_states[t]
        start = start - steps[t]
        torch.addcmul(to_state, to_state, z[t], value=-1, out=to_n[t])
        torch.ops.aten.tanh_backward.grad_input(to_n[t], n[t], grad_input=to_n[t])
        torch.mul(to_n[t], r[t], out=to_c[t])
        torch.mul(to_n[t], c[t], out=to_r[t])
        if t > 0:
            torch.sub(states[t - 1][:, : steps[t]], n[t], out=to_z[t])
        else:
            torch.neg(n[t], out=to_z[t])
        to_z[t].mul_(to_state)
        torch.ops.aten.sigmoid_backward.grad_input(to_rz[t], rz[t], grad_input=to_rz[t])
        if t > 0:
            to_previous = to_states[t - 1][:, : steps[t]]
            to_previous.addcmul_(to_state, z[t])
            height = rounded_rows(steps[t], STEP_ROWS)
            for k in (0, 1):
                to_crz = to_gates[k, start : start + height, : 3 * size]
                if height == steps[t]:
                    to_previous[k].addmm_(to_crz, recurrent[k])
                else:
                    to_previous[k] += torch.mm(to_crz, recurrent[k], out=spare[:height])[: steps[t]]
    return to_gates


def _gradients(
    table: Tensor, words: LayerWords, to_gates: Tensor, hidden: Tensor, parameters: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return each direction's gradients (U, 3H) of the input products of the table, and those of the eight parameters."""
    packing = words.packing
    size = hidden.shape[-1]
    first = packing.steps[0]
    count = words.rows.shape[1]
    to_inputs: list[Tensor] = []
    to_parameters: list[Tensor] = []
    previous = _rounded_up(packing.previous)  # gradients after the last word are zero
    for k in (0, 1):
        w_hidden = parameters[4 * k + 1]
        to_rzn = to_gates[k, :count, size:]
        to_input = torch.ops.aten.embedding_dense_backward(to_rzn, words.rows[k], len(table), -1, False)
        to_inputs.append(to_input)
        before = hidden[k].index_select(0, previous)
        later = to_gates[k, first : first + len(previous)]
        to_w_hidden = torch.empty_like(w_hidden)
        torch.mm(later[:, size : 3 * size].T, before, out=to_w_hidden[: 2 * size])
        torch.mm(later[:, :size].T, before, out=to_w_hidden[2 * size :])
        sums = to_gates[k].sum(0)
        to_b_hidden = torch.cat([sums[size : 3 * size], sums[:size]])
        to_parameters += [to_input.T @ table, to_w_hidden, sums[size:], to_b_hidden]

    return to_inputs, to_parameters


def _candidate_first(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Split a recurrent weight's rows r, z, n into n and (r, z), the order of the gates c, r, z."""
    size = weight.shape[1]
    return weight[2 * size :], weight[: 2 * size]


def _spaced(like: Tensor, rows: int, columns: int) -> Tensor:
    """Allocate a matrix with `PADDING` unused floats after each row."""
    return like.new_empty(rows, columns + PADDING)[:, :columns]


def _rounded_up(indices: Tensor) -> Tensor:
    """Append zeros to the row indices of a table, up to a number that many batches share (`rounded_rows`)."""
    return torch.cat([indices, indices.new_zeros(rounded_rows(len(indices), TABLE_ROWS) - len(indices))])
