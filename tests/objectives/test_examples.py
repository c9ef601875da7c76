"""Every public function of objectives, evaluation and ops has a runnable example."""

import doctest
import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
import torch

from coder_core import evaluation, objectives, ops

PACKAGES = objectives, evaluation, ops
MODULES = [package.__name__ for package in PACKAGES] + [
    f"{package.__name__}.{module.name}"
    for package in PACKAGES
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    failed, _ = doctest.testmod(import_module(name), extraglobs={"torch": torch, "np": np})
    assert failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if "._" not in name])
def test_every_public_function_has_an_example(name):
    module = import_module(name)
    functions = [
        function
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == name
    ]
    public = [function for function in functions if not function.__name__.startswith("_")]
    assert [function.__name__ for function in public if ">>>" not in (function.__doc__ or "")] == []


def test_the_names_that_others_import_stay():
    for module, name in (
        ("diversity", "diversity_std"),
        ("diversity", "diversity_entropy"),
        ("triplet", "triplet_sum"),
        ("triplet", "triplet_hardest"),
        ("diversity_contrastive", "diversity_contrastive"),
        ("contrastive", "info_nce"),
    ):
        assert getattr(import_module(f"coder_core.objectives.{module}"), name) is getattr(objectives, name)
