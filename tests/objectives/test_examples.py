"""Every public function of objectives, evaluation and ops has a runnable example."""

import doctest
import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
import torch

from coder_core import evaluation, objectives, ops

NAMES = [
    name
    for package in (objectives, evaluation, ops)
    for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if name != "coder_core.ops.parallel"  # several processes: tests/training/test_parallel.py
]


@pytest.mark.parametrize("name", ["coder_core.objectives", "coder_core.evaluation", "coder_core.ops", *NAMES])
def test_every_public_function_has_an_example_that_runs(name):
    module = import_module(name)
    assert doctest.testmod(module, extraglobs={"torch": torch, "np": np}).failed == 0
    functions = (part for _, part in inspect.getmembers(module, inspect.isfunction))
    public = [part for part in functions if part.__module__ == name and part.__name__[0] != "_"]
    assert [function.__name__ for function in public if ">>>" not in (function.__doc__ or "")] == []


def test_public_losses_are_exported_by_name():
    for module, names in {
        "diversity": ("diversity_std", "diversity_entropy"),
        "triplet": ("triplet_sum", "triplet_hardest"),
        "contrastive": ("info_nce",),
    }.items():
        source = import_module(f"coder_core.objectives.{module}")
        assert all(getattr(source, name) is getattr(objectives, name) for name in names)
