"""Momentum encoder and coupled banks while training. CODER section 3.3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.training import parallel
from coder_core.training.device import no_grad_autocast, no_grad_precision
from coder_core.training.gathering import Keys
from coder_core.training.gradient_caching import encode_in_pieces
from coder_core.training.memory.momentum import CoupledBank, momentum_encoder, update_momentum
from coder_core.training.parts.part import Part
from coder_core.training.prepare import Prepared


class MomentumMemory(Part):
    """Encode keys with the momentum encoder before the loss; enqueue them after the step.

    Args:
        model: the momentum encoder starts as its copy.
        precision: of the momentum encoder's passes, "float32" or "bfloat16".
    """

    state_file = "memory"

    def __init__(self, config: Config, model: Coder, precision: str = "float32") -> None:
        super().__init__()
        self.precision, self.piece_size = precision, config.training.piece_size
        self.momentum = config.memory.momentum
        self.twin = momentum_encoder(model, dropout=config.memory.twin_dropout)  # named so in saved states
        self.bank = CoupledBank(config.memory.bank_size, config.model.dimension)
        self._pending: tuple[Tensor, Tensor, Tensor] | None = None

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Update the momentum encoder and return this step's keys with the bank."""
        return {"keys": Keys(*self.encode_keys(model, batch), self.bank)}

    @torch.no_grad()
    def encode_keys(self, model: Coder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Update the momentum encoder, then encode this process's pairs: (B, D) image and text keys.

        Keys are of the instance branch only (eq. 6); the update covers the concept branch, whose keys nothing reads.
        """
        update_momentum(self.twin, model, self.momentum)
        with no_grad_autocast(self.precision, batch.regions.device):
            images = encode_in_pieces(
                self.twin.encode_images, self.piece_size, batch.regions, batch.region_lengths
            )
            texts = encode_in_pieces(self.twin.encode_texts, self.piece_size, batch.words, batch.word_lengths)
        self._pending = (
            parallel.gather_rows(images),
            parallel.gather_rows(texts),
            parallel.gather_rows(batch.image_groups),
        )
        return images, texts

    def after_step(self, model: Coder, step: int) -> None:
        """Enqueue the keys of all processes. After backward(): autograd reads the slots they overwrite."""
        if self._pending is not None:
            self.bank.enqueue(*self._pending)
            self._pending = None

    def report(self) -> dict[str, Any]:
        """Return the number of filled slots of the bank."""
        return {"bank_filled": self.bank.count}


def make_memory(config: Config, prepared: Prepared) -> MomentumMemory | None:
    """Make the memory of a configuration that has a bank."""
    if config.memory.bank_size == 0:
        return None
    precision = no_grad_precision(config.training, next(prepared.model.parameters()).device)
    return MomentumMemory(config, prepared.model, precision)
