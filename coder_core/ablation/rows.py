"""What a table of ablations is made of: rows of changed values, and what a paper reports for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Recalls = tuple[float | None, ...]
"""R@1, R@5, R@10 image→text, then text→image, in percent; None where the paper does not say."""


@dataclass(frozen=True)
class Times:
    """A multiple of the preset's own value."""

    factor: float


Change = str | int | float | bool | Times


@dataclass(frozen=True)
class Row:
    """One row.

    Args:
        name: of the row and, with the seed, of its run folders.
        about: what it is, in a few words.
        changes: flag (as on the command line, without dashes in front) → value.
        needs: flags that must not be 0 in this row.
        reported: the paper's figures.
        source: where they stand.
        x, group: position and line in a curve.
    """

    name: str
    about: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    reported: Recalls | None = None
    source: str = ""
    x: float | None = None
    group: str = ""


@dataclass(frozen=True)
class AblationTable:
    """A table of the paper, or a user's own.

    Args:
        name: as on the command line.
        about: the question it answers.
        source: where the paper has it; "" when it has none.
        rows: in order.
        reference: the row the others are compared with.
        x_name: what `Row.x` is, when the table is a curve.
        quoted: what the reported figures were measured on.
    """

    name: str
    about: str
    source: str
    rows: tuple[Row, ...]
    reference: str
    x_name: str = ""
    quoted: str = "CODER, Flickr30K test, BERT"


NO_PROTOTYPES: dict[str, Change] = {"prototypes": 0, "prototype-recluster": 0}
NO_CONCEPTS: dict[str, Change] = {"concepts": 0, "concept-list": "", **NO_PROTOTYPES}
INSTANCE: dict[str, Change] = {**NO_CONCEPTS, "bank-size": 0}
TRIPLET: dict[str, Change] = {"weight-instance": 1.0, **INSTANCE}  # λ = 3 belongs to DCL; triplets are summed already
