"""One of several processes: training steps with prototypes, everything they came to in one file.

python -m tests.support.prototype_worker DATA OUT.safetensors STEPS
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.model import parallel
from coder_core.training.parts.make import make_prototypes
from coder_core.training.prepare import prepare
from coder_core.training.step import compute_losses
from tests.support.several_processes import run_as_one_of_several
from tests.support.tiny_runs import STILL, tiny_config

PROTOTYPES, RATE = 6, 0.5


def prototype_config(data: Path, **values: Any) -> Config:
    """Prototypes without dropout and without a bank."""
    return tiny_config(data, **STILL | {"epochs": 4, "bank_size": 0, "prototypes": PROTOTYPES} | values)


def trained(config: Config, steps: int) -> dict[str, Tensor]:
    """Losses, gradients and all prototypes after every step, under plain gradient descent."""
    prepared = prepare(config)
    model, per_epoch = prepared.model.train(), prepared.batches.per_epoch
    prototypes = make_prototypes(config, prepared)
    assert prototypes is not None
    embed: nn.Module = model
    if parallel.world_size() > 1:
        embed = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    found: dict[str, Tensor] = {}
    for step in range(steps):
        losses = compute_losses(
            model, prepared.batches(step), config, [prototypes], epoch=step / per_epoch, embed=embed
        )
        model.zero_grad()
        prototypes.zero_grad()
        losses.total.backward()
        parallel.average_gradients(prototypes.parameters())
        for name, value in losses.parts.items():
            found[f"{step} part {name}"] = parallel.mean(value)
        with torch.no_grad():
            for name, parameter in [*model.named_parameters(), ("classifier", prototypes.classifier)]:
                if parameter.grad is not None:
                    found[f"{step} gradient {name}"] = parameter.grad.clone()
                    parameter.sub_(RATE * parameter.grad)
        prototypes.after_step(model, step)
        found |= {
            f"{step} prototypes {name}": value.clone() for name, value in prototypes.state_dict().items()
        }
    return found


if __name__ == "__main__":
    run_as_one_of_several(lambda: trained(prototype_config(Path(sys.argv[1])), int(sys.argv[3])), sys.argv[2])
