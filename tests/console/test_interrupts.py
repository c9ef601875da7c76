"""Ctrl-C at any import of a command leaves quietly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
INTERRUPTED = 130
PROGRAM = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize(
    "library", ["tyro", "rich.console", "coder_core.config.schema", "torch", "numpy", "safetensors"]
)
@pytest.mark.parametrize("entry", ["module", "script"])
def test_an_interrupt_during_an_import_leaves_quietly(tmp_path: Path, library: str, entry: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(PROGRAM)
    script = tmp_path / "coder-train"
    script.write_text("import sys\nfrom coder_core.train import main\nsys.exit(main())\n")
    start = ["-m", "coder_core.train"] if entry == "module" else [str(script)]
    done = subprocess.run(
        [sys.executable, *start, "coder-demo", f"--root={tmp_path}", "--data=missing"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "INTERRUPT_AT": library},
    )
    assert done.returncode == INTERRUPTED, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("interrupted")


def test_a_program_that_imports_the_package_keeps_its_handlers() -> None:
    program = (
        "import signal, coder_core; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True)
