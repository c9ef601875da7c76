"""The C library's allocator, told to keep the large buffers that every training step asks for again.

glibc gives blocks above 32 MiB back to the system when they are freed, and what is left over at the top of its heap
too. Each step then waits for the same pages to be handed out and cleared anew: 4 to 9% of its time (docs/results.md).
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
KEPT = 2**30
"""Bytes: blocks up to this size come from the heap, and this much stays free at its top."""


def keep_buffers() -> bool:
    """Keep freed buffers for the rest of the process. Returns whether the C library took it.

    Nothing changes where the C library has no `mallopt` (musl, macOS, Windows) or the user chose thresholds
    (`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`, `GLIBC_TUNABLES`).
    """
    chosen = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    if not sys.platform.startswith("linux") or any(name in os.environ for name in chosen):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT)) and bool(mallopt(_MMAP_THRESHOLD, KEPT))
