"""Checks of one run against another (`coder_core.api.report.gate`), and queries that a hub correction changes, by hand."""

import json

import numpy as np
import pytest

from coder_core.api.report.gate import Check, Gate, GateResult, check_gate
from coder_core.api.retrieval.results import corrected_queries, stored_correction
from coder_core.runs.derived.hub_correction import HubCorrection
from tests.support.precomp_folders import assert_refused


def check(name, *, high, queries=None, change=-2.0):
    return Check(name, queries, -1.0, change, -3.0, high)


CHECKS = [
    check("rsum", high=-1.0),
    check("t2i_r1", high=-1.01),
    check("t2i_r1, word “dog”", high=-1.5, queries=1_234, change=-4.0),
    check("t2i_r1, word “cat”", high=0.0, queries=50),
]


def test_a_check_fails_if_the_whole_interval_is_below_the_allowed_change():
    result = GateResult("a", "b", "dev", CHECKS)
    assert [one.passed for one in CHECKS] == [True, False, False, True]
    assert [one.name for one in result.failed] == ["t2i_r1, word “dog”", "t2i_r1"]
    assert result.sentence() == "b fails 2 of 4 checks against a."
    table = result.table()
    assert table[["check", "queries", "result"]].to_numpy().tolist() == [
        ["rsum", "all", "passed"],
        ["t2i_r1", "all", "failed"],
        ["t2i_r1, word “dog”", "1,234", "failed"],
    ]
    assert table["change"][0] == (-2.0, -3.0, -1.0)
    document = json.loads(result.document())
    assert (document["passed"], len(document["checks"])) == (False, 4)
    assert [one["passed"] for one in document["checks"]] == [True, False, False, True]
    passed = GateResult("a", "b", "dev", CHECKS[:1])
    assert passed.sentence() == "b passes all 1 checks against a."
    assert json.loads(passed.document())["passed"] is True


def test_slices_with_enough_queries_are_checked_in_both_directions(run):
    gate = Gate({"rsum": -1.0, "i2t_r5": -2.0}, slices=-5.0, queries=30)
    result = check_gate(run, run, "dev", gate)
    whole, *_ = result.checks
    assert (whole.name, whole.allowed, whole.change, whole.low, whole.high) == ("rsum", -1.0, 0, 0, 0)
    slices = [one for one in result.checks if one.queries is not None]
    assert [one.name for one in result.checks if one.queries is None] == ["rsum", "i2t_r5"]
    assert min(one.queries for one in slices) >= 30
    assert {one.name.partition("_")[0] for one in slices} == {"i2t", "t2i"}
    assert {one.allowed for one in slices} == {-5.0}
    assert not any("diversity" in one.name for one in slices)
    assert result.failed == []
    fewest = min(one.queries for one in slices)
    again = check_gate(run, run, "dev", Gate({}, slices=-5.0, queries=fewest))
    assert fewest in [one.queries for one in again.checks]
    assert check_gate(run, run, "dev", Gate({"rsum": 0.0})).checks == [Check("rsum", None, 0.0, 0, 0, 0)]
    assert_refused(
        "no slice of dev has 1,000 or more queries", check_gate, run, run, "dev", Gate({}, 0.0, 1_000)
    )


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_queries_that_enter_or_leave_the_first_results_are_listed_by_their_change(run, direction):
    ranks = {way: of_way.copy() for way, of_way in run.ranks("dev").items()}
    before = ranks[direction]
    better = np.flatnonzero(before >= 1)[:2]
    worse = np.flatnonzero(before < 1)[:2]
    after = before.copy()
    after[better] = 0
    after[worse] = [1, 50]
    after[np.flatnonzero(before >= 1)[2]] = 40  # neither before nor after
    of_ways = {**ranks, direction: after}
    none = np.empty((0, 0), np.int32)
    correction = HubCorrection(of_ways["i2t"], of_ways["t2i"], none, none, "dev", {}, {})
    table = corrected_queries(run, "dev", direction, correction, at=1)
    changes = {query: (before[query] + 1, after[query] + 1) for query in [*better, *worse]}
    assert set(table["query"]) == set(changes)
    for row in table.itertuples():
        assert (row.rank, row.corrected) == changes[row.query]
        assert row.fixed == (row.query in better)
    sizes = (table["rank"] - table["corrected"]).abs().tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert stored_correction(run, "dev").state == "missing"
