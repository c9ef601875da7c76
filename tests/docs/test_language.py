"""Docstrings open with a verb or with the thing itself."""

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = ("coder_core", "app", "pages", "benchmarks", "tests")
OPENERS = re.compile(r"(What|Whether|How|Which|Where|When|Those|With|Of|By|Who)\b")


def docstrings(path):
    """Line and text of every string that is a statement, as docstrings of fields are."""
    return [
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def test_no_docstring_opens_with_a_relative_clause():
    files = [path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*.py"))]
    assert len(files) > 300
    openers = [
        (path, line) for path in files for line, text in docstrings(path) if OPENERS.match(text.strip())
    ]
    assert openers == []
