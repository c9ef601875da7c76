"""Make the C library keep the large buffers that every training step allocates again.

glibc returns freed blocks above 32 MiB and the top of its heap to the system. Each step then waits for the same pages
to be mapped and cleared: 4 to 9% of its time (docs/tried.md).
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
KEPT = 2**30  # bytes: blocks up to this size come from the heap, and this much stays free at its top


def keep_buffers() -> bool:
    """Keep freed buffers for the rest of the process, and return whether that worked.

    Changes nothing where the C library has no `mallopt` (musl, macOS, Windows) or the user has set thresholds
    (`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`, `GLIBC_TUNABLES`).
    """
    variables = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    if not sys.platform.startswith("linux") or any(name in os.environ for name in variables):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT)) and bool(mallopt(_MMAP_THRESHOLD, KEPT))
