"""Embeddings of a batch, and memories, of tiny configurations."""

import torch

from coder_core.model.coder import Embedded
from coder_core.training.objective import make_memory
from coder_core.training.prepare import prepare
from coder_core.training.step import Objective, instance_loss


def embed(model, batch):
    """Embed a batch in float64, without gradient."""
    with torch.no_grad():
        embedded = model(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
    return Embedded(*(None if rows is None else rows.double() for rows in embedded))


def with_memory(config):
    """Return data, model and the memory of a configuration with a bank."""
    prepared = prepare(config)
    return prepared, make_memory(config, prepared, instance_loss(config))


def compute_losses(model, batch, config, parts=(), **values):
    """Return the losses of a batch with these parts; `values` are those of `Objective.losses`."""
    return Objective(config, parts).losses(model, batch, **values)
