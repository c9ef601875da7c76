"""Qrels and run files of information retrieval: graded metrics for the rows of an evaluation, and TREC run files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from coder_core.console.faults import Fault
from coder_core.data.qrels import GradedPairs, Qrels, SampleIds, Way, read_qrels, sample_ids
from coder_core.data.search_log import NOTHING_RIGHT, QueryIds
from coder_core.evaluation.best_candidates import best_lists
from coder_core.evaluation.bootstrap import mean_intervals
from coder_core.evaluation.metrics import query_values
from coder_core.evaluation.relevance import JUDGEMENT, Relation, Relevance
from coder_core.files.atomic import writing
from coder_core.files.sealed import file_sha256
from coder_core.runs.analysis.rows import RunRow
from coder_core.runs.derived.graded import GradedMetrics, store_graded

OWN_JUDGEMENTS = "the judges of the search log"  # in the place of a file's name
GRADED_METRICS = ("ndcg@10", "mrr@10", "map", "recall@100", "success@10")


def add_graded_metrics(
    rows: Sequence[RunRow], file: Path, metrics: Sequence[str], split_name: str
) -> list[Fault]:
    """Add the metrics by a file of qrels to every row, and store those of rows that are plain runs; return notes on the
    file's contents.

    Keys are "t2i_qrels_ndcg@10" and so on, in percent, each with the ends of its 95% interval ("…_low", "…_high"; a
    bootstrap over the queries, the captions of an image, or of a group, drawn together), and "t2i_qrels_queries", their number.
    """
    notes: dict[str, Fault] = {}
    names = [name.lower() for name in metrics]
    for row in rows:
        samples = row.split
        owner = samples.image_of_text
        ids: SampleIds | QueryIds = SampleIds(samples.image_names, owner, samples.caption_ids)
        example = f"{samples.image_names[0]}#0"
        if samples.search_log is not None:
            ids = QueryIds(samples.image_names, samples.search_log)
            example = samples.search_log["query_ids"][0]
        qrels = read_qrels(file, ids, example)
        unanswerable = len(ids.unanswerable) if isinstance(ids, QueryIds) else 0
        notes[qrels.fact] = Fault(str(file), qrels.fact, severity="note")
        relevance = graded_relevance(qrels, samples.n_images, len(owner)).of_queries(samples.queries)
        graded = _with_intervals(row, relevance, list(qrels.pairs), names, unanswerable)
        row.metrics |= graded
        if _is_plain(row):
            assert row.run is not None
            place = str(file.resolve())
            metrics_of_file = GradedMetrics(qrels.fact, names, graded)
            store_graded(row.run, split_name, place, file_sha256(file), metrics_of_file)

    return list(notes.values())


def add_judged_metrics(rows: Sequence[RunRow], metrics: Sequence[str], split_name: str) -> None:
    """Add the metrics by the judgments of a search log to every row, and store those of rows that are plain runs; keys
    as for `add_graded_metrics`. Rows of captions are left as they are."""
    names = [name.lower() for name in metrics]
    for row in rows:
        log = row.split.search_log
        judged = row.split.judged
        if log is None or judged is None:
            continue
        unanswerable = sum(reason == NOTHING_RIGHT for _, _, reason in log["others"])
        graded = _with_intervals(row, row.labels, ["t2i"], names, unanswerable)
        row.metrics |= graded
        if _is_plain(row):
            assert row.run is not None
            pairs = (judged.t2i.queries, judged.t2i.candidates, judged.t2i.grades)
            digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in pairs))
            fact = f"queries: {int(graded['t2i_qrels_queries']):,} of the search log"
            store_graded(
                row.run, split_name, OWN_JUDGEMENTS, digest.hexdigest(), GradedMetrics(fact, names, graded)
            )


def _is_plain(row: RunRow) -> bool:
    return row.run is not None and row.alpha is None and not row.hubs_corrected


def _with_intervals(
    row: RunRow, relevance: Relevance, ways: Sequence[Way], names: Sequence[str], unanswerable: int
) -> dict[str, float]:
    """Return the metrics `names` of a row by a relevance, with their intervals and the numbers of queries. `unanswerable`:
    further judged queries, without a right picture, which count as 0."""
    samples = row.split
    ranks = row.ranks(relevance)
    graded: dict[str, float] = {}
    for way in filter(row.answers, ways):
        of_split = query_values(names, getattr(relevance, way), getattr(ranks, way))
        queries = np.flatnonzero(~np.isnan(of_split[:, 0]))
        values = of_split[queries]
        drawn = queries if way == "i2t" else samples.image_of_text[queries]
        drawn = drawn if samples.image_groups is None else samples.image_groups[drawn]
        if samples.search_log is not None:  # queries are independent of each other
            drawn = queries
        if way == "t2i" and unanswerable:
            values = np.concatenate([values, np.zeros((unanswerable, len(names)))])
            drawn = np.concatenate([drawn, -1 - np.arange(unanswerable)])
        intervals = 100 * mean_intervals(values, drawn)
        graded[f"{way}_qrels_queries"] = len(values)
        for name, (mean, low, high) in zip(names, intervals.tolist(), strict=True):
            key = f"{way}_qrels_{name}"
            graded |= {key: mean, f"{key}_low": low, f"{key}_high": high}

    return graded


def graded_relevance(qrels: Qrels, images: int, texts: int) -> Relevance:
    """Return the relation of the judged pairs; a direction without judgments has none."""
    nothing = np.empty(0, np.int64)

    def relation(way: Way, count: int) -> Relation:
        pairs = qrels.pairs.get(way, GradedPairs(nothing, nothing, nothing))
        return Relation.of(
            pairs.queries, pairs.candidates, grades=pairs.grades, sources=JUDGEMENT, queries_in_all=count
        )

    return Relevance(relation("i2t", images), relation("t2i", texts))


def write_trec_run(row: RunRow, file: Path, depth: int) -> None:
    """Write the best candidates of every ranked caption and image, or query of a search log: query Q0 document rank score
    tag. Ranks count from 1; scores are the exact ones, in digits that read back as the same float32; among equal
    scores the labelled matches come last. InputError: two images share a name, or the disk is full."""
    ids = sample_ids(row.split.image_names, row.split.image_of_text)
    if row.split.search_log is not None:
        ids = ids[0], row.split.search_log["query_ids"]

    tag = re.sub(r"\s+", "_", row.named("" if row.run is None else row.run.resolve().name))
    scores = row.scores
    labels = row.labels
    directions = [(labels.t2i, False, ids[::-1]), (labels.i2t, True, ids)]
    if row.split.search_log is not None:  # pictures ask nothing there
        directions = directions[:1]

    with writing(file) as (temporary,), temporary.open("w", encoding="utf-8") as lines:
        for relation, by_image, (queries, documents) in directions:
            asked = np.arange(relation.count) if relation.asking is None else relation.asking
            some = torch.from_numpy(asked)
            best, values = best_lists(scores, relation, depth, by_image=by_image, asking=some)
            names = [queries[number] for number in asked.tolist()]
            for query, found, of_query in zip(names, best.tolist(), values, strict=True):
                lines.writelines(
                    f"{query} Q0 {documents[document]} {rank} {score!s} {tag}\n"
                    for rank, (document, score) in enumerate(zip(found, of_query, strict=True), 1)
                )
