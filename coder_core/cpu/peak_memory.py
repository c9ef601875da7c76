"""The most memory a run has taken."""

from __future__ import annotations

import resource
import sys

import torch

KIBIBYTES = 1 if sys.platform == "darwin" else 1024  # what a unit of ru_maxrss holds in bytes


def peak_mebibytes(device: torch.device) -> float:
    """Of this process so far: on a GPU what its tensors took there, on a CPU all that it held, data included."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTES / 2**20
