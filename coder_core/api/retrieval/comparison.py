"""Compare two runs on the same split: queries the second one fixed or broke, gains and their noise, settings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, Array
from coder_core.console.faults import InputError
from coder_core.evaluation.bootstrap import (
    RECALLS,
    Difference,
    count_hits,
    recall_differences,
    recall_intervals,
)
from coder_core.evaluation.metrics import places

Ranks = Mapping[str, Array]
OUTCOMES = ("fixed", "broken", "both wrong", "both right")
# switch → prefixes of the settings that have no effect if it is "none", 0 or absent
SWITCHES: dict[str, tuple[str, ...]] = {
    "boosting.boosting": ("boosting.",),
    "cleaning.clean": ("cleaning.",),
    "memory.bank_size": (
        "memory.momentum",
        "memory.twin_dropout",
        "memory.bank_",
        "objective.diversity_from_bank",
        "objective.weight_memory",
    ),
    "memory.prototypes": ("memory.prototype_", "objective.prototype_", "objective.weight_prototypes"),
    "model.concepts": ("model.concept_", "model.gcn_", "model.beta", "objective.weight_concept"),
    "weighting.sample_weights": ("weighting.",),
}


def compare(run_a: Run, run_b: Run, split: str, *, at: int = 1) -> pd.DataFrame:
    """Compare the ranks of every query in two runs. Return direction ("i2t", "t2i"), query, rank_a, rank_b (from 1; ∞ where
    another system's list contains no true match), change (> 0: run_b is better), outcome (fixed, broken, both wrong, both
    right). InputError: the runs were evaluated on different samples. `at`: a query is a hit if a true match is among its
    first `at` results."""
    require_same_samples(run_a, run_b, split)
    return rank_changes(run_a.ranks(split), run_b.ranks(split), at)


def require_same_samples(run_a: Run, run_b: Run, split: str) -> None:
    """Refuse two runs that were evaluated on different samples (InputError)."""
    if not same_samples(run_a, run_b, split):
        fact = f"has different captions in split {split!r} than run {run_b.name}"
        raise InputError.at(f"run {run_a.name}", fact, "two runs evaluated on the same data")


def same_samples(run_a: Run, run_b: Run, split: str) -> bool:
    """True if two runs were evaluated on the same captions of the same images."""
    if not np.array_equal(run_a.image_of_text(split), run_b.image_of_text(split)):
        return False
    first, second = (run.analysis(split).manifest["files"].get("captions.json") for run in (run_a, run_b))
    if first is not None and first == second:  # the same bytes; parsing many captions takes a second
        return True
    return list(run_a.captions(split)) == list(run_b.captions(split))


def outcomes(ranks_a: Array, ranks_b: Array, at: int = 1) -> Array:
    """Return "fixed" where only the second run has a true match among the first `at`, and so on; ranks count from 0."""
    right_a = np.asarray(ranks_a) < at
    right_b = np.asarray(ranks_b) < at
    cases = [~right_a & right_b, right_a & ~right_b, ~right_a & ~right_b]
    return np.select(cases, OUTCOMES[:3], default=OUTCOMES[3])


def rank_changes(ranks_a: Ranks, ranks_b: Ranks, at: int = 1) -> pd.DataFrame:
    """Compute `compare` from ranks: "i2t" (n,), "t2i" (m,) from 0; −1, an image without captions, is not a query."""
    parts = []
    for direction in DIRECTIONS:
        a = np.asarray(ranks_a[direction])
        b = np.asarray(ranks_b[direction])
        query = np.flatnonzero((a >= 0) & (b >= 0))
        a = a[query]
        b = b[query]
        rank_a = places(a)
        rank_b = places(b)
        with np.errstate(invalid="ignore"):  # ∞ − ∞: in neither list
            change = rank_a - rank_b
        columns = {
            "direction": direction,
            "query": query,
            "rank_a": rank_a,
            "rank_b": rank_b,
            "change": change,
        }
        parts.append(pd.DataFrame({**columns, "outcome": outcomes(a, b, at)}))

    return pd.concat(parts, ignore_index=True)


def diversity_changes(table_a: pd.DataFrame, table_b: pd.DataFrame) -> pd.DataFrame:
    """Compare every anchor's diversity in two runs. InputError: the tables are of different anchors. Return anchor,
    image, diversity_a, diversity_b, place_a, place_b (percent of the anchors with a smaller spread: the order of eq. 3
    without its rounding to 1), change (of the place: below 0, the anchor is more ambiguous in the second run)."""
    if not np.array_equal(table_a["anchor"], table_b["anchor"]):
        counts = f"{len(table_a):,} anchors and {len(table_b):,} others"
        raise InputError.at("two tables of diversity", counts, "the same anchors in both")
    ranks = (table["spread"].rank().to_numpy() - 1 for table in (table_a, table_b))
    place_a, place_b = (100 * rank / max(len(rank) - 1, 1) for rank in ranks)
    return table_a[["anchor", "image"]].assign(
        diversity_a=table_a["diversity"],
        diversity_b=table_b["diversity"].to_numpy(),
        place_a=place_a,
        place_b=place_b,
        change=place_b - place_a,
    )


def rank_correlation(first: Array | pd.Series, second: Array | pd.Series) -> float:
    """Return Spearman's ρ of two columns without pairs that miss a value; NaN if a column is constant."""
    pairs = pd.DataFrame({"first": np.asarray(first), "second": np.asarray(second)}).dropna()
    return float(pairs.corr(method="spearman", min_periods=2).to_numpy()[0, 1])


def config_differences(configs: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Tabulate settings in which the configurations differ: index = key, one column per run; "—" if a key is absent.

    Left out: the run's name, its [about] table (command, versions, date), and settings of parts that no run has
    (`SWITCHES`).
    """
    flat = {}
    for name, config in configs.items():
        settings = {section: table for section, table in config.items() if section not in ("name", "about")}
        flat[name] = dict(pd.json_normalize(settings).astype(object).iloc[0]) if settings else {}

    unused = tuple(
        beginning
        for switch, beginnings in SWITCHES.items()
        if all(values.get(switch) in ("none", 0, None) for values in flat.values())
        for beginning in beginnings
    )
    rows = {
        key: [_shown(values[key]) if key in values else "—" for values in flat.values()]
        for key in sorted({key for values in flat.values() for key in values})
        if len({repr(values.get(key)) for values in flat.values()}) > 1 and not key.startswith(unused)
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(flat), dtype=object)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def gains(first: Run, last: Run, split: str, captions: Array | None = None) -> dict[str, Difference]:
    """Compute every recall and R@sum of one run minus those of another, with 95% intervals; keys as in the metrics.

    Only `captions` (numbers; None: all) and their images count as queries, if both runs answer them; a direction without
    queries has no gains. InputError: the runs were evaluated on
    different samples.
    """
    require_same_samples(first, last, split)
    return rank_gains(first.ranks(split), last.ranks(split), first.image_of_text(split), captions)


def recall_ends(run: Run, split: str, captions: Array | None = None) -> dict[str, tuple[float, float]]:
    """Compute the ends of the 95% interval of every recall and of R@sum, in percent (bootstrap over images); keys and
    `captions` as for `gains`."""
    ranks = run.ranks(split)
    owner = run.image_of_text(split)
    rows = np.arange(len(owner)) if captions is None else np.asarray(captions)
    asked = np.isin(np.arange(len(ranks["i2t"])), owner[rows])
    hits = count_hits(np.where(asked, ranks["i2t"], -1), np.asarray(ranks["t2i"])[rows], owner[rows])
    ends = recall_intervals(hits)[:, 1:].tolist()
    return {name: (low, high) for name, (low, high) in zip(RECALLS, ends, strict=True)}


def rank_gains(
    before: Ranks, after: Ranks, image_of_text: Array, captions: Array | None = None
) -> dict[str, Difference]:
    """Compute `gains` from ranks: "i2t" (n,), "t2i" (m,) from 0; image_of_text (m,), captions (c,) numbers or None."""
    rows = np.arange(len(image_of_text)) if captions is None else np.asarray(captions)
    owner = np.asarray(image_of_text)[rows]
    images = np.isin(np.arange(len(before["i2t"])), owner)
    images &= (np.asarray(before["i2t"]) >= 0) & (np.asarray(after["i2t"]) >= 0)
    texts = (np.asarray(before["t2i"])[rows] >= 0) & (np.asarray(after["t2i"])[rows] >= 0)
    row, reference = (
        count_hits(
            np.where(images, ranks["i2t"], -1), np.where(texts, np.asarray(ranks["t2i"])[rows], -1), owner
        )
        for ranks in (after, before)
    )
    return recall_differences(row, reference)


def gain_in_words(
    first: Run, last: Run, split: str, recall: str = "rsum", captions: Array | None = None
) -> str:
    """Describe the gain of a run over another in a recall ("t2i_r1", …) or R@sum, or, if one of them only answers one
    direction, in its R@1, with its 95% interval and whether it is significant; `captions` and errors as for `gains`."""
    changes = gains(first, last, split, captions)
    measured = recall if recall in changes else next(iter(changes))
    return describe_gain(measured, changes[measured], last.name, first.name)


def describe_gain(recall: str, gain: Difference, row: str, reference: str) -> str:
    """Return one sentence: "R@sum of a: +1.2 vs b (95% CI -0.3 to +2.7): may be noise." `recall`: a key of `gains`. `row`,
    `reference`: the names of what is compared. The interval is a paired bootstrap over images."""
    direction, _, rank = recall.partition("_r")
    name = "R@sum" if recall == "rsum" else f"{DIRECTIONS[direction]} R@{rank}"  # type: ignore[index]
    conclusion = "significant" if gain.beyond_noise else "may be noise"
    if not gain.low and not gain.high:
        conclusion = "no difference"
    interval = f"95% CI {gain.low:+.1f} to {gain.high:+.1f}"
    return f"{name} of {row}: {gain.mean:+.1f} vs {reference} ({interval}): {conclusion}."
