"""A few cases of two campaigns must not be silent or end in a traceback; `make attack` runs every campaign in full.

`tests/training/test_kills.py` tests kills, `tests/runs/test_links.py` links, `tests/runs/test_damage.py` and
`tests/runs/test_wrong_values.py` damaged files.
"""

import re

import pytest

from tests.support.processes import forked


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_attack_ends_silently_or_in_a_traceback(tmp_path):
    """Run in a separate process, because a fork of a process that has trained may hang."""
    [printed] = forked("attack_sample", output=tmp_path / "printed")
    for name in ("inputs", "restarts"):
        assert re.search(rf"^{name}: [3-9] in ", printed, re.MULTILINE)
