"""Gradient caching: encode a batch in pieces, compute the loss on all of it. Gao et al. 2021, arXiv:2101.06983.

The forward pass encodes each piece without storing its activations, and the loss takes the embeddings of all pieces.
The backward pass encodes the pieces again, one at a time and with the same random numbers, so memory holds the
activations of only one piece. `torch.utils.checkpoint` does this for any function. As in an ordinary step, each
weight's gradient is complete only once, so several processes average it once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from coder_core.console.faults import Fault
from coder_core.model.coder import Embedded
from coder_core.objectives.memory import BATCH_NORMS


def encode_in_pieces(encode: Callable[..., Any], size: int, *inputs: Tensor) -> Any:
    """Encode a batch in pieces, longest rows first, because a GRU takes as many steps as its longest row has words.
    Return the embeddings in the batch's order. Dropout draws different numbers than without pieces.

    Args:
        encode: (b, …) tensors → (b, …) embeddings or `Embedded`; must encode each row independently of the others.
        size: rows per piece; 0 encodes the whole batch at once.
        inputs: (B, …) tensors; the last is (B,) lengths, by which rows are sorted.
    """
    if size == 0 or size >= len(inputs[0]):
        return encode(*inputs)

    def encode_rows(rows: Tensor) -> Any:  # row copies are freed after each piece
        return encode(*(values[rows] for values in inputs))

    order = torch.argsort(inputs[-1], descending=True, stable=True)
    original = torch.argsort(order)
    pieces = [checkpoint(encode_rows, rows, use_reentrant=False) for rows in order.split(size)]
    if isinstance(pieces[0], Tensor):
        return torch.cat(pieces)[original]
    branches: list[Any] = []
    for parts in zip(*pieces, strict=True):
        branches.append(None if parts[0] is None else torch.cat(parts)[original])
    return Embedded(*branches)


class PiecewiseModel(nn.Module):
    """Wrapper that runs a model's forward pass in pieces of `size` pairs (`encode_in_pieces`)."""

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model = model
        self.size = size

    def forward(self, *inputs: Tensor) -> Embedded:
        """Return the embeddings of B pairs in both branches; `inputs`: (B, …) each."""
        return encode_in_pieces(self.model, self.size, *inputs)


def check_pieces(model: nn.Module, size: int) -> list[Fault]:
    """Return an error if batch norm would compute its statistics on single pieces instead of the whole batch."""
    named = model.named_modules()
    names = [name for name, module in named if isinstance(module, BATCH_NORMS) and module.training]
    if not names:
        return []
    problem = f"is {size}, and batch normalisation at {names[0]} would normalise each piece separately"
    fix = "give --image-layers 1, whose region layers have no batch normalisation, or leave --piece-size out"
    return [Fault("--piece-size", problem, "0", fix)]
