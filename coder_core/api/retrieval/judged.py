"""People's judgments beyond the labels: results judged to be matches, recall with these matches, and probes.

Judgments are facts from a file or from COCO's judges, unlike the guesses in `results`; they are shown beside the
recall by the labels. A probe tests whether a run scores a picture's caption above a wrong version of that caption.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from coder_core.api.retrieval.comparison import require_same_samples
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, Array, Direction
from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.data.judgements import (
    COCO_JUDGEMENTS,
    PACKAGE,
    Judgements,
    Probe,
    picture_key,
    read_judgements,
)
from coder_core.data.lines import shown
from coder_core.data.pictures import open_picture
from coder_core.data.search_log import NOTHING_RIGHT
from coder_core.evaluation.bootstrap import Difference, mean_intervals
from coder_core.evaluation.lists import NO_CANDIDATE, rank_lists
from coder_core.evaluation.metrics import RECALL_AT, Ranked, label_values, query_values
from coder_core.evaluation.rank_metrics import extended_values
from coder_core.evaluation.relevance import judged_relevance
from coder_core.runs.derived.graded import GradedEvaluation, read_graded

JUDGEMENT_FILES = ("positives.tsv", "ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
MEASURES = {**{str(k): f"R@{k}" for k in RECALL_AT}, "mrr": "MRR", "ndcg10": "nDCG@10"}
LABELLED, JUDGED = (
    {f"{by}_{k}": f"{by} {name}" for k, name in MEASURES.items()} for by in ("labels", "judged")
)
JUDGED_VALUES = ("map_at_r", "r_precision", *JUDGED)


def judgement_files(folder: Path) -> list[Path]:
    """List the files of judgments in a data folder."""
    return [folder / name for name in JUDGEMENT_FILES if (folder / name).is_file()]


def judgement_packages() -> dict[str, str]:
    """Return the installed judgments of COCO: argument of `run_judgements` → name to display."""
    return dict(COCO_JUDGEMENTS) if find_spec(PACKAGE) is not None else {}


def run_judgements(run: Run, split: str, source: str | Path) -> Judgements:
    """Read the judged pairs of a run's split; arguments and errors as for `read_judgements`."""
    ids = run.analysis(split).caption_ids
    return read_judgements(source, run.image_names(split), run.image_of_text(split), ids)


def judged_results(run: Run, split: str, direction: Direction, judgements: Judgements) -> Array:
    """Return (Q, K) bool: which of every query's ten best results are matches only by the judgments."""
    best = run.best(split, direction).astype(np.int64)
    query = np.arange(len(best))[:, None]
    pairs = judgements.of_texts if direction == "t2i" else judgements.of_images[:, ::-1]
    width = max(run.count(split, "image"), run.count(split, "text"))
    judged = np.isin(query * width + best, pairs[:, 0] * width + pairs[:, 1]) & (best != NO_CANDIDATE)
    return np.asarray(judged & ~run.matches(split, direction, query, best))


def judged_values(run: Run, split: str, judgements: Judgements) -> pd.DataFrame:
    """Compute the metrics of every query by the judgments, and by the labels alone. Loads torch. Return one row per
    query with a positive: direction ("i2t", "t2i"), query, and from 0 to 1 map_at_r, r_precision, judged_1, judged_5,
    judged_10 (any positive among the first K), judged_mrr, judged_ndcg10, labels_1, labels_5, labels_10 (a labelled
    one), labels_mrr and labels_ndcg10. Among exactly equal scores positives come last."""
    from coder_core.evaluation.ranking import rank
    from coder_core.evaluation.scores import check_scores

    owner = run.image_of_text(split)
    ranks = run.ranks(split)
    images = run.count(split, "image")
    relevance = judged_relevance(judgements.of_texts, judgements.of_images, owner, images)
    relevance = relevance.of_queries(run.analysis(split).ranked_queries)
    lists = run.lists(split)
    if lists is None:
        of_relevance = rank(check_scores(run.analysis(split).sources), relevance, best=0)
    else:
        of_relevance = rank_lists(lists["i2t"], lists["t2i"], relevance)
    judged = extended_values(of_relevance, relevance)
    tables = []
    by_labels = label_values(run.analysis(split), owner)
    for direction, values in judged.items():
        table = pd.DataFrame(values, columns=list(JUDGED_VALUES))
        within = [(ranks[direction] >= 0) & (ranks[direction] < k) for k in RECALL_AT]
        table[list(LABELLED)] = np.column_stack([*within, by_labels[direction]])
        table.insert(0, "query", np.arange(len(table)))
        table.insert(0, "direction", direction)
        tables.append(table[~np.isnan(values[:, 0])])
    return pd.concat(tables, ignore_index=True)


def judged_recall(
    names: Sequence[str], values: Sequence[pd.DataFrame], queries: Mapping[str, Array] | None = None
) -> pd.DataFrame:
    """Compute recall by the labels and by the judgments over the same queries, mAP@R and R-Precision, in percent.
    `queries`: direction → numbers of the queries that count; None for all. Return one row per direction and run:
    direction, run, queries (their number), and the columns of `judged_values`; NaN if no query counts."""
    rows = []
    for direction in DIRECTIONS:
        for name, table in zip(names, values, strict=True):
            counted = table[table["direction"] == direction]
            if queries is not None:
                counted = counted[counted["query"].isin(queries[direction])]
            means = 100 * counted[[*LABELLED, *JUDGED_VALUES]].mean()
            rows.append({"direction": direction, "run": name, "queries": len(counted), **means.to_dict()})
    return pd.DataFrame(rows)


def graded_evaluations(run: Run, split: str) -> list[GradedEvaluation]:
    """Read the metrics by files of qrels that `coder_core.evaluate` stored with a run. InputError: some are damaged."""
    return read_graded(run.path, split, run.analysis(split))


def graded_tables(
    evaluations: Mapping[str, Sequence[GradedEvaluation]],
) -> list[tuple[GradedEvaluation, pd.DataFrame]]:
    """Return one evaluation and one table per qrels file: direction, run, queries, and (mean, low, high) in percent for
    every metric; NaN if a run was evaluated without it. Two versions of a file give two tables."""
    files: dict[tuple[str, str], tuple[GradedEvaluation, list[dict[str, object]]]] = {}
    for direction, (name, results) in product(DIRECTIONS, evaluations.items()):
        for result in results:
            if direction in result.rows:
                _, rows = files.setdefault((result.file, result.sha256), (result, []))
                rows.append({"direction": direction, "run": name, **result.rows[direction]})
    return [(result, pd.DataFrame(rows)) for result, rows in files.values()]


def log_ndcg(run: Run, split: str, captions: Array | None = None) -> tuple[float, float, float]:
    """Compute nDCG@10 of a search log by its judgments, and the ends of its 95% interval (bootstrap over the queries), in
    percent. `captions`: numbers of the queries that count; None for all, with those that have no right picture as 0."""
    return _mean_and_ends(_log_values(run, split, captions))


def log_gain(first: Run, last: Run, split: str, captions: Array | None = None) -> Difference:
    """Compute nDCG@10 of one run minus that of another, on the same queries of a search log; `captions` as for `log_ndcg`.
    InputError: the runs were evaluated on different samples."""
    require_same_samples(first, last, split)
    change = _log_values(last, split, captions) - _log_values(first, split, captions)
    return Difference(*_mean_and_ends(change), seeds=False)


def _mean_and_ends(values: Array) -> tuple[float, float, float]:
    """Return the mean of (q,) values and the ends of its 95% interval, in percent; NaN without a value."""
    if not len(values):
        return np.nan, np.nan, np.nan
    mean, low, high = (100 * mean_intervals(values[:, None], np.arange(len(values)))[0]).tolist()
    return mean, low, high


def _log_values(run: Run, split: str, captions: Array | None) -> Array:
    """Return (q,) nDCG@10 of every query of a search log that counts, from 0 to 1."""
    analysis = run.analysis(split)
    judged = analysis.judged
    log = analysis.search_log
    if judged is None or log is None:
        raise InputError.at(
            f"split {split!r} of run {run.name}", "is no search log", "a split with judgments"
        )

    relation = judged.t2i
    best = run.best(split, "t2i")
    pairs = relation.find(np.arange(len(best))[:, None], best)
    listed = pairs >= 0
    ranks = np.full(len(relation.queries), np.inf)
    ranks[pairs[listed]] = listed.nonzero()[1]
    nothing = np.empty(0)
    ranked = Ranked(ranks, nothing, nothing, nothing, nothing)
    values = query_values(["ndcg@10"], relation, ranked)[:, 0]
    counts = ~np.isnan(values) & (run.ranks(split)["t2i"] >= 0)
    if captions is not None:
        return values[counts & np.isin(np.arange(len(values)), captions)]

    unanswerable = sum(reason == NOTHING_RIGHT for _, _, reason in log["others"])
    return np.concatenate([values[counts], np.zeros(unanswerable)])


def probe_run(
    run: Run, split: str, probes: Sequence[Probe], *, pictures: str = "", progress: Progress = silent
) -> pd.DataFrame:
    """Score every probe whose picture the run knows or can read. InputError: the run can neither read nor find any of
    the pictures, or cannot embed new texts; two images of the split have a picture's name. `pictures`: folder of the
    pictures that are not in the split, for a run that reads pictures; empty for the split's own. Return one row per
    probe: kind, picture, score, negative (score of the wrong caption), right (True if score is above negative; a tie is
    wrong)."""
    keys = [picture_key(name) for name in run.image_names(split)]
    rows = {key: row for row, key in enumerate(keys)}
    count = Counter(keys)
    folder = pictures or run.analysis(split).picture_folder
    groups: dict[str, list[Probe]] = {}
    for probe in probes:
        groups.setdefault(probe.picture, []).append(probe)

    table: list[tuple[str, str, float, float]] = []
    for done, (name, group) in enumerate(groups.items()):
        if count[picture_key(name)] > 1:
            fact = f"is the name of {count[picture_key(name)]} images of split {split!r}"
            raise InputError.at(f"probes, picture {shown(name)}", fact, "a name that only one image has")
        row = rows.get(picture_key(name))
        texts = [text for probe in group for text in (probe.caption, probe.negative)]
        if row is not None and run.scores(split) is not None:
            parts, lengths = (part[row : row + 1] for part in run.image_parts(split))
            scores = np.asarray(run.model.score_texts(texts, parts, lengths)[:, 0])
        else:
            image = run.scoring(split)[0][row] if row is not None else _encoded(run, split, folder, name)
            if image is None:
                continue
            scores = run.encode_text(texts) @ image
        pairs = zip(group, scores.reshape(-1, 2).tolist(), strict=True)
        table += [(probe.kind, name, *pair) for probe, pair in pairs]
        progress(done + 1, len(groups))

    if not table:
        fact = f"has none of the {len(groups):,} pictures of the probes in split {split!r}, and cannot encode any"
        fix = "evaluate a split with these pictures, or name their folder for a run that reads pictures"
        raise InputError.at(f"run {run.name}", fact, fix=fix)

    frame = pd.DataFrame(table, columns=["kind", "picture", "score", "negative"])
    return frame.assign(right=frame["score"] > frame["negative"])


def _encoded(run: Run, split: str, folder: str, name: str) -> Array | None:
    """Return the embedding of a picture outside the split; None if it is missing or the run cannot encode pictures."""
    if not folder or not run.reads_pictures(split):
        return None
    try:
        picture = open_picture(folder, name)
    except InputError:
        return None
    return run.encode_picture(picture, split=split)


def accuracies(table: pd.DataFrame) -> dict[str, float]:
    """Return the percentage of probes answered correctly, by kind and as "all"."""
    by_kind = 100 * table.groupby("kind", sort=True)["right"].mean()
    return {str(kind): float(share) for kind, share in by_kind.items()} | {"all": 100 * table["right"].mean()}
