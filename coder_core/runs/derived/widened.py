"""Metrics of a run by group and by equal texts, stored beside the run for the app and the report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coder_core.console.plain_files import NUMBER, check_values
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.derived.store import derived_folder, list_derived, read_as, write_derived

KIND = "widened"
Metrics = dict[str, float]


def store_widened(run: Path, split: str, by: str, metrics: Mapping[str, float]) -> None:
    """Store the metrics of a split of a run, whose labels are widened `by` "group", "equal texts", or both."""
    folder = derived_folder(run, split, KIND, {"by": by}, [open_analysis(run, split)])
    write_derived(folder, {}, facts={name: float(value) for name, value in metrics.items()})


def read_widened(run: Path, split: str, analysis: Analysis) -> dict[str, Metrics]:
    """Read what was stored: "group", "equal texts" or both → metrics. InputError: a result is damaged; evaluating the run
    again replaces it."""

    def build(_: dict[str, Any], manifest: dict[str, Any]) -> tuple[str, Metrics]:
        metrics = manifest["facts"]
        check_values(metrics, dict.fromkeys(metrics, NUMBER), f"{folder.path} key facts")
        return str(manifest["parameters"]["by"]), dict(metrics)

    found: dict[str, Metrics] = {}
    for folder in list_derived(run, split, KIND, analysis):
        stored = read_as(folder, build)
        if stored is not None:
            by, metrics = stored
            found[by] = metrics
    return dict(sorted(found.items()))
