"""Check one run against another: no recall and no slice may fall by more than allowed, beyond noise."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from coder_core.api.retrieval import comparison
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS
from coder_core.api.slices.table import Queries, counted_columns, slice_gains, slices_by, usual_slices
from coder_core.console.faults import InputError

RULE = (
    "A check fails if the upper end of the 95% interval of the change (last run − first run, paired bootstrap over images) "
    "is below the allowed change. Intervals are not corrected for the number of slices."
)
OF_CAPTIONS = ("length", "kind of word", "word")  # kinds of slices that depend on captions only


@dataclass(frozen=True)
class Gate:
    """Changes that are allowed, in points."""

    recalls: Mapping[str, float]  # a key of `bootstrap.RECALLS` → its smallest allowed change
    slices: float | None = None  # smallest allowed change of R@1 of a slice; None checks no slice
    queries: int = 200  # fewest queries of a slice that is checked
    by: Sequence[str] = ()  # columns whose slices are checked; () for all


@dataclass(frozen=True)
class Check:
    """One change against its allowed change, in points."""

    name: str  # "rsum", "t2i_r1", or "t2i_r1, word “dog”" for a slice
    queries: int | None  # of a slice; None for a whole recall
    allowed: float
    change: float
    low: float  # low, high: its 95% interval
    high: float

    @property
    def passed(self) -> bool:
        """False if the change is below the allowed one beyond noise."""
        return not self.high < self.allowed


@dataclass(frozen=True)
class GateResult:
    """All checks of a gate."""

    first: str  # names of the runs
    last: str
    split: str
    checks: Sequence[Check]

    @property
    def failed(self) -> list[Check]:
        """The checks that do not pass, the largest losses first."""
        return sorted((check for check in self.checks if not check.passed), key=lambda check: check.change)

    def sentence(self) -> str:
        """Return one sentence: how many checks failed."""
        if failed := self.failed:
            return f"{self.last} fails {len(failed):,} of {len(self.checks):,} checks against {self.first}."
        return f"{self.last} passes all {len(self.checks):,} checks against {self.first}."

    def table(self) -> pd.DataFrame:
        """Return the checks of whole recalls, and the failed checks of slices."""
        rows = [
            {
                "check": check.name,
                "queries": "all" if check.queries is None else f"{check.queries:,}",
                "allowed": check.allowed,
                "change": (check.change, check.low, check.high),
                "result": "passed" if check.passed else "failed",
            }
            for check in self.checks
            if check.queries is None or not check.passed
        ]
        return pd.DataFrame(rows, columns=["check", "queries", "allowed", "change", "result"])

    def document(self) -> str:
        """Return the result as JSON: names, rule, passed, and every check."""
        names = {"first": self.first, "last": self.last, "split": self.split, "rule": RULE}
        checks = [asdict(check) | {"passed": check.passed} for check in self.checks]
        return json.dumps(names | {"passed": not self.failed, "checks": checks}, ensure_ascii=False, indent=1)


def check_gate(first: Run, last: Run, split: str, gate: Gate) -> GateResult:
    """Check the last run against the first. InputError: they were evaluated on different samples, or no slice has as
    many queries as the gate requires.

    Slices are those of caption length, kinds of words, frequent words and the user's columns, in both directions, over
    at most 10,000 images.
    """
    gains = comparison.gains(first, last, split)
    checks = [
        Check(name, None, allowed, gains[name].mean, gains[name].low, gains[name].high)
        for name, allowed in gate.recalls.items()
    ]
    of_slices = list(_slice_checks(first, last, split, gate))
    if gate.slices is not None and not of_slices:
        fact = f"no slice of {split} has {gate.queries:,} or more queries"
        fix = "lower --gate-queries"
        raise InputError.at("--gate-slices", fact, fix=fix)
    return GateResult(first.name, last.name, split, [*checks, *of_slices])


def _slice_checks(first: Run, last: Run, split: str, gate: Gate) -> Iterator[Check]:
    if gate.slices is None:
        return

    columns = counted_columns(last, split)
    kinds = (*OF_CAPTIONS, *columns.own)
    slices = (
        slices_by(columns, gate.by)
        if gate.by
        else [entry for entry in usual_slices(columns) if entry.kind in kinds]
    )
    for direction in DIRECTIONS:
        table = slice_gains([first, last], split, Queries(direction), slices, columns)
        for row in table[table["queries"] >= gate.queries].to_dict("records"):
            yield Check(
                name=f"{direction}_r1, {row['label']}",
                queries=row["queries"],
                allowed=gate.slices,
                change=row["gain"],
                low=row["gain_low"],
                high=row["gain_high"],
            )
