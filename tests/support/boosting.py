"""Tiny configurations with boosting, their teachers, losses and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.training.losses import Losses
from coder_core.training.parts.boosting import BoostingTeacher
from coder_core.training.parts.make import make_boosting
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.step import compute_losses
from tests.support.tiny_runs import STILL, tiny_config


def boosted(data: Path, name: str = "tiny", *, dropout: bool = True, **boosting: Any) -> Config:
    """AM beside the summed triplet loss, unless said otherwise."""
    usual: dict[str, Any] = {
        "loss": "btr-sum",
        "weight_instance": 1.0,
        "boosting": "am",
        "boosting_momentum": 0.7,
    }
    usual["twin_precision"] = "float32"  # on every processor: margins are compared with those of loops
    return tiny_config(data, name, bank_size=0, **({} if dropout else STILL) | usual | boosting)


def started(config: Config, *, apart: float = 0.3) -> tuple[Prepared, BoostingTeacher]:
    """Data, model and a teacher that has moved away from the model."""
    prepared = prepare(config)
    boosting = make_boosting(config, prepared)
    assert isinstance(boosting, BoostingTeacher)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in boosting.branch.parameters():
            parameter.add_(apart * torch.randn_like(parameter))
    return prepared, boosting


def take(
    prepared: Prepared, boosting: BoostingTeacher | None, config: Config, batch: Batch, seed: int = 4
) -> Losses:
    torch.manual_seed(seed)  # of the dropout
    return compute_losses(prepared.model, batch, config, [boosting] if boosting else [], epoch=5.0)


def scores(model: Coder, batch: Batch) -> list[list[float]]:
    with torch.no_grad():
        images = model.encode_images(batch.regions, batch.region_lengths)
        texts = model.encode_texts(batch.words, batch.word_lengths)
    found: list[list[float]] = (images.double() @ texts.double().T).tolist()
    return found


def weights(model: Coder) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return all(torch.equal(ours[name], theirs[name]) for name in ours)
