"""What a file of judgements (qrels) says about documents that a split does not have."""

import numpy as np
import pytest

from coder_core.data.qrels import SampleIds, read_qrels, sample_ids
from tests.support.precomp_folders import assert_refused

IDS = SampleIds(["a.jpg", "b.jpg"], np.array([0, 1]))


def test_relevant_documents_that_the_split_lacks_are_counted(tmp_path):
    """Neither an irrelevant one, nor a document in the first row, is missing."""
    lines = ["a.jpg#0 0 a.jpg 1", "a.jpg#0 0 gone.jpg 2", "a.jpg#0 0 lost.jpg 0", "b.jpg 0 gone.jpg#3 1"]
    (tmp_path / "qrels.txt").write_text("".join(f"{line}\n" for line in lines))
    qrels = read_qrels(tmp_path / "qrels.txt", IDS, "a.jpg#0")
    assert "2 relevant documents are not in this split" in qrels.fact
    assert qrels.pairs["t2i"].candidates.tolist() == [0, -1, -1]
    assert qrels.pairs["t2i"].grades.tolist() == [1, 2, 0]
    assert (qrels.pairs["i2t"].queries.tolist(), qrels.pairs["i2t"].candidates.tolist()) == ([1], [-1])


def test_samples_are_found_by_names_with_more_or_fewer_folders():
    ids = SampleIds(
        ["x/a.jpg", "y/a.jpg", "x/b c.jpg", "x/b c.jpg"], np.array([1, 0, 1]), np.array([7, 8, 8])
    )
    assert ids.find("x/a.jpg") == ids.find("shop/x/a.jpg") == ("image", 0)
    assert ids.find("y/a.jpg") == ("image", 1)
    assert ids.find("a.jpg") == ("image", -1)
    assert ids.find("z/a.jpg") is None
    assert ids.find("ya.jpg") is None
    assert ids.find("b%20c.jpg") == ids.find("x/b c.jpg") == ("image", -1)
    assert ids.find("y/a.jpg#0") == ("text", 0)
    assert ids.find("y/a.jpg#1") == ("text", 2)
    assert ids.find("y/a.jpg#2") is None
    assert ids.find("a.jpg#0") == ("text", -1)
    assert ids.find("z.jpg#0") is None
    assert ids.find("7") == ("text", 0)
    assert ids.find("8") == ("text", -1)
    assert ids.find("9") is None
    assert ids.texts == {1: [0, 2], 0: [1]}


def test_queries_of_other_splits_are_counted_and_beirs_format_is_read(tmp_path):
    file = tmp_path / "qrels.tsv"
    file.write_text("query-id\tcorpus-id\tscore\na.jpg#0\tb.jpg\t2.0\nz.jpg#0\tb.jpg\t1\na.jpg#0\tb.jpg\t2\n")
    qrels = read_qrels(file, IDS, "a.jpg#0")
    assert qrels.fact == "queries: 1 captions; 1 lines about queries of other splits"
    assert [rows.tolist() for rows in qrels.pairs["t2i"]] == [[0], [1], [2]]
    file.write_text("a.jpg 0 b.jpg#0 -1\n")
    assert read_qrels(file, IDS, "a.jpg#0").fact == "queries: 1 images"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.jpg#0 0 b.jpg"], "line 1: is 'a.jpg#0 0 b.jpg'"),
        (["a.jpg#0 0 b.jpg 1.5"], "line 1: is "),
        (["a.jpg#0 0 b.jpg 1234567890"], "line 1: is "),
        (["a.jpg 0 b.jpg 1"], "line 1: 'a.jpg' and 'b.jpg' are not one caption and one image"),
        (["a.jpg#0 0 b.jpg#0 1"], "line 1: 'a.jpg#0' and 'b.jpg#0' are not one caption and one image"),
        (["a.jpg#0 0 b.jpg 1", "a.jpg#0 0 b.jpg 0"], "line 2: grades a pair 0 that was already graded 1"),
        (["z.jpg 0 b.jpg 1", "z.jpg 0 c.jpg 1"], "none of its 2 lines is about a query of this split"),
    ],
)
def test_judgements_that_cannot_be_read_are_refused(tmp_path, lines, message):
    file = tmp_path / "qrels.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    assert_refused(message, read_qrels, file, IDS, "a.jpg#0")


def test_images_that_share_a_name_cannot_be_written():
    assert_refused("has 2 images named 'a.jpg'", sample_ids, ["a.jpg", "b.jpg", "a.jpg"], np.array([0, 1, 2]))
