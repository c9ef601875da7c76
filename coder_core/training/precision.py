"""How exactly the passes without gradients multiply: the momentum twin's, and those of a boosting anchor."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from coder_core.config.schema import TrainingConfig
from coder_core.cpu.products import DEFAULT_PRODUCTS, multiplies_bfloat16, product_library
from coder_core.model.encode import autocast, in_bfloat16


def twin_precision(training: TrainingConfig, device: torch.device) -> str:
    """ "float32" or "bfloat16".

    Auto is as --precision where that is given, and on a GPU. On a CPU it is bfloat16 where that was measured to be
    faster: on processors that multiply it themselves and where oneDNN multiplies float32.
    """
    if training.twin_precision != "auto":
        return training.twin_precision
    faster = device.type == "cpu" and multiplies_bfloat16() and product_library() != DEFAULT_PRODUCTS
    as_asked = in_bfloat16(device, training.precision)
    return "bfloat16" if as_asked or (training.precision == "auto" and faster) else "float32"


def twin_autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Around such a pass, whatever holds around the rest of the step.

    Args:
        precision: what `twin_precision` says.
        device: where the pass is made.
    """
    return autocast(device, precision) if precision == "bfloat16" else torch.autocast(device.type, enabled=False)
