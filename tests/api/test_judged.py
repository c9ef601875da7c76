"""Recall by judgments of people (`coder_core.api.retrieval.judged`), by hand."""

import numpy as np
import pandas as pd
import pytest

from coder_core.api.retrieval.judged import (
    JUDGED_VALUES,
    LABELLED,
    _mean_and_ends,
    graded_tables,
    judged_recall,
    judgement_files,
    judgement_packages,
)
from coder_core.evaluation.bootstrap import mean_intervals
from coder_core.runs.derived.graded import GradedEvaluation


def values(directions, queries, first):
    """Return values of queries: those of the column number k are `first` / (k + 1)."""
    columns = [*JUDGED_VALUES, *LABELLED]
    rows = {name: np.array(first) / (k + 1) for k, name in enumerate(columns)}
    return pd.DataFrame({"direction": directions, "query": queries, **rows})


def test_recall_is_the_mean_over_the_queries_that_count():
    one = values(["i2t", "t2i", "t2i", "t2i"], [0, 0, 1, 2], [1.0, 1.0, 0.0, 0.5])
    other = values(["t2i"], [1], [0.25])
    table = judged_recall(["a", "b"], [one, other])
    assert list(zip(table["direction"], table["run"], table["queries"], strict=True)) == [
        ("i2t", "a", 1),
        ("i2t", "b", 0),
        ("t2i", "a", 3),
        ("t2i", "b", 1),
    ]
    assert table["map_at_r"].tolist() == pytest.approx([100, np.nan, 50, 25], nan_ok=True)
    assert table["r_precision"].tolist() == pytest.approx([50, np.nan, 25, 12.5], nan_ok=True)
    some = judged_recall(["a"], [one], {"i2t": np.array([5]), "t2i": np.array([0, 2])})
    assert some["queries"].tolist() == [0, 2]
    assert some["map_at_r"].tolist() == pytest.approx([np.nan, 75], nan_ok=True)


def test_a_file_of_judgements_has_a_table_of_all_runs_and_another_version_one_of_its_own():
    row = {"queries": 2, "ndcg@10": (50.0, 40.0, 60.0)}
    first = GradedEvaluation("qrels.txt", "one", "2 queries", {"t2i": row, "i2t": row})
    changed = GradedEvaluation("qrels.txt", "two", "3 queries", {"t2i": row})
    tables = graded_tables({"a": [first], "b": [first, changed]})
    assert [evaluation.sha256 for evaluation, _ in tables] == ["one", "two"]
    (_, whole), (_, alone) = tables
    assert list(zip(whole["direction"], whole["run"], strict=True)) == [
        ("i2t", "a"),
        ("i2t", "b"),
        ("t2i", "a"),
        ("t2i", "b"),
    ]
    assert alone[["direction", "run", "queries"]].to_numpy().tolist() == [["t2i", "b", 2]]
    assert alone["ndcg@10"][0] == (50.0, 40.0, 60.0)


def test_means_are_percentages_with_their_interval():
    found = np.array([1.0, 0.0, 0.5, 1.0])
    expected = 100 * mean_intervals(found[:, None], np.arange(4))[0]
    assert _mean_and_ends(found) == pytest.approx(tuple(expected))
    assert _mean_and_ends(found)[0] == 62.5
    assert np.isnan(_mean_and_ends(np.zeros(0))).all()


def test_files_of_judgements_are_found_by_their_names(tmp_path):
    for name in ("positives.tsv", "ExpertAnnotations.txt", "other.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "CrowdFlowerAnnotations.txt").mkdir()
    assert judgement_files(tmp_path) == [tmp_path / "positives.tsv", tmp_path / "ExpertAnnotations.txt"]
    assert judgement_packages() in ({}, {"eccv": "ECCV Caption", "cxc": "CxC"})
