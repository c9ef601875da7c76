"""Gradient caching: a batch goes through the encoders in pieces, and the loss sees all of it. Gao et al. 2021,
arXiv:2101.06983.

Every piece is encoded without keeping what its backward pass needs. The loss takes the embeddings of all pieces; its
backward pass gives their gradients and then encodes one piece after the other again, under the same random numbers, so
that memory holds the activations of a single piece. `torch.utils.checkpoint` does that for any function. The graph is
that of an ordinary step: a weight's gradient is complete once, and several processes average it once a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from coder_core.console.faults import Fault
from coder_core.model.coder import Embedded


def in_pieces(encode: Callable[..., Any], size: int, *inputs: Tensor) -> Any:
    """Encode a batch, some rows at a time, the longest first: a GRU takes as many steps as the longest of a piece has
    words, so pieces of like lengths take fewer.

    Args:
        encode: (b, …) tensors -> (b, …) embeddings or `Embedded`; a row's must not depend on the other rows.
        size: rows of a piece; 0 takes the batch whole.
        inputs: (B, …) each; the last are (B,) lengths.

    Returns:
        What `encode` returns for the whole batch. Dropout draws other numbers than for the whole batch.
    """
    rows = len(inputs[0])
    if size == 0 or size >= rows:
        return encode(*inputs)

    def encode_rows(chosen: Tensor) -> Any:  # the copies of its rows live as long as a piece
        return encode(*(values[chosen] for values in inputs))

    order = torch.argsort(inputs[-1], descending=True, stable=True)
    place = torch.argsort(order)
    pieces = [checkpoint(encode_rows, chosen, use_reentrant=False) for chosen in order.split(size)]
    if isinstance(pieces[0], Tensor):
        return torch.cat(pieces)[place]
    branches: list[Any] = [
        None if of[0] is None else torch.cat(of)[place] for of in zip(*pieces, strict=True)
    ]
    return Embedded(*branches)


class InPieces(nn.Module):
    """A model whose forward pass goes through `in_pieces`.

    Args:
        model: arguments (b, …) -> embeddings of b pairs.
        size: pairs of a piece.
    """

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, *inputs: Tensor) -> Embedded:
        """(B, …) each -> B pairs in both branches."""
        embedded: Embedded = in_pieces(self.model, self.size, *inputs)
        return embedded


def check_pieces(model: nn.Module, size: int) -> list[Fault]:
    """An error for a model that cannot be encoded in pieces: batch normalisation takes its statistics over the rows of
    one pass, so a piece would see those of the piece alone."""
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training
    ]
    if size == 0 or not names:
        return []
    problem = (
        f"is {size}, and the model normalises by the batch at {names[0]}: each piece by its own statistics"
    )
    fix = "give --image-layers 1, whose region layers have no batch normalisation, or leave --piece-size out"
    return [Fault("--piece-size", problem, "0", fix)]
