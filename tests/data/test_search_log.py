"""What a search log says about its queries and judgements (`coder_core.data.search_log`)."""

import json

import numpy as np
import pytest

from coder_core.data.search_log import QueryIds, log_of_judgements, read_search_log
from tests.support.precomp_folders import assert_refused

QUERIES = ("id\ttext", "q0\ta dog", "q1\ta cat", "q2\ta bird", "q3\ta fox")
QRELS = ("q0 0 a.jpg 1", "q0 0 gone.jpg 2", "q0 0 b.jpg 0", "q1 0 b.jpg 2", "q1 0 a.jpg 1", "q2 0 lost.jpg 1")


def test_queries_judgements_and_missing_pictures_are_counted(tmp_path):
    files = [tmp_path / "queries.tsv", tmp_path / "qrels.txt"]
    for file, lines in zip(files, (QUERIES, QRELS), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    log, notes = read_search_log(*files, ["a.jpg", "b.jpg"])
    assert (log.query_ids, log.texts) == (["q0", "q1"], ["a dog", "a cat"])
    assert log.image_of_text.tolist() == [0, 1], "the picture of the highest grade"
    assert sorted(log.judgements.tolist()) == [[0, -1, 2], [0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 2]]
    assert [name for name, _, _ in log.others] == ["q2", "q3"]
    assert log.rows.dtype == np.int64
    said = " ".join(map(str, notes))
    for fact in (
        "2 queries have a right picture",
        "5 judgments",
        "4 of them right",
        "1 pictures are not in the",
    ):
        assert fact in said, fact


def written(folder, queries, qrels, suffix=".tsv"):
    files = [folder / f"queries{suffix}", folder / "qrels.txt"]
    for file, lines in zip(files, (queries, qrels), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    return files


def test_a_log_on_some_pictures_renumbers_what_stays(tmp_path):
    """Without b.jpg, q0 keeps its own picture and q1 loses it."""
    qrels = (
        "q0 0 c.jpg 2",
        "q0 0 b.jpg 1",
        "q1 0 b.jpg 1",
        "q1 0 a.jpg 0",
        "q2 0 a.jpg 1",
        "q2 0 gone.jpg 3",
    )
    log, _ = read_search_log(*written(tmp_path, QUERIES, qrels), ["a.jpg", "b.jpg", "c.jpg"])
    assert log.queries_in_all == 4
    part = log.keep(np.array([True, False, True]))
    assert (part.query_ids, part.texts) == (["q0", "q2"], ["a dog", "a bird"])
    assert part.image_of_text.tolist() == [1, 0]
    assert part.judgements.tolist() == [[0, 1, 2], [0, -1, 1], [1, 0, 1], [1, -1, 3]]
    assert part.rows.tolist() == [0, 2]
    assert part.others[-1] == ("q1", "a cat", "its best picture is left out")
    assert part.queries_in_all == 4


def test_queries_of_beirs_json_lines_and_unknown_ones_are_counted(tmp_path):
    lines = [json.dumps({"_id": "q0", "text": " a   dog "}), json.dumps({"_id": "q1", "text": "a cat"})]
    files = written(tmp_path, lines, ("q0 0 a.jpg 1", "nobody 0 a.jpg 1", "nobody 0 b.jpg 1"), ".jsonl")
    log, notes = read_search_log(*files, ["a.jpg", "b.jpg"])
    assert (log.query_ids, log.texts) == (["q0"], ["a dog"])
    assert notes[1].found.endswith(
        "1 judgments of these queries, 1 of them right; 1 judged queries are not in queries.jsonl"
    )


def test_ids_of_queries_are_found_unless_they_have_no_right_picture():
    others = [
        ("q 1", "a cat", "judged, without a right picture in the data"),
        ("q2", "a bird", "no judgment"),
    ]
    ids = QueryIds(["x/a.jpg"], {"query_ids": ["q 0"], "others": others})
    assert ids.find_query("q%200") == ids.find_query("q 0") == ("text", 0)
    assert ids.find_query("q2") is None
    assert ids.unanswerable == set()
    assert ids.find_query("q%201") is None
    assert ids.unanswerable == {"q 1"}
    assert ids.uncounted == {"q 1", "q2"}
    assert ids.find_document("a.jpg") == ("image", 0)
    assert ids.find_document("b.jpg") is None


def test_numbered_judgements_are_checked_and_joined():
    log = log_of_judgements(np.array([[0, 1, 1], [0, 2, 3], [0, 1, 1], [1, 0, 0]]), ["a dog", "a cat"], 3)
    assert (log.query_ids, log.image_of_text.tolist()) == (["0"], [2])
    assert log.judgements.tolist() == [[0, 1, 1], [0, 2, 3]]
    assert log.others == [("1", "a cat", "judged, without a right picture in the data")]
    for row in ([2, 0, 1], [-1, 0, 1], [0, 3, 1], [0, -1, 1]):
        message = r"judgements, row 1: is .*a query from 0 to 1 and an image from 0 to 2"
        assert_refused(message, log_of_judgements, np.array([[0, 0, 1], row]), ["a dog", "a cat"], 3)
    twice = np.array([[0, 0, 1], [0, 0, 2]])
    assert_refused("row 1: grades a pair 2 that was already graded 1", log_of_judgements, twice, ["a dog"], 3)
    assert_refused("judge no image as right", log_of_judgements, np.array([[0, 0, 0]]), ["a dog"], 3)


@pytest.mark.parametrize(
    ("queries", "qrels", "message"),
    [
        (["q0 a dog"], ["q0 0 a.jpg 1"], "queries.tsv line 1: is 'q0 a dog'"),
        (["q0\ta\tb"], ["q0 0 a.jpg 1"], "queries.tsv line 1: is "),
        (
            ["q0\ta dog", "q0\ta cat"],
            ["q0 0 a.jpg 1"],
            "line 2: the id 'q0' is also that of an earlier query",
        ),
        (["id\ttext"], ["q0 0 a.jpg 1"], "queries.tsv: has no queries"),
        (
            ["q0\ta dog"],
            ["q0 0 a.jpg 1", "q0 0 a.jpg 2"],
            "line 2: grades a pair 2 that was already graded 1",
        ),
        (["q0\ta dog"], ["q0 0 b.jpg 1"], "line 1: 'b.jpg' is the name of several pictures"),
        (["q0\ta dog"], ["q0 0 a.jpg 0"], "judges no picture of the data as right"),
        (["q0\ta dog"], ["q0 0 gone.jpg 1"], "judges no picture of the data as right"),
    ],
)
def test_logs_that_cannot_be_read_are_refused(tmp_path, queries, qrels, message):
    files = written(tmp_path, queries, qrels)
    assert_refused(message, read_search_log, *files, ["a.jpg", "x/b.jpg", "y/b.jpg"])
