"""docs/api.md: its examples print what the page shows, and it names every public function once."""

import doctest
import inspect
import pkgutil
import re
import shutil
from importlib import import_module

from coder_core import api
from coder_core.api.run import Run
from tests.support.run_folders import FINISHED_RUNS

EXAMPLES = {"whole": "mine", "weighted": "baseline"}


def test_the_examples_print_what_the_page_shows(tmp_path, monkeypatch, pytestconfig):
    page = (pytestconfig.rootpath / "docs" / "api.md").read_text("utf-8")
    for name, shown in EXAMPLES.items():
        shutil.copytree(FINISHED_RUNS / "checkpoints" / name, tmp_path / "checkpoints" / shown)
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(code, {}, "api.md", "docs/api.md", 0)
    assert len(examples.examples) > 30
    results = doctest.DocTestRunner(verbose=False).run(examples)
    assert results.failed == 0


def public_functions():
    """Return the functions of every subject, and the methods and properties of an opened run, as the page names them."""
    names = [f"run.{name}" for name in dir(Run) if not name.startswith("_")]
    for module in pkgutil.iter_modules(api.__path__):
        parts = [f"{api.__name__}.{module.name}"]
        if module.name == "training":
            folder = import_module(parts[0]).__path__
            parts = [f"{parts[0]}.{part.name}" for part in pkgutil.iter_modules(folder)]
        for part in parts:
            for name, function in vars(import_module(part)).items():
                own = inspect.isfunction(function) and function.__module__.startswith(part)
                if own and not name.startswith("_"):
                    names.append(f"{part.removeprefix(f'{api.__name__}.')}.{name}")
    return sorted(names)


def test_every_public_function_is_named_once(pytestconfig):
    page = (pytestconfig.rootpath / "docs" / "api.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)) == public_functions()
