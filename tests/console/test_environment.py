"""Importing changes nothing of the process; commands set torch's variables before torch loads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from coder_core.console.environment import tune_environment

IMPORT_EVERYTHING = """
import json, os, pkgutil, importlib, resource
import numpy as np, sklearn, torch  # scikit-learn sets variables of its own

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def state():
    np.ones(2**24, np.float32)
    before = faults()
    np.ones(2**24, np.float32)  # needs new pages unless the allocator keeps freed buffers
    threads = torch.get_num_threads(), torch.get_num_interop_threads()
    products = torch.backends.mkldnn.matmul.fp32_precision
    return [dict(os.environ), threads, products, torch.initial_seed(), faults() - before > 2000]

torch.manual_seed(0)
before = state()
import coder_core
for module in pkgutil.walk_packages(coder_core.__path__, "coder_core."):
    importlib.import_module(module.name)
print(json.dumps([before, state()]))
"""


def test_importing_coder_core_changes_nothing_of_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], capture_output=True, text=True, check=True
    )
    before, after = json.loads(done.stdout)
    assert after == before


@pytest.mark.parametrize("command", [["train", "--resume", "nowhere"], ["evaluate", "nowhere"]])
def test_a_command_sets_the_variables_before_torch_loads(command: list[str]) -> None:
    program = f"""
import os, runpy, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print([name in os.environ for name in ("GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")])
sys.meta_path.insert(0, Watch())
sys.argv = {command}
runpy.run_module("coder_core.{command[0]}", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PATH": ""})
    assert done.stdout == "[True, True]\n", done.stderr


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "1000", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "512"}),
        (
            {"OMP_WAIT_POLICY": "active"},
            {"OMP_WAIT_POLICY": "active", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "512"},
        ),
        ({"GOMP_SPINCOUNT": "7", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "9"},) * 2,
    ],
)
def test_variables_the_user_set_stay(chosen: dict[str, str], expected: dict[str, str]) -> None:
    environment = dict(chosen)
    tune_environment(environment)
    assert environment == expected
