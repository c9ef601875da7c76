"""Peak memory of this process."""

from __future__ import annotations

import resource
import sys

import torch

KIBIBYTES = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss


def peak_mebibytes(device: torch.device) -> float:
    """Peak so far: on a GPU of its tensors there, on a CPU of the whole process, data included."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTES / 2**20
