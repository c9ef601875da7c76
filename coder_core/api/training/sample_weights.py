"""Sample weights of a split: the pairs that training weighs most, and how the weights relate to diversity.

Thomas & Kovashka, figure 4 and table 1; section 3 of docs/equations.md. The weights are stored in the analysis of a run
that was trained with `--sample-weights`.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from coder_core.api.run import Run
from coder_core.api.sides import Modality
from coder_core.console.faults import InputError
from coder_core.console.plain_files import check_values, trusting
from coder_core.evaluation.metrics import places

WEIGHT = "weight"
DIVERSITY = "DIVERSITY"
DISCREPANCY = "DISCREPANCY"
CODER = "CODER"
_ARRAYS = {DIVERSITY: "weight_diversity", DISCREPANCY: "weight_discrepancy"}


class Weighting(NamedTuple):
    """Sample-weight settings of a run."""

    kind: str  # "diversity", "combined", "hal" …
    total: float  # λ, which the weights of a batch sum to
    neighbours: int  # N; 0 for weights without neighbours
    text_space: str  # space in which the neighbours of captions were found
    # one row per measure, μ and σ of its raw score over all pairs and both modalities, as in table 1
    statistics: pd.DataFrame


def has_weights(run: Run, split: str) -> bool:
    """True if the run was trained with sample weights and then evaluated on the split."""
    return "sample_weight" in run.analysis(split).arrays


def weighting(run: Run, split: str) -> Weighting:
    """Return the settings recorded in the analysis. InputError: the run has none, or their document is damaged."""
    if not has_weights(run, split):
        fix = "train it with --sample-weights, for example diversity"
        raise InputError.at(f"run {run.name}", "was trained without sample weights", fix=fix)

    document = _document(run, split)
    with trusting(f"{run.analysis(split).path}/weighting.json"):
        means = document.get("mean", {})
        deviations = document.get("std", {})
        names = [name for name in _ARRAYS if name.lower() in means]
        rows = [(name, float(means[name.lower()]), float(deviations[name.lower()])) for name in names]
        return Weighting(
            str(document["sample_weights"]),
            float(document["lambda"]),
            int(document.get("neighbours", 0)),
            str(document.get("text_space", "")),
            pd.DataFrame(rows, columns=["measure", "mean", "std"]),
        )


def weight_table(run: Run, split: str, modality: Modality) -> pd.DataFrame:
    """Return one row per caption-image pair: text (the caption's number), image, weight (mean 1), rank (of the caption's
    image, from 1), CODER (standard deviation of the similarities to all negatives, eq. 3), and, for weights with
    neighbours, DIVERSITY and DISCREPANCY, which are larger for wider neighbourhoods, whatever Γ the run was trained
    with. `modality` is that of DIVERSITY, DISCREPANCY and CODER."""
    analysis = run.analysis(split)
    owner = run.image_of_text(split)
    spread = run.spread(split, modality=modality)
    columns = {
        "text": np.arange(len(owner)),
        "image": owner,
        WEIGHT: np.asarray(analysis.array("sample_weight"), dtype=np.float64),
        "rank": places(run.ranks(split)["t2i"]),
        CODER: spread[owner] if modality == "image" else spread,
    }
    table = pd.DataFrame(columns)
    for name, array in _ARRAYS.items():
        if array in analysis.arrays:
            # The raw scores were stored with the sign Γ; 0 if the run had none
            direction = int(_document(run, split).get("direction", -1)) or -1
            scores = np.asarray(analysis.array(array), dtype=np.float64)
            scores = scores if scores.ndim == 1 else scores[:, int(modality == "text")]
            table[name] = -direction * scores

    return table


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's ρ of every two measures of a `weight_table`: index and columns are the measures."""
    measures = [name for name in (WEIGHT, DIVERSITY, DISCREPANCY, CODER) if name in table]
    return table[measures].corr(method="spearman").mask(np.eye(len(measures), dtype=bool), 1.0)


def _document(run: Run, split: str) -> dict[str, Any]:
    analysis = run.analysis(split)
    document: dict[str, Any] = analysis.document("weighting")
    check_values(document, {"direction": int, "mean": dict, "std": dict}, f"{analysis.path}/weighting.json")
    return document
