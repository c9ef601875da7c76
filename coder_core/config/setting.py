"""Declare a setting once, where it is stored: type, default, help and limits.

    margin: float = setting(0.2, "Margin of the triplet losses (vsepp: 0.2).", ge=0)

Its flag, its key in config.toml, its field in the app's form, its checks and its place in an ablation's grid follow.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from typing_extensions import Doc

from coder_core.console.faults import Fault
from coder_core.console.plain_files import LARGEST, excerpt

Section = TypeVar("Section")
TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Setting:
    """One setting of a run."""

    section: str  # of the configuration: "objective"
    key: str  # in that section, unique over all sections: "bank_size"
    value_type: type  # bool, int, float or str
    default: Any  # unless a preset has another value
    help: str  # its purpose, and the source of its default
    # limits of a number, as in pydantic: above, at least, below, at most
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None  # math.inf also allows infinity; all other numbers must be finite
    reason: str = ""  # for the limits
    choices: tuple[str, ...] = ()  # all values it may take
    suggestions: tuple[str, ...] = ()  # values of a free text that are not files
    may_change: bool = False  # when a run is continued
    former: str = ""  # an earlier key, still read in files and as a flag
    alone: Any = None  # the value of a flag that is given without one; None: a value is needed
    before: Any = None  # the value of runs that were written before the setting existed; None: the default

    @property
    def flag(self) -> str:
        """Flag on the command line, such as "--bank-size"."""
        return spelt_as_flag(self.key)

    @property
    def off_flag(self) -> str:
        """Flag that turns a switch off, such as "--no-compile"."""
        return spelt_as_flag(f"no_{self.key}")

    @property
    def path(self) -> str:
        """Section and key, such as "memory.bank_size"."""
        return f"{self.section}.{self.key}"

    def of(self, config: Any) -> Any:
        """Return the setting's value in a configuration."""
        return getattr(getattr(config, self.section), self.key)

    @property
    def smallest(self) -> float | None:
        """Smallest value allowed, or the number that a value must exceed; None without a limit."""
        return self.gt if self.ge is None else self.ge

    @property
    def largest(self) -> float | None:
        """Largest value allowed, or the number that a value must stay below; None without a limit."""
        limit = self.lt if self.le is None else self.le
        return None if limit == math.inf else limit

    @property
    def expected(self) -> str:
        """The values allowed, in words: "a number from 0 to below 1"."""
        if self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        words = TYPES[self.value_type]
        low = self.smallest
        high = self.largest
        if low is None:
            return words
        if high is None:
            return f"{words} above {low}" if self.ge is None else f"{words} of {low} or more"
        if self.ge is None:
            return f"{words} above {low} and at most {high:,}"
        return f"{words} from {low} to {'below ' if self.le is None else ''}{high:,}"

    def read(self, value: Any) -> Any:
        """Return the value as this setting stores it: a whole number becomes a float."""
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
        return float(value) if self.value_type is float and whole else value

    def allows(self, value: Any) -> bool:
        """True if a value has the setting's type and is within its limits."""
        if not isinstance(value, self.value_type) or isinstance(value, bool) != (self.value_type is bool):
            return False
        if self.choices:
            return value in self.choices
        return not isinstance(value, int | float) or isinstance(value, bool) or self._holds(value)

    def _holds(self, number: float) -> bool:
        if abs(number) == math.inf:
            return number == self.le
        if isinstance(number, int) and abs(number) >= LARGEST:
            return False
        above = (self.gt is None or number > self.gt) and (self.ge is None or number >= self.ge)
        below = (self.lt is None or number < self.lt) and (self.le is None or number <= self.le)
        return above and below and not math.isnan(number)

    def fault(self, value: Any, place: str = "") -> Fault | None:
        """Return the fault of a value that is not allowed; `place` is the flag if empty."""
        if self.allows(value):
            return None
        found = f"{value:g}" if isinstance(value, float) else excerpt(value)
        expected = self.expected
        if type(value) is int and abs(value) >= LARGEST:
            expected = f"{TYPES[self.value_type]} between −2⁶³ and 2⁶³"
        return Fault(place or self.flag, f"is {found}", expected, self.reason)


def setting(default: Any, help: str, **facts: Any) -> Any:
    """Declare a field of a section; `facts` are fields of `Setting`, such as `ge` and `choices`."""
    return field(default=default, metadata={"help": help, **facts})


def with_help(section: type[Section]) -> type[Section]:
    """Let `--help` print the settings' help, which tyro reads from annotations. Apply this below `@dataclass`."""
    hints = section.__annotations__
    for key, hint in hints.items():
        hints[key] = Annotated[hint, Doc(vars(section)[key].metadata["help"])]
    return section


def settings_of(section: Any, name: str = "") -> Iterator[Setting]:
    """Yield the settings that a section declares, a dataclass or an instance of one; `name`: the section's."""
    hints = get_type_hints(section if isinstance(section, type) else type(section))
    for declared in fields(section):
        hint = hints[declared.name]
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        facts = {"choices": choices, **declared.metadata}
        yield Setting(name, declared.name, str if choices else hint, declared.default, **facts)


def spelt_as_flag(key: str) -> str:
    """Spell a key as a flag: "bank_size" → "--bank-size"."""
    return f"--{key.replace('_', '-')}"
