"""Commands answer at once if no model is needed, also with a closed pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
MODULES = [target.removesuffix(":main") for target in SCRIPTS.values()]
PROGRAM = """
import json, sys
from importlib import import_module
try:
    status = import_module(sys.argv[1]).main(sys.argv[2:])
except SystemExit as left:
    status = left.code
heavy = {"torch", "sklearn", "faiss", "pandas", "scipy", "transformers", "plotly", "textblob"} & set(sys.modules)
print(json.dumps([status, sorted(heavy)]))
"""


@pytest.mark.parametrize(
    ("module", "arguments", "status", "message"),
    [
        *((module, ["--help"], 0, f"usage: python -m {module}") for module in MODULES),
        ("coder_core.train", ["flickr9k"], 1, "flickr9k"),
        ("coder_core.train", ["demo", "--learning-rat=3"], 2, "learning-rate"),
        ("coder_core.train", ["--boosting-anchor=x", "--help"], 2, "--boosting-anchor"),
        ("coder_core.train", ["--resume"], 2, "--resume"),
        ("coder_core.ablate", ["component"], 1, "component"),
        ("coder_core.ablate", ["components", "--preset=x"], 1, "--preset x"),
        ("coder_core.evaluate", [], 1, "RUN"),
        ("coder_core.evaluate", ["x", "--ways", "1"], 1, "--ways"),
        ("coder_core.check_data", ["x", "--word-threshold=0"], 2, "--word-threshold"),
        ("coder_core.embed", ["import", "--images=x"], 2, "--texts"),
        ("coder_core.embed", [], 2, "usage: python -m coder_core.embed pictures"),
    ],
)
def test_no_heavy_library_is_loaded_for_help_or_a_mistake(
    module: str, arguments: list[str], status: int, message: str
) -> None:
    command = [sys.executable, "-c", PROGRAM, module, *arguments]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    *output, answer = ended.stdout.splitlines()
    assert json.loads(answer) == [status, []]
    assert message in " ".join([*output, ended.stderr])


@pytest.mark.parametrize("module", MODULES)
def test_help_that_is_cut_off_ends_without_a_traceback(module: str) -> None:
    read, write = os.pipe()
    os.close(read)  # nothing reads the pipe
    command = [sys.executable, "-m", module, "--help"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=write, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(write)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (141, "")
