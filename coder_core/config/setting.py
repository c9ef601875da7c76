"""Describe a setting once, beside its field: type, default, help and range."""

import ast
import inspect
import math
from dataclasses import Field, dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin

from coder_core.console.documents import LARGEST, shown
from coder_core.console.faults import Fault

Section = TypeVar("Section")


@dataclass(frozen=True)
class Setting:
    """One setting of a run."""

    section: str  # of the configuration: "objective"
    key: str  # in that section, unique over all sections: "bank_size"
    value_type: type  # bool, int, float or str
    default: Any  # unless a preset has another value
    help: str  # its purpose, and the source of its default
    within: str = ""  # the interval of allowed numbers, "[0, 1)" or "(0, inf]"; empty allows every finite one
    choices: tuple[str, ...] = ()  # the values a `Literal` setting may take
    suggestions: tuple[str, ...] = ()  # values of a free text that are not files
    reason: str = ""  # for the range

    @property
    def flag(self) -> str:
        """Flag on the command line, such as "--bank-size"."""
        return spelt_as_flag(self.key)

    def of(self, config: Any) -> Any:
        """Return the setting's value in a configuration."""
        return getattr(getattr(config, self.section), self.key)

    @property
    def bounds(self) -> tuple[float, float]:
        """Both ends of the interval; infinite without an interval."""
        low, high = self.within[1:-1].split(", ") if self.within else ("-inf", "inf")
        return _number(low), _number(high)

    @property
    def range(self) -> str:
        """The range in words: "a value from 0 to below 1"; empty if every value is allowed."""
        (low, high) = self.bounds
        closed = self.within.startswith("[")
        if not self.within:
            return ""
        if high == math.inf:
            return f"{low} or more" if closed else f"a value above {low}"
        if self.value_type is int and high - low <= 2:
            *first, last = range(int(low), int(high) + 1)
            return f"{', '.join(map(str, first))} or {last}"
        end = high if self.within.endswith("]") else f"below {high}"
        return f"a value from {low} to {end}" if closed else f"a value above {low} and at most {end}"

    @property
    def smallest(self) -> float | None:
        """Smallest value allowed; for a float with an open bound, the bound; None without one."""
        low = self.bounds[0]
        if math.isinf(low):
            return None
        return low + 1 if self.within.startswith("(") and self.value_type is int else low

    @property
    def largest(self) -> float | None:
        """Largest value allowed; for a float with an open bound, the bound; None without one."""
        high = self.bounds[1]
        if math.isinf(high):
            return None
        return high - 1 if self.within.endswith(")") and self.value_type is int else high

    def read(self, value: Any) -> Any:
        """Return the value as this setting stores it: a whole number becomes a float."""
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
        return float(value) if self.value_type is float and whole else value

    def fault(self, value: Any, place: str = "") -> Fault | None:
        """Return the fault of a value (type, choice or range) if it has one; `place` is the flag if empty."""
        expected = ""
        if self.choices:
            expected = "" if value in self.choices else "one of " + ", ".join(map(repr, self.choices))
        elif isinstance(value, int) and abs(value) >= LARGEST:
            expected = "a number between −2⁶³ and 2⁶³"
        elif not isinstance(value, self.value_type) or isinstance(value, bool) != (self.value_type is bool):
            expected = f"a value of type {self.value_type.__name__}"
        elif isinstance(value, int | float) and self.value_type is not bool and not self._holds(value):
            expected = self.range if math.isfinite(value) else "a finite number"
        reason = self.reason if expected == self.range else ""
        return Fault(place or self.flag, f"is {_shown(value)}", expected, reason) if expected else None

    def _holds(self, value: float) -> bool:
        low, high = self.bounds
        at_low = value == low and self.within[:1] == "["
        at_high = value == high and self.within[-1:] == "]"
        return low < value < high or at_low or at_high


def setting(default: Any, within: str = "", **facts: Any) -> Any:
    """Declare a dataclass field with the facts of a `Setting`; a comment behind or a docstring below it is its help."""
    return field(default=default, metadata={"within": within, **facts})


def described(section: type[Section]) -> type[Section]:
    """Add the help in its source to the settings of a section, which is not yet a dataclass."""
    for key, text in _helps(inspect.getfile(section))[section.__name__].items():
        declared = vars(section)[key]
        if text:
            declared.metadata = MappingProxyType({**declared.metadata, "help": text})
    return section


@cache
def _helps(file: str) -> dict[str, dict[str, str]]:
    """Map class → attribute → the comment behind it or the docstring below it ("" without), for a Python file."""
    source = Path(file).read_text("utf-8")
    lines = source.splitlines()

    def text(attribute: ast.AnnAssign, below: ast.stmt) -> str:
        line = lines[(attribute.end_lineno or 0) - 1].encode()[attribute.end_col_offset :].decode()
        docstring = ast.literal_eval(below.value) if isinstance(below, ast.Expr) else ""
        return line.partition("# ")[2] or " ".join(docstring.split())

    return {
        section.name: {
            attribute.target.id: text(attribute, below)
            for attribute, below in pairwise([*section.body, ast.Pass()])
            if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name)
        }
        for section in ast.parse(source).body
        if isinstance(section, ast.ClassDef)
    }


def setting_of(section: str, declared: Field[Any], hint: Any) -> Setting:
    """Return the setting that a field of a section declares; `hint` is its type."""
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    value_type = type(choices[0]) if choices else hint
    return Setting(section, declared.name, value_type, declared.default, choices=choices, **declared.metadata)


def spelt_as_flag(key: str) -> str:
    """Spell a key as a flag: "bank_size" → "--bank-size"."""
    return f"--{key.replace('_', '-')}"


def _number(text: str) -> float:
    return float(text) if "." in text or "inf" in text else int(text)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)
