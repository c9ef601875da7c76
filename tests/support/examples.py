"""Examples in docstrings, which are tests: found in the source, and run."""

import doctest
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

PROJECT = Path(__file__).resolve().parents[2]


def modules_with_examples(package):
    """Return the names of the modules of a package, such as coder_core.data, whose docstrings have examples."""
    files = sorted((PROJECT / package.replace(".", "/")).rglob("*.py"))
    names = [
        ".".join(file.relative_to(PROJECT).with_suffix("").parts)
        for file in files
        if ">>> " in file.read_text("utf-8")
    ]
    return [name.removesuffix(".__init__") for name in names]


def assert_examples_hold(name):
    """Run the examples of a module."""
    results = doctest.testmod(import_module(name), extraglobs={"np": np, "torch": torch})
    assert results.attempted > 0
    assert results.failed == 0
