"""A few cases of three campaigns must not be silent or end in a traceback; `make attack` runs every campaign in full.

`tests/training/test_kills.py` tests kills, `tests/runs/test_links.py` links.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.attack.campaign import ROOT

CAMPAIGNS = ("corruptions", "inputs", "restarts")
SAMPLE = """
from tests.attack import __main__, corruptions, restarts

corruptions.RUNS = ("whole",)
restarts.KILLS = 1
for name in ("pictures", "boosting", *restarts.SEVERAL):
    restarts.COMMANDS.pop(name)
raise SystemExit(__main__.main())
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_attack_ends_silently_or_in_a_traceback():
    """Run in a separate process, because a fork of a process that has trained may hang."""
    command = [sys.executable, "-c", SAMPLE, *CAMPAIGNS, "--cases=3", "--jobs=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for name in CAMPAIGNS:
        assert re.search(rf"^{name}: [3-9] in ", ended.stdout, re.MULTILINE)
