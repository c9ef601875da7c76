"""Results that people judged to be matches although no label says so, and recall by their judgements.

Facts of a file or of COCO's judges, in contrast to the guesses of `likely`; they stand beside the recall of the labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.sides import Array, Direction
from coder_core.data.judgements import COCO_JUDGEMENTS, PACKAGE, Judgements, read_judgements
from coder_core.evaluation.bootstrap import RANKS
from coder_core.runs.analysis.read import stored_sources

if TYPE_CHECKING:
    from coder_core.api.run import Run

JUDGEMENT_FILES = ("positives.tsv", "ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
LABELLED, JUDGED = [f"labels_{k}" for k in RANKS], [f"judged_{k}" for k in RANKS]
JUDGED_VALUES = ("map_at_r", "r_precision", *JUDGED)


def judgement_files(folder: Path) -> list[Path]:
    """The files of judgements that a data folder holds."""
    return [folder / name for name in JUDGEMENT_FILES if (folder / name).is_file()]


def judgement_packages() -> dict[str, str]:
    """COCO's judgements that are installed: the name that `run_judgements` takes → the name people know."""
    return dict(COCO_JUDGEMENTS) if find_spec(PACKAGE) is not None else {}


def run_judgements(run: Run, split: str, source: str | Path) -> Judgements:
    """The judged pairs of a run's split; arguments and errors as for `read_judgements`."""
    ids = run.analysis(split).caption_ids
    return read_judgements(source, run.image_names(split), run.image_of_text(split), ids)


def judged_results(run: Run, split: str, direction: Direction, judgements: Judgements) -> Array:
    """(Q, K) bool: which of the ten best results of every query no label names, but the judgements do."""
    analysis, owner = run.analysis(split), run.image_of_text(split)
    texts = direction == "t2i"
    best = np.asarray(analysis.text_best if texts else analysis.image_best).astype(np.int64)
    query = np.arange(len(best))[:, None]
    pairs = (judgements.of_texts if texts else judgements.of_images)[:, :: 1 if texts else -1]
    width = max(run.count(split, "image"), len(owner))
    label = best == owner[query] if texts else owner[best] == query
    return np.asarray(np.isin(query * width + best, pairs[:, 0] * width + pairs[:, 1]) & ~label)


def judged_values(run: Run, split: str, judgements: Judgements) -> pd.DataFrame:
    """Metrics of every query by the judgements, and by the labels alone. Loads torch.

    Returns:
        One row a query with a positive: direction ("i2t", "t2i"), query, and from 0 to 1 map_at_r, r_precision,
        judged_1, judged_5, judged_10 (any positive among the first K) and labels_1, labels_5, labels_10 (a labelled
        one). Among exactly equal scores positives come last.
    """
    from coder_core.evaluation.extended import extended_values
    from coder_core.evaluation.tiles import score_tiles

    owner, ranks, pairs = run.image_of_text(split), run.ranks(split), judgements.of_texts
    scores, labels = (
        score_tiles(stored_sources(run.analysis(split)), owner),
        owner[pairs[:, 0]] == pairs[:, 1],
    )
    alone = np.bincount(pairs[:, 0], minlength=len(owner)) == 1
    alone &= np.bincount(pairs[labels, 0], minlength=len(owner)) == 1
    judged = extended_values(scores, pairs[~alone[pairs[:, 0]]], judgements.of_images)
    # Of captions with their label as the only positive, most of a split, the ranks tell everything
    judged["t2i"][alone] = np.stack([ranks["t2i"][alone] < k for k in (1, 1, *RANKS)], 1)
    tables = []
    for direction, values in judged.items():
        table = pd.DataFrame(values, columns=list(JUDGED_VALUES))
        for name, k in zip(LABELLED, RANKS, strict=True):
            table[name] = ((ranks[direction] >= 0) & (ranks[direction] < k)).astype(float)
        table.insert(0, "query", np.arange(len(table)))
        table.insert(0, "direction", direction)
        tables.append(table[~np.isnan(values[:, 0])])
    return pd.concat(tables, ignore_index=True)


def judged_recall(
    names: Sequence[str], values: Sequence[pd.DataFrame], queries: Mapping[str, Array] | None = None
) -> pd.DataFrame:
    """Recall by the labels and by the judgements over the same queries, mAP@R and R-Precision, in percent.

    Args:
        names: of the runs. values: `judged_values` of each.
        queries: direction → numbers of the queries that count; None for all.

    Returns:
        One row a direction and run: direction, run, queries (their number), and the columns of `judged_values`; NaN
        where no query counts.
    """
    rows = []
    for direction in ("i2t", "t2i"):
        for name, table in zip(names, values, strict=True):
            own = table[table["direction"] == direction]
            if queries is not None:
                own = own[own["query"].isin(queries[direction])]
            means = 100 * own[[*LABELLED, *JUDGED_VALUES]].mean()
            rows.append({"direction": direction, "run": name, "queries": len(own), **means.to_dict()})
    return pd.DataFrame(rows)
