"""A bidirectional GRU over packed sequences, exact and close to the speed of its matrix products on a CPU.

PyTorch's own CPU kernel projects and steps one direction after the other; this one makes one product per direction
for all words, one small batched product per time step for both directions, and collects the recurrent weight's
gradient in a single product at the end. The parameters are those of an ordinary `nn.GRU`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Packing:
    """Where every word of a padded batch (B, T) stands in the packed, time-major order both directions share.

    Args:
        forward_words: (N,) flat indices b·T + t into the padded batch, step by step.
        backward_words: (N,) the same with every sequence read from its end.
        place: (2, B·T) for each direction the packed row of a padded position; N (a zero row) where padded.
        steps: how many sequences are still running at each step.
    """

    forward_words: Tensor
    backward_words: Tensor
    place: Tensor
    steps: list[int]


def pack(lengths: Tensor, longest: int) -> Packing:
    """Order the words of sequences with these lengths, all at least 1."""
    device, lengths = lengths.device, lengths.cpu()
    order = torch.argsort(lengths, descending=True, stable=True)
    ranked = lengths[order]
    running = torch.arange(longest).unsqueeze(1) < ranked.unsqueeze(0)  # (T, B)
    step, row = running.nonzero(as_tuple=True)
    sequence = order[row]
    forward_words = sequence * longest + step
    backward_words = sequence * longest + lengths[sequence] - 1 - step
    count = len(step)
    place = torch.full((2, len(lengths) * longest), count)
    place[0, forward_words] = torch.arange(count)
    place[1, backward_words] = torch.arange(count)
    return Packing(forward_words.to(device), backward_words.to(device), place.to(device), running.sum(1).tolist())


class _PackedGRU(torch.autograd.Function):
    """(2, N, I) inputs in packed order -> (2, N, H) hidden states. Gate order r, z, n as in nn.GRU."""

    @staticmethod
    def forward(
        ctx: Any, words: Tensor, w_in: Tensor, w_hidden: Tensor, b_in: Tensor, b_hidden: Tensor, steps: list[int]
    ) -> Tensor:
        size = w_hidden.shape[2]
        gates = torch.baddbmm(b_in.unsqueeze(1), words, w_in.transpose(1, 2))  # (2, N, 3H)
        candidates = words.new_empty(2, words.shape[1], size)  # the recurrent share of n, before r scales it
        hidden = words.new_empty(2, words.shape[1], size)
        before = words.new_zeros(2, words.shape[1], size)
        recurrent, bias = w_hidden.transpose(1, 2), b_hidden.unsqueeze(1)
        start, previous = 0, words.new_zeros(2, steps[0], size)
        for running in steps:
            here = slice(start, start + running)
            previous = previous[:, :running]
            before[:, here] = previous
            from_hidden = torch.baddbmm(bias, previous, recurrent)
            gate = gates[:, here]
            both = gate[..., : 2 * size].add_(from_hidden[..., : 2 * size]).sigmoid_()
            candidate = from_hidden[..., 2 * size :]
            candidates[:, here] = candidate
            new = gate[..., 2 * size :].addcmul_(both[..., :size], candidate).tanh_()
            previous = torch.lerp(new, previous, both[..., size:])
            hidden[:, here] = previous
            start += running
        ctx.save_for_backward(words, w_in, w_hidden, gates, candidates, before)
        ctx.steps = steps
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        words, w_in, w_hidden, gates, candidates, before = ctx.saved_tensors
        size, steps = w_hidden.shape[2], ctx.steps
        for_gates = torch.empty_like(gates)
        for_recurrent = torch.empty_like(gates)
        carry: Tensor | None = None
        start = words.shape[1]
        for running in reversed(steps):
            start -= running
            here = slice(start, start + running)
            down = gradient[:, here].clone()
            if carry is not None:
                down[:, : carry.shape[1]] += carry
            r, z, new = gates[:, here].split(size, dim=-1)
            d_r, d_z, d_new = for_gates[:, here].split(size, dim=-1)
            torch.mul(down, 1 - z, out=d_new).mul_(1 - new.square())
            torch.mul(down, before[:, here] - new, out=d_z).mul_(z).mul_(1 - z)
            torch.mul(d_new, candidates[:, here], out=d_r).mul_(r).mul_(1 - r)
            through = for_recurrent[:, here]
            through[..., : 2 * size] = for_gates[:, here, : 2 * size]
            torch.mul(d_new, r, out=through[..., 2 * size :])
            carry = torch.baddbmm(down * z, through, w_hidden)
        return (
            torch.bmm(for_gates, w_in) if ctx.needs_input_grad[0] else None,
            torch.bmm(for_gates.transpose(1, 2), words),
            torch.bmm(for_recurrent.transpose(1, 2), before),
            for_gates.sum(1),
            for_recurrent.sum(1),
            None,
        )


def bidirectional(gru: nn.GRU, layer: int, words: Tensor, packing: Packing) -> Tensor:
    """One layer of a bidirectional GRU on the CPU.

    Args:
        gru: holds the parameters.
        layer: which of its layers.
        words: (B, T, I) padded input.
        packing: of the batch's lengths.

    Returns:
        (2, B, T, H) forward and backward states, zero at padded positions.
    """
    batch, longest, width = words.shape
    flat = words.reshape(-1, width)
    both = torch.stack([flat[packing.forward_words], flat[packing.backward_words]])

    def pair(name: str) -> Tensor:
        return torch.stack([getattr(gru, f"{name}_l{layer}"), getattr(gru, f"{name}_l{layer}_reverse")])

    states = _PackedGRU.apply(
        both, pair("weight_ih"), pair("weight_hh"), pair("bias_ih"), pair("bias_hh"), packing.steps
    )
    padded = torch.cat([states, states.new_zeros(2, 1, states.shape[-1])], dim=1)
    return torch.stack([padded[k].index_select(0, packing.place[k]) for k in (0, 1)]).view(2, batch, longest, -1)
