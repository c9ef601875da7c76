"""Commands answer at once if no model is needed, also with a closed pipe."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from coder_core.__main__ import COMMANDS
from coder_core.console.runner import READER_GONE

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
MODULES = [target.removesuffix(":main") for target in SCRIPTS.values()]
NAMES = {f"coder_core.{module}": name for name, module in COMMANDS.items()}
CASES = [  # a command and its arguments, the exit status, and a part of the output
    *((module, ["--help"], 0, f"usage: coder-lab {NAMES[module]}") for module in MODULES[1:]),
    (MODULES[0], ["--help"], 0, "usage: coder-lab COMMAND"),
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
    ("coder_core.embed", ["import", "--help"], 0, "--texts T.npy --captions C.txt --name NAME [-h]"),
    ("coder_core.embed", ["import", "x", "--help"], 0, "import --name NAME [-h] [OPTIONS] PATH"),
    ("coder_core.embed", [], 2, "usage: coder-lab embed pictures"),
]
FORKS = """
import json, os, sys
from importlib import import_module
import typeguard  # tyro imports it when it is called
from coder_core.config import presets
from coder_core.console import output, runner

def answer(module, arguments):
    try:
        status = import_module(module).main(arguments)
    except SystemExit as left:
        status = left.code
    heavy = {"torch", "sklearn", "faiss", "pandas", "scipy", "transformers", "plotly", "textblob"}
    sys.stdout.flush()
    print("\\n" + json.dumps([status, sorted(heavy & set(sys.modules))]), file=sys.stderr, flush=True)

for module, arguments, *_ in json.loads(sys.argv[1]):
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        answer(module, arguments)
        os._exit(0)
    os.close(write)
    print(json.dumps(os.fdopen(read).read()), flush=True)
"""


def test_help_and_mistakes_load_no_heavy_library():
    """Every case is a fork of one process that has imported what all commands need."""
    command = [sys.executable, "-c", FORKS, json.dumps(CASES)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    answers = map(json.loads, ended.stdout.splitlines())
    for (module, arguments, status, message), answer in zip(CASES, answers, strict=True):
        *output, last = answer.splitlines()
        assert json.loads(last) == [status, []], (module, arguments)
        assert message in " ".join(output)


def test_help_into_a_closed_pipe_ends_without_a_traceback():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", MODULES[0], "--help"]
    ended = subprocess.run(command, cwd=REPOSITORY, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (READER_GONE, "")


def test_messages_name_commands_by_their_one_name():
    """`python -m coder_core.train` and coder-train work as before, but nothing tells people to type them."""
    folders = [REPOSITORY / "coder_core", REPOSITORY / "app"]
    sources = [file for folder in folders for file in folder.rglob("*") if file.suffix in (".py", ".toml")]
    assert len(sources) > 200
    former = re.compile(r'python -m coder_core\.\w|"python", "-m", "coder_core')
    assert not [str(file) for file in sources if former.search(file.read_text("utf-8"))]
