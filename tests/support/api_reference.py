"""The tables of docs/api.md: every public function of `coder_core.api` with the first sentence of its docstring.

python -m tests.support.api_reference      writes them again below "## All functions"
"""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

from coder_core import api
from coder_core.api.run import Run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
HEADING = "## All functions\n"
ABOUT = """
Every function once, with the first sentence of its docstring, which `help(…)` prints whole: arguments, shapes, units
and errors.
"""
LINE = 108  # letters of a name and its sentence
SHORTEST = 20  # letters that a sentence keeps if it is cut


def public_functions():
    """Return {subject: {name as the page has it: function}}; the subject "run" is an opened run."""
    found = {"run": {f"run.{name}": _function(name) for name in dir(Run) if not name.startswith("_")}}
    for module in pkgutil.iter_modules(api.__path__):
        parts = [f"{api.__name__}.{module.name}"]
        if module.name == "training":
            folder = import_module(parts[0]).__path__
            parts = [f"{parts[0]}.{part.name}" for part in pkgutil.iter_modules(folder)]
        for part in parts:
            subject = found.setdefault(module.name, {})
            for name, function in vars(import_module(part)).items():
                own = inspect.isfunction(function) and function.__module__.startswith(part)
                if own and not name.startswith("_"):
                    subject[f"{part.removeprefix(f'{api.__name__}.')}.{name}"] = function
    return {subject: functions for subject, functions in found.items() if functions}


def _function(name):
    """Return the function behind a method or property of an opened run."""
    member = inspect.getattr_static(Run, name)
    return getattr(member, "fget", None) or getattr(member, "func", member)


def first_sentence(function, most):
    """Return the first sentence of a docstring, cut at a comma or a word if it has more letters than `most`."""
    text = " ".join(inspect.getdoc(function).split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.;:])\s", text)[0].rstrip(".;:").replace("|", "\\|")
    while len(sentence) > most:
        end = max(sentence.rfind(separator, 0, most) for separator in (", ", " or ", " and "))
        sentence = sentence[: end if end >= SHORTEST else sentence.rfind(" ", 0, most)].rstrip(",")
    return sentence


def tables():
    """Return the tables as Markdown."""
    lines = []
    for subject, functions in public_functions().items():
        title = "An opened run" if subject == "run" else subject
        rows = [
            f"| `{name}` | {first_sentence(functions[name], LINE - len(name))} |"
            for name in sorted(functions)
        ]
        lines += ["", f"### {title}", "", "| | |", "|---|---|", *rows]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    before, _, _ = PAGE.read_text("utf-8").partition(HEADING)
    PAGE.write_text(f"{before}{HEADING}{ABOUT}{tables()}", "utf-8")
