"""Run a few cases of two campaigns of `tests.attack`, in a process that has never trained."""

import sys

from tests.attack import __main__ as attack
from tests.attack import inputs, restarts

CAMPAIGNS = (inputs, restarts)


def main():
    """Print what `python -m tests.attack` prints; AssertionError: a finding is bad."""
    restarts.KILLS = 1
    for name in ("pictures", "boosting", *restarts.SEVERAL):
        restarts.COMMANDS.pop(name)
    names = [campaign.__name__.rpartition(".")[2] for campaign in CAMPAIGNS]
    sys.argv = ["tests.attack", *names, "--cases=3", "--jobs=2"]
    assert attack.main() == 0
