"""What two trainings that differ in the seed alone differ by: the margin up to which a miss is close."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from coder_core.api.causes.budget import seed_noise
from coder_core.api.causes.evidence import has_causes, split_evidence
from coder_core.api.listing import RunSummary
from coder_core.api.retrieval.comparison import same_samples
from coder_core.api.run import Run
from coder_core.api.sides import Direction

# Settings of `training` that do not change the result, and the seed.
OF_THE_MACHINE = {"seed", "device", "threads", "save_every", "tensorboard", "compile"}


def differ_in_seed(first: RunSummary, second: RunSummary) -> bool:
    """True if both runs were trained with the same settings and data, but different seeds."""
    trained = [run for run in (first, second) if run.config and not run.imported]
    seeds = {run.config.get("training", {}).get("seed") for run in trained}
    return len(seeds) == 2 and _settings(first) == _settings(second)


def run_of_another_seed(run: RunSummary, split: str, runs: Iterable[RunSummary]) -> RunSummary | None:
    """Return the first of the `runs` that differs from a run in the seed alone and was evaluated on the split, or None."""
    return next((other for other in runs if split in other.splits and differ_in_seed(run, other)), None)


def noise_of_seeds(run: Run, other: Run, split: str, direction: Direction, at: int) -> float | None:
    """Return `seed_noise` of two runs; None if they were not evaluated on the same queries."""
    if not (has_causes(run, split) and has_causes(other, split) and same_samples(run, other, split)):
        return None
    way = split_evidence(run, split).way(direction)
    of_other = split_evidence(other, split).way(direction)
    if not np.array_equal(way.queries, of_other.queries):
        return None
    return seed_noise(way, of_other, min(at, way.scores.shape[1], of_other.scores.shape[1]))


def _settings(run: RunSummary) -> dict[str, Any]:
    """Return the settings of a run without its name, its seed and those that do not change the result."""
    training = run.config.get("training", {})
    kept = {name: value for name, value in training.items() if name not in OF_THE_MACHINE}
    data = str(run.config.get("about", {}).get("data_fingerprint", ""))
    others = {name: part for name, part in run.config.items() if name not in ("name", "training", "about")}
    return {**others, "training": kept, "data_fingerprint": data}
