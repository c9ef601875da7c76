"""Flip operators and constants one at a time and count the flips that a test notices.

    python -m tests.attack.mutations [PACKAGE …] [--count 200] [--seed 0] [--quick]

Works in a temporary copy of the project. Every flip is tried in a process forked after the imports, by the tests of
its package (`TESTS`), until the first failure; files that name the flipped module come first. A flip that no test
notices is printed with its file and line. With --quick only files that name the module are run, at most eight, and those
that compare whole answers, figures and pages with stored ones (`test_stored_…`), so that the shares are lower bounds:
the tests of the app take minutes.
"""

import argparse
import ast
import os
import random
import re
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import plotly.graph_objects  # noqa: F401  loaded before the forks, like everything that tests import and nobody flips
import sklearn.mixture  # noqa: F401
import streamlit.testing.v1  # noqa: F401
import torch

PROJECT = Path(__file__).resolve().parents[2]
# package -> folders or files of its tests; commands, embedding and training use what no other test uses
TESTS = {
    "coder_core/objectives": (
        "tests/objectives",
        "tests/training/test_boosting.py",
        "tests/training/test_groups.py",
        "tests/training/test_prototypes.py",
        "tests/training/test_step.py",
    ),
    "coder_core/evaluation": ("tests/evaluation", "tests/runs/test_analysis.py"),
    "coder_core/data": (
        "tests/data",
        "tests/commands",
        "tests/embedding",
        "tests/training/test_groups.py",
        "tests/training/test_reviews.py",
        "tests/training/test_step.py",
    ),
    "coder_core/api": ("tests/api", "tests/commands", "tests/runs/test_opening.py"),
    "app": ("tests/app",),
}
LEFT_OUT = (
    "browser",
    "test_install",
)  # in names of files whose tests need Chromium, or files that are not copied
WITH_EXAMPLES = ("coder_core/objectives", "coder_core/evaluation")  # packages whose docstrings have tests
EXAMPLES = "tests/objectives/test_examples.py"
COPIED = ("coder_core", "tests", "benchmarks", "app", "pages", "docs")
COPIED += ("pyproject.toml", "README.md", "streamlit_app.py")
LONGEST = 600  # seconds of processor time for the tests of one flip; exceeding them counts as noticed
PYTEST = ("-x", "-q", "-m", "not browser", "-p", "no:cacheprovider", "-W", "ignore:Module already imported")
MOST_NAMED = 8  # files of tests that --quick runs
PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
FLIPS = dict(PAIRS) | {second: first for first, second in PAIRS}
FLIPS |= {ast.FloorDiv: ast.Mult, ast.USub: ast.UAdd}
# type annotations, decorators, assertion messages, base classes
SKIPPED = ("annotation", "returns", "decorator_list", "msg", "bases")


def sites(tree):
    """Yield every operator or constant that can be flipped: node, field, index in the field's list (−1: not a list)."""
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float, bool):
        yield tree, "value", -1
    if isinstance(tree, ast.Constant | ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitOr):
        return
    for name, value in ast.iter_fields(tree):
        if name in SKIPPED:
            continue
        for number, child in enumerate(value) if isinstance(value, list) else ((-1, value),):
            if type(child) in FLIPS:
                yield tree, name, number
            elif isinstance(child, ast.AST):
                yield from sites(child)


def flipped(source, site):
    """Return the module with one site flipped, its line, and a description of the flip."""
    tree = ast.parse(source)
    node, name, number = list(sites(tree))[site]
    before = ast.unparse(node)
    if isinstance(node, ast.Constant):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1
    elif number < 0:
        setattr(node, name, FLIPS[type(getattr(node, name))]())
    else:
        operators = getattr(node, name)
        operators[number] = FLIPS[type(operators[number])]()
    return ast.unparse(tree), getattr(node, "lineno", 0), f"{before}  ->  {ast.unparse(node)}"


def tests_of(folder, package, file, *, quick):
    """Return the files of the package's tests, those that name the flipped file's module or page most often first."""
    names = re.compile(rf"[./\"' ]({file.stem}|{file.parent.name})\b")
    found: list[Path] = []
    for place in TESTS[package]:
        found += sorted((folder / place).rglob("test_*.py")) or [folder / place]
    files = [test for test in found if not any(part in test.name for part in LEFT_OUT)]
    mentions = {test: len(names.findall(test.read_text("utf-8"))) for test in files}
    files.sort(key=lambda test: -mentions[test])
    named = [test for test in files if test.name.startswith("test_stored_")]  # whole pages in seconds
    named += [test for test in files if mentions[test]][:MOST_NAMED]
    examples = [folder / EXAMPLES] if package in WITH_EXAMPLES else []
    return list(map(str, dict.fromkeys([*(named if quick and named else files), *examples])))


def noticed(folder, tests):
    """Return True if a test fails, in a fork that ends after the first failure or the limit of processor time."""
    child = os.fork()
    if child == 0:
        import pytest

        os.setsid()
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        status = 1
        try:
            status = int(pytest.main([*PYTEST, *tests]))
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return status != 0


def main():
    """Try the flips and print the share noticed in each package."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.mutations", description=__doc__)
    parser.add_argument("packages", nargs="*", default=list(TESTS), help=f"of {', '.join(TESTS)}")
    parser.add_argument("--count", type=int, default=200, help="flips, the same number in each package")
    parser.add_argument(
        "--quick", action="store_true", help="only tests that name the flipped module, and stored answers"
    )
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    sys.dont_write_bytecode = True  # two flips within a second would share a compiled file
    totals = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        folder.mkdir()
        for entry in COPIED:
            source = PROJECT / entry
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / entry)
        sys.path.insert(0, str(folder))
        for package in parsed.packages:
            files = sorted((folder / package).rglob("*.py"))
            counts = {file: len(list(sites(ast.parse(file.read_text("utf-8"))))) for file in files}
            every = [(file, site) for file, count in counts.items() for site in range(count)]
            for file, site in random.Random(parsed.seed).sample(every, parsed.count // len(parsed.packages)):
                source = file.read_text("utf-8")
                text, line, what = flipped(source, site)
                tests = tests_of(folder, package, file, quick=parsed.quick)
                if package not in totals and noticed(folder, tests):
                    raise SystemExit(f"the tests of {package} fail without a flip")
                file.write_text(text, "utf-8")
                totals.setdefault(package, []).append(noticed(folder, tests))
                file.write_text(source, "utf-8")
                if not totals[package][-1]:
                    where = f"{file.relative_to(folder)}:{line}"
                    print(f"not noticed: {where}: {what.splitlines()[0]}", flush=True)
    totals["all"] = [result for results in totals.values() for result in results]
    for package, results in totals.items():
        print(f"{package}: {sum(results)} of {len(results)} noticed ({sum(results) / len(results):.0%})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
