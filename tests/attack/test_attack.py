"""A few cases of two campaigns must not be silent or end in a traceback; `make attack` runs every campaign in full.

`tests/training/test_kills.py` tests kills, `tests/runs/test_links.py` links, `tests/runs/test_damage.py` and
`tests/runs/test_wrong_values.py` damaged files.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.attack.campaign import ROOT


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_attack_ends_silently_or_in_a_traceback():
    """Run in a separate process, because a fork of a process that has trained may hang."""
    command = [sys.executable, "-c", "from tests.support.attack_sample import main; main()"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for name in ("inputs", "restarts"):
        assert re.search(rf"^{name}: [3-9] in ", ended.stdout, re.MULTILINE)
