"""Metrics of a run's tuned towers blended with their weights before training, stored beside the run for the app."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from coder_core.console.faults import InputError
from coder_core.console.plain_files import NUMBER, check_values
from coder_core.runs.analysis.read import Analysis
from coder_core.runs.derived.store import derived_folder, read_as, write_derived

KIND = "blends"
Metrics = dict[str, float]


def store_blends(
    run: Path, split: str, analysis: Analysis, blends: Mapping[float, Mapping[str, float]]
) -> None:
    """Store the metrics of blends, α → metrics, beside those that were stored before, unless these are damaged."""
    found: dict[float, Metrics] = {}
    with suppress(InputError):
        found = read_blends(run, split, analysis)
    found |= {alpha: dict(metrics) for alpha, metrics in blends.items()}
    rows = [
        {"alpha": alpha, **{name: float(value) for name, value in found[alpha].items()}}
        for alpha in sorted(found)
    ]
    write_derived(derived_folder(run, split, KIND, {}, [analysis]), {}, facts={"rows": rows})


def read_blends(run: Path, split: str, analysis: Analysis) -> dict[float, Metrics]:
    """Read the stored blends, α → metrics, the smallest α first; {} if there are none. InputError: they are damaged;
    `evaluate --blend` replaces them."""
    folder = derived_folder(run, split, KIND, {}, [analysis])

    def build(_: dict[str, Any], manifest: dict[str, Any]) -> dict[float, Metrics]:
        rows = manifest["facts"]["rows"]
        for row in rows:
            check_values(row, dict.fromkeys(row, NUMBER), f"{folder.path} key facts")
        return {
            float(row["alpha"]): {name: float(value) for name, value in row.items() if name != "alpha"}
            for row in rows
        }

    return read_as(folder, build) or {}
