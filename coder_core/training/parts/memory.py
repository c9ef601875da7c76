"""The momentum twin and the coupled banks while training. CODER section 3.3."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.memory.bank import CoupledBank
from coder_core.memory.momentum import momentum_twin, update_twin
from coder_core.model.coder import Coder
from coder_core.training import parallel
from coder_core.training.precision import twin_autocast, twin_precision


class Memory(nn.Module):
    """The momentum twin and the banks, kept together so that they are saved together."""

    def __init__(
        self, model: Coder, bank_size: int, dimension: int, momentum: float, precision: str = "float32"
    ) -> None:
        super().__init__()
        self.precision = precision
        self.twin = momentum_twin(model)
        self.bank = CoupledBank(bank_size, dimension)
        self.momentum = momentum
        self._pending: tuple[Tensor, Tensor, Tensor] | None = None

    @torch.no_grad()
    def keys(self, model: Coder, batch: Batch) -> tuple[Tensor, Tensor]:
        """Follow the model, then encode this process's pairs. The keys of all processes wait for `remember`."""
        update_twin(self.twin, model, self.momentum)
        # Keys are of the instance branch only (eq. 6): the twin follows in both but never reads the concepts.
        with twin_autocast(self.precision, batch.regions.device):
            images = self.twin.encode_images(batch.regions, batch.region_lengths)
            texts = self.twin.encode_texts(batch.words, batch.word_lengths)
        everyone = (parallel.gather_rows(images), parallel.gather_rows(texts), parallel.gather_rows(batch.image_ids))
        self._pending = everyone
        return images, texts

    def remember(self) -> None:
        """Enqueue the waiting keys. After backward(): autograd still reads the slots before."""
        if self._pending is not None:
            self.bank.enqueue(*self._pending)
            self._pending = None


def make_memory(model: Coder, config: Config) -> Memory | None:
    """The memory a configuration asks for, of a model that stands where it is trained."""
    if config.memory.bank_size == 0:
        return None
    precision = twin_precision(config.training, next(model.parameters()).device)
    return Memory(model, config.memory.bank_size, config.model.dimension, config.memory.momentum, precision)
