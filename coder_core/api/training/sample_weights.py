"""Sample weights of a split: which pairs training listens to most, and what the weights have to do with diversity.

Thomas & Kovashka, figure 4 and table 1; section 3 of docs/equations.md. Written with the analysis of a run that was
trained with `--sample-weights`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from coder_core.api.run import Run
from coder_core.api.sides import Array, Modality
from coder_core.console.documents import check_values, trusting
from coder_core.console.faults import Fault, InputError

WEIGHT, DIVERSITY, DISCREPANCY, CODER = "weight", "DIVERSITY", "DISCREPANCY", "CODER"
_ARRAYS = {DIVERSITY: "weight_diversity", DISCREPANCY: "weight_discrepancy"}
_COLUMNS: dict[Modality, int] = {"image": 0, "text": 1}


@dataclass(frozen=True)
class Weighting:
    """Sample-weight settings of a run.

    Args:
        kind: "diversity", "combined", "hal" …. total: λ, which the weights of a batch sum to.
        neighbours: N; 0 for weights that have no neighbours. text_space: where these were found.
        statistics: one row a measure, μ and σ of its raw score over all pairs and both modalities, as in table 1.
    """

    kind: str
    total: float
    neighbours: int
    text_space: str
    statistics: pd.DataFrame


def has_weights(run: Run, split: str) -> bool:
    """True if the run was trained with sample weights and evaluated on the split since."""
    return "sample_weight" in run.analysis(split).arrays


def weighting(run: Run, split: str) -> Weighting:
    """Weight settings recorded in the analysis.

    Raises:
        InputError: the run has none, or their document is damaged.
    """
    if not has_weights(run, split):
        fix = "train with --sample-weights diversity, or another of them"
        raise InputError(Fault(f"run {run.name}", "was trained without sample weights", fix=fix))
    about = _document(run, split)
    with trusting(f"{run.analysis(split).path}/weighting.json"):
        means, deviations = about.get("mean", {}), about.get("std", {})
        names = [name for name in (DIVERSITY, DISCREPANCY) if name.lower() in means]
        statistics = pd.DataFrame(
            {
                "measure": names,
                "mean": [float(means[name.lower()]) for name in names],
                "std": [float(deviations[name.lower()]) for name in names],
            }
        )
        return Weighting(
            str(about["sample_weights"]),
            float(about["lambda"]),
            int(about.get("neighbours", 0)),
            str(about.get("text_space", "")),
            statistics,
        )


def weight_table(run: Run, split: str, modality: Modality) -> pd.DataFrame:
    """One row a caption-image pair.

    Args:
        modality: whose DIVERSITY, DISCREPANCY and CODER diversity stand beside the weight.

    Returns:
        text (the caption's number), image, weight (mean 1), rank (of the caption's image, from 1), CODER (standard
        deviation of the similarities to all negatives, eq. 3), and, of weights with neighbours, DIVERSITY and
        DISCREPANCY, larger where the neighbourhood is wider, whatever Γ the run was trained with.
    """
    analysis, owner = run.analysis(split), run.image_of_text(split)
    spread = run.spread(split, modality=modality)
    table = pd.DataFrame(
        {
            "text": np.arange(len(owner)),
            "image": owner,
            WEIGHT: np.asarray(analysis.array("sample_weight"), dtype=np.float64),
            "rank": run.ranks(split)["t2i"] + 1,
            CODER: spread[owner] if modality == "image" else spread,
        }
    )
    for name, array in _ARRAYS.items():
        if array in analysis.arrays:
            table[name] = -_direction(run, split) * _column(analysis.array(array), modality)
    return table


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Spearman's ρ of every two measures of a `weight_table`: index and columns are the measures."""
    measures = [name for name in (WEIGHT, DIVERSITY, DISCREPANCY, CODER) if name in table]
    return table[measures].corr(method="spearman").mask(np.eye(len(measures), dtype=bool), 1.0)


def _direction(run: Run, split: str) -> int:
    """Γ, with which the raw scores were written; −1 where the run had none."""
    return int(_document(run, split).get("direction", -1)) or -1


def _document(run: Run, split: str) -> dict[str, Any]:
    analysis = run.analysis(split)
    document: dict[str, Any] = analysis.document("weighting")
    check_values(document, {"direction": int, "mean": dict, "std": dict}, f"{analysis.path}/weighting.json")
    return document


def _column(values: Array, modality: Modality) -> Array:
    both = np.asarray(values, dtype=np.float64)
    return both if both.ndim == 1 else both[:, _COLUMNS[modality]]
