"""A small part of every campaign, where nothing may be silent or end in a traceback; `make attack` runs them whole."""

import os
import subprocess
import sys

import pytest

from tests.attack.campaign import ROOT

SAMPLE = """
import torch

from tests.attack import corruptions, inputs, kills, links
from tests.attack.campaign import report, workplace

torch.set_num_threads(1)
campaigns = []
for module, cases, seed in ((corruptions, 8, 0), (kills, 2, 0), (inputs, 6, 1), (links, 8, 0)):
    with workplace() as folder:
        campaigns.append(module.campaign(folder, cases, seed))
        assert len(campaigns[-1].cases) >= cases, module
raise SystemExit(report(campaigns))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_silent_and_nothing_ends_in_a_traceback() -> None:
    """All campaigns in one process, apart from the tests': a fork of one that has trained may hang."""
    ended = subprocess.run(
        [sys.executable, "-c", SAMPLE],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
