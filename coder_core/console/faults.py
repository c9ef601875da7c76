"""Faults of an input: where, what was found, what was expected, and how to fix it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

MOST_FAULTS_SHOWN = 20
COMMANDS = ("python ", "coder-", "hf ", "pip ", "make ", "streamlit ")  # not capitalised in a fix

Severity = Literal["error", "warning", "note"]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Fault:
    """One fact about an input that its user has to know."""

    place: str  # file and line, row, key or flag: "train_caps.txt line 812"
    found: str  # the fact: "the line is empty"
    expected: str = ""  # what would have been right: "every line is one caption"
    fix: str = ""  # what to do: "delete the image and its captions, or write a caption"
    severity: Severity = "error"  # "error" stops training, "warning" and "note" do not

    def __str__(self) -> str:
        text = f"{self.place}: {self.found}"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.fix:
            first = self.fix[0] if self.fix.startswith(COMMANDS) else self.fix[0].upper()
            text += f". {first}{self.fix[1:]}"
        return text.encode("utf-8", "backslashreplace").decode()  # names of files may hold other bytes


class InputError(ValueError):
    """An input cannot be used. `faults` has all of its faults; the message shows up to 20."""

    def __init__(self, faults: Fault | Iterable[Fault]) -> None:
        self.faults = (faults,) if isinstance(faults, Fault) else tuple(faults)
        shown = [str(fault) for fault in self.faults[:MOST_FAULTS_SHOWN]]
        if len(self.faults) > MOST_FAULTS_SHOWN:
            shown.append(f"… and {len(self.faults) - MOST_FAULTS_SHOWN} more")
        super().__init__("\n".join(shown))

    @classmethod
    def at(cls, place: object, found: str, expected: str = "", fix: str = "") -> Self:
        """Make an error of one fault; arguments as for `Fault`."""
        return cls(Fault(str(place), found, expected, fix))


def stop_on_errors(faults: Iterable[Fault]) -> list[Fault]:
    """Raise `InputError` with the errors among the faults; if there are none, return all (warnings and notes)."""
    collected = list(faults)
    errors = [fault for fault in collected if fault.severity == "error"]
    if errors:
        raise InputError(errors)
    return collected


def collect(read: Callable[[], Result], faults: list[Fault]) -> Result | None:
    """Return the result of `read`, or None with its faults added to `faults`, so that later faults are found too."""
    try:
        return read()
    except InputError as error:
        faults.extend(error.faults)
        return None
