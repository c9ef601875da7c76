"""docs/api.md: its examples print what the page shows, and it names every public function once."""

import doctest
import re
import shutil

from tests.support.api_reference import public_functions
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


def test_every_public_function_is_named_once(pytestconfig):
    """After a change: python -m tests.support.api_reference."""
    page = (pytestconfig.rootpath / "docs" / "api.md").read_text("utf-8")
    named = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    assert sorted(named) == sorted(name for functions in public_functions().values() for name in functions)
