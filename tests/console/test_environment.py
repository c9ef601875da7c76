"""Importing changes nothing in the process; commands set variables before torch loads; Ctrl-C at an import is quiet."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coder_core.console.runner import tune_environment

REPOSITORY = Path(__file__).resolve().parents[2]
INTERRUPTED = 130
IMPORT_EVERYTHING = """
import json, os, pkgutil, importlib, resource, signal
import numpy as np, sklearn, torch  # scikit-learn sets variables of its own

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def state():
    np.ones(2**24, np.float32)
    before = faults()
    np.ones(2**24, np.float32)  # needs new pages unless the allocator keeps freed buffers
    threads = torch.get_num_threads(), torch.get_num_interop_threads()
    products = torch.backends.mkldnn.matmul.fp32_precision
    signals = str(signal.getsignal(signal.SIGINT))
    return [dict(os.environ), threads, products, torch.initial_seed(), faults() - before > 2000, signals]

torch.manual_seed(0)
before = state()
import coder_core
for module in pkgutil.walk_packages(coder_core.__path__, "coder_core."):
    importlib.import_module(module.name)
print(json.dumps([before, state()]))
"""
PROGRAM = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
sys.meta_path.insert(0, Interrupt())
"""


def run(arguments, **named):
    """Run a new interpreter in the repository."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, **named)


def test_imports_leave_the_process_alone_and_user_variables_are_kept():
    before, after = json.loads(run(["-c", IMPORT_EVERYTHING]).stdout)
    assert after == before
    cache = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    custom = {"GOMP_SPINCOUNT": "7", cache: "9"}
    active = {"OMP_WAIT_POLICY": "active"}
    usual = {"GOMP_SPINCOUNT": "1000", cache: "512"}
    for before, after in (({}, usual), (active, active | {cache: "512"}), (custom, custom)):
        environment = dict(before)
        tune_environment(environment)
        assert environment == after


@pytest.mark.parametrize("command", [["train", "--resume", "nowhere"], ["evaluate", "nowhere"]])
def test_a_command_sets_the_variables_before_torch_loads(command):
    program = f"""
import os, runpy, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print([name in os.environ for name in ("GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")], flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch())
sys.argv = {command}
runpy.run_module("coder_core.{command[0]}", run_name="__main__", alter_sys=True)
"""
    done = run(["-c", program], env={"PATH": ""})
    assert done.stdout == "[True, True]\n", done.stderr


@pytest.mark.parametrize(("entry", "library"), [("script", "rich.console"), ("module", "numpy")])
def test_an_interrupt_during_an_import_exits_quietly(tmp_path, library, entry):
    (tmp_path / "sitecustomize.py").write_text(PROGRAM)
    script = tmp_path / "coder-train"
    script.write_text("import sys\nfrom coder_core.train import main\nsys.exit(main())\n")
    start = ["-m", "coder_core.train"] if entry == "module" else [str(script)]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "INTERRUPT_AT": library}
    done = run([*start, "coder-demo", f"--root={tmp_path}", "--data=missing"], env=environment)
    assert done.returncode == INTERRUPTED, done.stderr
    assert re.fullmatch("interrupted.*\n", done.stderr)
