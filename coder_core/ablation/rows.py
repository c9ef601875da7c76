"""The parts of an ablation: rows of changed settings, and the figures a paper reports for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coder_core.console.faults import Fault, InputError

Recalls = tuple[float | None, ...]
"""R@1, R@5, R@10 image→text, then text→image, in percent; None where the paper does not say."""


@dataclass(frozen=True)
class Times:
    """A multiple of the preset's own value."""

    factor: float


@dataclass(frozen=True)
class RunOf:
    """The folder of another row's run with the same seed, below the same root."""

    row: str


Change = str | int | float | bool | Times | RunOf


@dataclass(frozen=True)
class Row:
    """One row.

    Args:
        name: of the row and, with the seed, of its run folders. title: a few words.
        changes: flag (as on the command line, without dashes in front) → value.
        needs: flags that must not be 0 in this row.
        reported: the paper's figures. source: where it prints them.
        x, group: position and line in a curve.
        reference: the row this one is compared with; "" is the table's.
    """

    name: str
    title: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    reported: Recalls | None = None
    source: str = ""
    x: float | None = None
    group: str = ""
    reference: str = ""

    def runs(self) -> dict[str, str]:
        """Flag → the other row whose run it names."""
        return {flag: value.row for flag, value in self.changes.items() if isinstance(value, RunOf)}


@dataclass(frozen=True)
class AblationTable:
    """A table of a paper, or a user's own.

    Args:
        name: as on the command line. title: the question it answers.
        source: where the paper prints it; "" when it does not.
        rows: in order. reference: the row the others are compared with.
        x_name: the meaning of `Row.x`, when the table is a curve.
        quoted: the model and data of the reported figures.
        compared_with: what `Row.reference` names, in words, where rows have references of their own.
    """

    name: str
    title: str
    source: str
    rows: tuple[Row, ...]
    reference: str
    x_name: str = ""
    quoted: str = "CODER, Flickr30K test, BERT"
    compared_with: str = ""

    def choose(self, names: Sequence[str]) -> tuple[Row, ...]:
        """The rows of these names (or numbers, from 1); all when none is named.

        Raises:
            InputError: there is no such row.
        """
        by_name = {row.name: row for row in self.rows} | {str(i): row for i, row in enumerate(self.rows, 1)}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            expected = f"one of {', '.join(row.name for row in self.rows)}"
            problem = f"is not a row of {self.name}"
            raise InputError([Fault(f"--rows {name}", problem, expected) for name in unknown])
        selection = [by_name[name] for name in names]
        return tuple(row for row in self.rows if row in selection or not names)


NO_PROTOTYPES: dict[str, Change] = {"prototypes": 0, "prototype-recluster": 0}
NO_CONCEPTS: dict[str, Change] = {"concepts": 0, "concept-list": "", **NO_PROTOTYPES}
INSTANCE: dict[str, Change] = {**NO_CONCEPTS, "bank-size": 0}
# λ = 3 belongs to DCL; triplets are summed already
TRIPLET: dict[str, Change] = {"weight-instance": 1.0, **INSTANCE}
