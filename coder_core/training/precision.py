"""Precision of the passes without gradients: the momentum twin's and a boosting teacher's."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from coder_core.config.schema import TrainingConfig
from coder_core.model.encode import autocast, in_bfloat16
from coder_core.model.products import DEFAULT_PRODUCTS, multiplies_bfloat16, product_library


def twin_precision(training: TrainingConfig, device: torch.device) -> str:
    """ "float32" or "bfloat16".

    "auto" follows --precision where that is set, and on a GPU. On a CPU it is bfloat16 where that is faster: on
    processors with bfloat16 instructions where oneDNN multiplies float32.
    """
    if training.twin_precision != "auto":
        return training.twin_precision
    faster = device.type == "cpu" and multiplies_bfloat16() and product_library() != DEFAULT_PRODUCTS
    requested = in_bfloat16(device, training.precision)
    return "bfloat16" if requested or (training.precision == "auto" and faster) else "float32"


def twin_autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Autocast for such a pass, whatever the rest of the step uses; `precision` is that of `twin_precision`."""
    return (
        autocast(device, precision) if precision == "bfloat16" else torch.autocast(device.type, enabled=False)
    )
