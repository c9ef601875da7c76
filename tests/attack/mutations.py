"""Flip operators and constants one at a time and count the flips that a test notices.

    python -m tests.attack.mutations [--count 200] [--seed 0]

Works in a temporary copy of the project. Every flip is tried in a process forked after the imports, by the tests of
its package (`TESTS`), until the first failure. A flip that no test notices is printed with its file and line.
"""

import argparse
import ast
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

PROJECT = Path(__file__).resolve().parents[2]
TESTS = {f"coder_core/{name}": (f"tests/{name}",) for name in ("objectives", "evaluation", "data")}
COPIED = ("coder_core", "tests", "benchmarks", "app", "pages", "docs")
COPIED += ("pyproject.toml", "README.md", "streamlit_app.py")
TIMEOUT = 180  # seconds for the tests of one flip; exceeding them counts as noticed
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


def noticed(folder, tests):
    """Return True if a test fails, in a fork that ends after the first failure or the time limit."""
    child = os.fork()
    if child == 0:
        import pytest

        os.setsid()
        os.chdir(folder)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        status = 1
        try:
            status = int(pytest.main(["-x", "-q", "-m", "not browser", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(status)
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.05)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return True


def main():
    """Try the flips and print the share noticed in each package."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="flips, the same number in each package")
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
        for package, tests in TESTS.items():
            files = sorted((folder / package).rglob("*.py"))
            counts = {file: len(list(sites(ast.parse(file.read_text("utf-8"))))) for file in files}
            every = [(file, site) for file, count in counts.items() for site in range(count)]
            for file, site in random.Random(parsed.seed).sample(every, parsed.count // len(TESTS)):
                source = file.read_text("utf-8")
                text, line, what = flipped(source, site)
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
