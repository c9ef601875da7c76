"""Describe a setting once, beside its field: type, default, help and range."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field
from typing import Any, Literal, get_args, get_origin

from coder_core.console.faults import Fault


@dataclass(frozen=True)
class Setting:
    """One setting of a run.

    Args:
        section: of the configuration: "objective".
        key: in that section, unique over all sections: "bank_size". The flag is spelt "--bank-size".
        value_type: bool, int, float or str.
        default: where no preset has another value.
        help: what it is, and the source of its default.
        choices: the values a `Literal` setting may take.
        suggestions: of a free text, the words that name no file.
        minimum, above: the smallest value allowed, or the bound below it.
        maximum, below: the largest value allowed, or the bound above it.
        infinite: infinity is a value too.
        reason: for the range.
    """

    section: str
    key: str
    value_type: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    infinite: bool = False
    reason: str = ""

    @property
    def flag(self) -> str:
        """ "--bank-size"."""
        return spelt_as_flag(self.key)

    @property
    def range(self) -> str:
        """The range in words: "a value from 0 to below 1"; empty where every value is allowed."""
        low = self.above if self.minimum is None else self.minimum
        high = self.below if self.maximum is None else self.maximum
        if low is None:
            return ""
        if high is None:
            return f"a value above {low}" if self.minimum is None else f"{low} or more"
        if self.value_type is int and high - low <= 2:
            *first, last = range(int(low), int(high) + 1)
            return f"{', '.join(map(str, first))} or {last}"
        end = f"{'below ' if self.maximum is None else ''}{high}"
        return (
            f"a value above {low} and at most {end}"
            if self.minimum is None
            else f"a value from {low} to {end}"
        )

    @property
    def smallest(self) -> float | None:
        """The smallest value allowed; of a decimal that lies above a bound, the bound."""
        if self.minimum is None and self.above is not None and self.value_type is int:
            return self.above + 1
        return self.above if self.minimum is None else self.minimum

    @property
    def largest(self) -> float | None:
        """The largest value allowed; of a decimal that lies below a bound, the bound."""
        if self.maximum is None and self.below is not None and self.value_type is int:
            return self.below - 1
        return self.below if self.maximum is None else self.maximum

    def read(self, value: Any) -> Any:
        """Return the value as this setting stores it: a whole number becomes a float."""
        if self.value_type is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return value

    def fault(self, value: Any, place: str = "") -> Fault | None:
        """The fault of a value (type, choice or range), if it has one.

        Args:
            value: from `read`.
            place: named in the fault; empty is the flag.
        """
        place = place or self.flag
        if self.choices:
            expected = "one of " + ", ".join(map(repr, self.choices))
            return None if value in self.choices else Fault(place, f"is {_shown(value)}", expected)
        if not isinstance(value, self.value_type) or (
            self.value_type is not bool and isinstance(value, bool)
        ):
            return Fault(place, f"is {_shown(value)}", f"a value of type {self.value_type.__name__}")
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        inside = (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )
        if not inside:
            return Fault(place, f"is {_shown(value)}", self.range, self.reason)
        if not math.isfinite(value) and not (self.infinite and value > 0):
            return Fault(place, f"is {value}", "a finite number")
        return None


def setting(default: Any, **facts: Any) -> Any:
    """A dataclass field with the facts of a `Setting`: help, minimum, above, maximum, below, …"""
    return field(default=default, metadata=facts)


def setting_of(section: str, declared: Field[Any], hint: Any) -> Setting:
    """The setting that a field of a section declares; `hint` is its type."""
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    value_type = type(choices[0]) if choices else hint
    return Setting(section, declared.name, value_type, declared.default, choices=choices, **declared.metadata)


def spelt_as_flag(key: str) -> str:
    """ "bank_size" → "--bank-size"."""
    return f"--{key.replace('_', '-')}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
