"""Metrics of a run by a file of qrels, stored beside the run for the app and the report; of each file the newest."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.data.qrels import Way
from coder_core.evaluation.graded import parse_metric
from coder_core.runs.analysis.read import Analysis
from coder_core.runs.derived.store import derived_folder, list_derived, read_as, write_derived

KIND = "qrels"


@dataclass(frozen=True)
class GradedEvaluation:
    """Metrics of one run by one file of qrels."""

    path: str  # of the file when it was read
    sha256: str  # of its content
    fact: str  # contents of the file for the split, in words
    metrics: tuple[str, ...]  # k names of `graded.METRICS`, in lower case
    queries: dict[Way, int]  # judged queries of every direction that has some
    values: dict[Way, np.ndarray]  # (k, 3) mean in percent and the ends of its 95% interval

    @property
    def file(self) -> str:
        """Name of the file."""
        return Path(self.path).name


def store_graded(run: Path, split: str, analysis: Analysis, result: GradedEvaluation) -> None:
    """Store the metrics; those by an earlier state of the file are replaced."""
    folder = derived_folder(run, split, KIND, {"file": result.path}, [analysis])
    facts = {"sha256": result.sha256, "fact": result.fact, "metrics": list(result.metrics)}
    arrays = {str(way): array for way, array in result.values.items()}
    write_derived(folder, arrays, facts=facts | {"queries": result.queries})


def read_graded(run: Path, split: str, analysis: Analysis) -> list[GradedEvaluation]:
    """The metrics by every file, by its name. InputError: some are damaged; evaluating by the file again replaces them."""

    def build(arrays: dict[str, Any], manifest: dict[str, Any]) -> GradedEvaluation:
        facts, names = manifest["facts"], [str(name) for name in manifest["facts"]["metrics"]]
        for name in names:
            parse_metric(name)
        ways: dict[str, Way] = {"i2t": "i2t", "t2i": "t2i"}
        values = {ways[way]: array for way, array in arrays.items()}
        if not values:
            raise ValueError("no direction")
        for array in values.values():
            if array.shape != (len(names), 3) or not np.isfinite(array).all():
                raise ValueError(f"an array of shape {array.shape}")
        queries = {way: int(facts["queries"][way]) for way in values}
        path, texts = str(manifest["parameters"]["file"]), (str(facts["sha256"]), str(facts["fact"]))
        return GradedEvaluation(path, *texts, tuple(names), queries, values)

    folders = list_derived(run, split, KIND, [analysis])
    results = [result for folder in folders if (result := read_as(folder, build)) is not None]
    return sorted(results, key=lambda result: (result.file, result.path))
