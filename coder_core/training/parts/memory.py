"""The momentum encoder that fills the bank of the loss. CODER section 3.3; He et al. 2020 (MoCo)."""

from typing import Any

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.model.device import no_grad_autocast
from coder_core.objectives.memory import CoupledBank, momentum_encoder, update_momentum
from coder_core.objectives.pairs import Keys
from coder_core.ops import parallel
from coder_core.training.gradient_caching import encode_in_pieces
from coder_core.training.step import Part


class MomentumMemory(Part):
    """Momentum encoder, initially a copy of `model`, and the loss's `bank`: keys are encoded before the loss and enqueued
    after the step. `precision` of the encoder's forward passes: "float32" or "bfloat16"."""

    state_file = "memory"

    def __init__(self, config: Config, model: Coder, bank: CoupledBank, precision: str = "float32") -> None:
        super().__init__()
        self.precision = precision
        self.piece_size = config.training.piece_size
        self.momentum = config.memory.momentum
        self.twin = momentum_encoder(model, dropout=config.memory.twin_dropout)  # saved states use this name
        self.bank = bank
        self._pending: tuple[Tensor, Tensor, Tensor] | None = None

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Update the momentum encoder and return this step's keys with the bank."""
        images, texts = self.encode_keys(model, batch)
        return {"keys": Keys(images, texts, self.bank)}

    @torch.no_grad()
    def encode_keys(self, model: Coder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Update the momentum encoder, then encode this process's pairs: (B, D) image and text keys. Only the instance
        branch has keys (eq. 6), although the update also covers the concept branch."""
        update_momentum(self.twin, model, self.momentum)
        twin = self.twin
        size = self.piece_size
        with no_grad_autocast(self.precision, batch.regions.device):
            images = encode_in_pieces(twin.encode_images, size, batch.regions, batch.region_lengths)
            texts = encode_in_pieces(twin.encode_texts, size, batch.words, batch.word_lengths)
        self._pending = (
            parallel.gather_rows(images),
            parallel.gather_rows(texts),
            parallel.gather_rows(batch.pair_ids),
        )
        return images, texts

    def after_step(self, model: Coder, step: int) -> None:
        """Enqueue the keys of all processes. This must follow backward(), which reads the slots they overwrite."""
        if self._pending is not None:
            images, texts, image_ids = self._pending
            self.bank.enqueue(images, texts, image_ids)
            self._pending = None

    def report(self) -> dict[str, Any]:
        """Return the number of filled slots of the bank."""
        return {"bank_filled": self.bank.count}
