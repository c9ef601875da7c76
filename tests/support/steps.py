"""Single steps of tiny configurations: embeddings of a batch, a memory ready to use."""

import torch

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.training.parts.make import MomentumMemory, make_memory
from coder_core.training.prepare import Prepared, prepare


def embed(model: Coder, batch: Batch) -> Embedded:
    """Embed a batch in float64, without gradient."""
    with torch.no_grad():
        embedded = model(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
    return Embedded(*(None if rows is None else rows.double() for rows in embedded))


def with_memory(config: Config) -> tuple[Prepared, MomentumMemory]:
    """Return data, model and the memory of a configuration with a bank."""
    prepared = prepare(config)
    return prepared, make_memory(config, prepared)
