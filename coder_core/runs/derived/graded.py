"""Metrics of a run by files of qrels, stored beside the run for the app and the report; the newest of each file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coder_core.console.plain_files import NUMBER, check_values
from coder_core.evaluation.metrics import metric_label
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.derived.store import derived_folder, list_derived, read_as, write_derived

KIND = "qrels"
Row = dict[str, Any]
"""One direction: "queries", the number of judged ones, and metric → mean in percent, low and high end of its interval."""


class GradedEvaluation(NamedTuple):
    """Metrics of one run by one file of qrels."""

    file: str  # its name
    sha256: str  # of its content
    fact: str  # contents of the file for the split, in words
    rows: dict[str, Row]  # direction → its metrics


class GradedMetrics(NamedTuple):
    """Metrics that `add_graded_metrics` adds to a row."""

    fact: str  # contents of the file for the split, in words
    names: Sequence[str]  # of the metrics
    values: Mapping[str, float]  # keys as in `add_graded_metrics`


def store_graded(run: Path, split: str, file: str, sha256: str, metrics: GradedMetrics) -> None:
    """Store metrics by a file of qrels, or by other judgments; they replace those by earlier contents of the file.
    `sha256`: of the content."""
    folder = derived_folder(run, split, KIND, {"file": file}, [open_analysis(run, split)])
    facts = {
        "sha256": sha256,
        "fact": metrics.fact,
        "names": list(metrics.names),
        "metrics": dict(metrics.values),
    }
    write_derived(folder, {}, facts=facts)


def read_graded(run: Path, split: str, analysis: Analysis) -> list[GradedEvaluation]:
    """Read the metrics by every file, sorted by name. InputError: some are damaged; evaluating again replaces them."""

    def build(_: dict[str, Any], manifest: dict[str, Any]) -> GradedEvaluation:
        facts = manifest["facts"]
        metrics = manifest["facts"]["metrics"]
        check_values(metrics, dict.fromkeys(metrics, NUMBER), f"{folder.path} key metrics")
        rows: dict[str, Row] = {}
        for way in ("i2t", "t2i"):
            if (queries := f"{way}_qrels_queries") in metrics:
                rows[way] = {"queries": int(metrics[queries])}
                for name in facts["names"]:
                    ends = (metrics[f"{way}_qrels_{name}{end}"] for end in ("", "_low", "_high"))
                    rows[way][metric_label(name)] = tuple(ends)
        name = Path(manifest["parameters"]["file"]).name
        return GradedEvaluation(name, str(facts["sha256"]), str(facts["fact"]), rows)

    results = []
    for folder in list_derived(run, split, KIND, analysis):
        if (result := read_as(folder, build)) is not None:
            results.append(result)
    return sorted(results, key=lambda result: result.file)
