"""The momentum twin and the coupled banks while training. CODER section 3.3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.training import parallel
from coder_core.training.gathering import Keys
from coder_core.training.memory.bank import CoupledBank
from coder_core.training.memory.momentum import momentum_twin, update_twin
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.pieces import in_pieces
from coder_core.training.precision import twin_autocast, twin_precision
from coder_core.training.prepare import Prepared


class MomentumMemory(Part):
    """Encodes keys with the momentum twin before the loss and enqueues them after the step.

    Args:
        model: the twin starts as its copy.
        bank_size: slots.
        dimension: D.
        momentum: share of the twin that stays at an update.
        precision: of the twin's passes, "float32" or "bfloat16".
        dropout: the twin reads with dropout.
        piece_size: pairs that it encodes at a time; 0 takes all.
    """

    state_file = "memory"

    def __init__(
        self,
        model: Coder,
        bank_size: int,
        dimension: int,
        momentum: float,
        precision: str = "float32",
        *,
        dropout: bool = True,
        piece_size: int = 0,
    ) -> None:
        super().__init__()
        self.precision, self.piece_size = precision, piece_size
        self.twin = momentum_twin(model, dropout=dropout)
        self.bank = CoupledBank(bank_size, dimension)
        self.momentum = momentum
        self._pending: tuple[Tensor, Tensor, Tensor] | None = None

    def prepare(self, step: StepContext) -> None:
        """Update the twin and give the loss this step's keys."""
        step.keys = Keys(*self.encode_keys(step.model, step.batch), self.bank)

    @torch.no_grad()
    def encode_keys(self, model: Coder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Update the twin, then encode this process's pairs: (B, D) image and text keys.

        Keys are of the instance branch only (eq. 6): the update covers the concept branch, whose keys nothing reads.
        """
        update_twin(self.twin, model, self.momentum)
        with twin_autocast(self.precision, batch.regions.device):
            images = in_pieces(self.twin.encode_images, self.piece_size, batch.regions, batch.region_lengths)
            texts = in_pieces(self.twin.encode_texts, self.piece_size, batch.words, batch.word_lengths)
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
        """How many slots of the bank are filled."""
        return {"bank_filled": self.bank.count}


def make_memory(config: Config, prepared: Prepared) -> MomentumMemory | None:
    """The memory a configuration asks for."""
    if config.memory.bank_size == 0:
        return None
    model, memory = prepared.model, config.memory
    precision = twin_precision(config.training, next(model.parameters()).device)
    return MomentumMemory(
        model,
        memory.bank_size,
        config.model.dimension,
        memory.momentum,
        precision,
        dropout=memory.twin_dropout,
        piece_size=config.training.piece_size,
    )
