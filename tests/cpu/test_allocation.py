"""Freed buffers stay with the process, unless the user chose how memory is given back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from coder_core.cpu.allocation import keep_buffers

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

kept = keep_buffers() if sys.argv[1] == "keep" else None
np.ones(2**24, np.float32)  # 64 MiB, freed at once
before = faults()
for _ in range(4):
    np.ones(2**24, np.float32)
print(kept, faults() - before)
"""
GNU = sys.platform.startswith("linux") and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")


def run(what: str, **chosen: str) -> tuple[str, int]:
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    environment = {name: value for name, value in os.environ.items() if name not in names} | chosen
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what], capture_output=True, text=True, check=True, env=environment
    )
    worked, faults = done.stdout.split()
    return worked, int(faults)


@pytest.mark.skipif(not GNU, reason="the C library is not glibc")
def test_pages_are_not_asked_for_again() -> None:
    worked, faults = run("keep")
    assert worked == "True"
    _, given_back = run("leave")
    assert faults * 10 < given_back


def test_the_users_thresholds_stay() -> None:
    assert run("keep", MALLOC_TRIM_THRESHOLD_="1000000")[0] == "False"
