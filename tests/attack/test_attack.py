"""A small part of two campaigns, where nothing may be silent or end in a traceback; `make attack` runs all of them whole.

Kills are those of `tests/training/test_kills.py`, links those of `tests/runs/test_links.py`.
"""

import os
import subprocess
import sys

import pytest

from tests.attack.campaign import ROOT

SAMPLE = """
import torch

from tests.attack import corruptions, inputs
from tests.attack.campaign import report, workplace

torch.set_num_threads(1)
corruptions.RUNS = ("whole",)
campaigns = []
for module, cases, seed in ((corruptions, 4, 0), (inputs, 6, 1)):
    with workplace() as folder:
        campaigns.append(module.campaign(folder, cases, seed))
        assert len(campaigns[-1].cases) >= cases, module
raise SystemExit(report(campaigns))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_silent_and_nothing_ends_in_a_traceback():
    """Both in one process, apart from the tests': a fork of one that has trained may hang."""
    ended = subprocess.run(
        [sys.executable, "-c", SAMPLE],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
