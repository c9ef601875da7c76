"""The learned scale of a loss's logits, and the bias of the sigmoid loss. CLIP: Radford et al. 2021; SigLIP: Zhai et
al. 2023."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from coder_core.config.schema import LARGEST_SCALE, Config
from coder_core.model.coder import Coder
from coder_core.training.optim import SCALE
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.plain_losses import Scale
from coder_core.training.prepare import Prepared


class LearnedScale(Part):
    """Multiplies the cosines of a loss by exp(t) and, for the sigmoid loss, adds b; both are trained with the model.

    Neither has weight decay, and their gradient is clipped by a norm of its own. Of several branches that train
    together the target alone moves them. t stays at or below ln 100.

    Args:
        temperature: exp(t) starts as 1 / temperature.
        bias: where b starts; None for a loss without one.
    """

    state_file = "scale"

    def __init__(self, temperature: float, bias: float | None = None) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))
        self.bias = None if bias is None else nn.Parameter(torch.tensor(bias))

    def prepare(self, step: StepContext) -> None:
        """Give the loss the scale and the bias as they stand."""
        step.scale = Scale(self.log_scale.exp(), self.bias)

    @torch.no_grad()
    def after_step(self, model: Coder, step: int) -> None:
        """Keep the scale at or below 100."""
        self.log_scale.clamp_(max=math.log(LARGEST_SCALE))

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """t and b."""
        return [{f"{SCALE}{name}": parameter for name, parameter in self.named_parameters()}]

    def report(self) -> dict[str, Any]:
        """The scale exp(t) and the bias."""
        fields = {"logit_scale": round(math.exp(self.log_scale.item()), 5)}
        return fields if self.bias is None else fields | {"logit_bias": round(self.bias.item(), 5)}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Logit scale 12.4, bias -9.81."""
        if "logit_scale" not in fields:
            return []
        bias = f", bias {fields['logit_bias']:.3g}" if "logit_bias" in fields else ""
        return [f"logit scale {fields['logit_scale']:.3g}{bias}"]

    def exports(self) -> dict[str, dict[str, torch.Tensor]]:
        """Both, beside the best model; ranking does not read them."""
        return {"scale": {name: value.detach() for name, value in self.state_dict().items()}}


def make_scale(config: Config, prepared: Prepared) -> LearnedScale | None:
    """The scale that a configuration learns."""
    objective = config.objective
    if not objective.learns_scale:
        return None
    return LearnedScale(objective.temperature, objective.logit_bias if objective.loss == "sigmoid" else None)
