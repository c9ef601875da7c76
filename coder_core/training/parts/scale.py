"""The learned scale of the logits: its limit, its state and its line in the history."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from coder_core.model.coder import Coder
from coder_core.objectives.modules import ScaledLoss
from coder_core.training.optim import SCALE
from coder_core.training.step import Part


class LearnedScale(Part):
    """Learned scale of the logits, exp(t), and bias b of the sigmoid loss. CLIP: Radford et al. 2021; SigLIP: Zhai et
    al. 2023.

    Both belong to the loss. Neither has weight decay, and their gradients are clipped separately from the model's.
    Online branches of boosting do not train them. exp(t) starts at 1 / temperature and never exceeds 100.
    """

    state_file = "scale"

    def __init__(self, loss: ScaledLoss) -> None:
        super().__init__()
        assert loss.scale.log_scale is not None
        self.limit = loss.scale.limit
        self.log_scale = loss.scale.log_scale
        self.bias = loss.bias

    def after_step(self, model: Coder, step: int) -> None:
        """Keep the scale at or below 100."""
        self.limit()

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return t and b."""
        return [{f"{SCALE}{name}": parameter for name, parameter in self.named_parameters()}]

    def report(self) -> dict[str, Any]:
        """Return the scale exp(t) and the bias."""
        fields = {"logit_scale": round(math.exp(self.log_scale.item()), 5)}
        return fields if self.bias is None else fields | {"logit_bias": round(self.bias.item(), 5)}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return a text such as: logit scale 12.4, bias -9.81."""
        if "logit_scale" not in fields:
            return []
        bias = f", bias {fields['logit_bias']:.3g}" if "logit_bias" in fields else ""
        return [f"logit scale {fields['logit_scale']:.3g}{bias}"]

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Return t and b, which are saved with the best model; ranking does not need them."""
        return {"scale": {name: value.detach() for name, value in self.state_dict().items()}}
