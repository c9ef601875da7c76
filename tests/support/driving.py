"""Programs of the tests that need a process of their own, and tell what they found as JSON on their last line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def told_by(program: str, *arguments: str | Path, timeout: float) -> dict[str, Any]:
    """Run `python -m tests.support.<program> …` on one thread and return what it prints last."""
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.support.{program}", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
