"""Configuration -> the optional parts of its steps."""

from __future__ import annotations

import torch

from coder_core.config.schema import Config
from coder_core.training.parts.boosting import make_boosting
from coder_core.training.parts.concepts import make_concept_loss
from coder_core.training.parts.memory import make_memory
from coder_core.training.parts.neighbourhoods import make_neighbourhoods
from coder_core.training.parts.part import Part
from coder_core.training.parts.prototypes import make_prototypes
from coder_core.training.parts.reviews import make_review_weights
from coder_core.training.parts.scale import make_scale
from coder_core.training.parts.several_embeddings import make_regularisers
from coder_core.training.prepare import Prepared

MAKERS = (
    make_scale,
    make_review_weights,
    make_memory,
    make_neighbourhoods,
    make_regularisers,
    make_boosting,
    make_concept_loss,
    make_prototypes,
)


def make_parts(config: Config, prepared: Prepared, device: torch.device) -> list[Part]:
    """The parts a configuration asks for, on `device`, in the order in which their losses are summed (eq. 8).

    Args:
        config: of the run.
        prepared: data and model; the model stands on `device`.
        device: to train on.
    """
    parts = [make(config, prepared) for make in MAKERS]
    return [part.to(device) for part in parts if part is not None]
