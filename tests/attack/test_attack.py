"""A small part of every campaign, where nothing may be silent or end in a traceback; `make attack` runs them whole."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.attack.campaign import ROOT

SAMPLE = "from tests.attack import {module} as m, campaign as c\nimport torch\ntorch.set_num_threads(1)\n"
RUN = "with c.workplace() as folder:\n    raise SystemExit(c.report([m.campaign(folder, {values})]))\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "values"),
    [
        ("corruptions", "40"),
        ("kills", "10"),
        ("inputs", "30, seed=1"),
        ("links", "40"),
    ],
)
def test_nothing_is_silent_and_nothing_ends_in_a_traceback(module: str, values: str) -> None:
    """In a process of its own: a fork of one that has trained may hang."""
    program = (SAMPLE + RUN).format(module=module, values=values)
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
