"""Ranks of a run with its scores corrected for hubs, stored beside the run for the app."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.runs.analysis.read import Analysis
from coder_core.runs.analysis.tables import RANKS
from coder_core.runs.derived.store import DerivedFolder, derived_folder, read_as

FLAG = "--hub-correction"


@dataclass(frozen=True)
class HubCorrection:
    """Ranks of a split after the correction, and how it was chosen."""

    image_ranks: np.ndarray  # (n,) int64 with corrected scores, −1 for an image without captions
    text_ranks: np.ndarray  # (m,)
    image_best: np.ndarray  # (n, k) int32 the best captions of every image
    text_best: np.ndarray  # (m, k) the best images of every caption
    chosen_on: str  # the split that k and α were chosen on
    strengths: Mapping[str, tuple[int, float]]  # "i2t" and "t2i" → k and α
    metrics: Mapping[str, float]  # of the corrected scores
    by_index: bool = False  # an index proposed the nearest train queries; known only when it is computed


def correction_folder(run: Path, split: str, analysis: Analysis) -> DerivedFolder:
    """Return the folder of a run's corrected ranks."""
    return derived_folder(run, split, "hubs", {}, [analysis])


def read_correction(folder: DerivedFolder) -> HubCorrection | None:
    """Read stored corrected ranks; None if they do not exist (InputError: they are damaged)."""

    def build(arrays: dict[str, Any], manifest: dict[str, Any]) -> HubCorrection:
        facts = manifest["facts"]
        strengths = {way: (int(k), float(alpha)) for way, (k, alpha) in facts["strengths"].items()}
        metrics = {str(name): float(value) for name, value in facts["metrics"].items()}
        ranks = {name: arrays[name] for name in RANKS}
        chosen_on = str(facts["chosen_on"])
        return HubCorrection(**ranks, chosen_on=chosen_on, strengths=strengths, metrics=metrics)

    return read_as(folder, build)
