"""Positives beyond the labels, read from users' files."""

import numpy as np
import pytest

from coder_core.data.judgements import OtherSplitError, read_judgements, read_positives
from tests.support.precomp_folders import assert_refused

NAMES = ["a.jpg", "photos/b.jpg", "c.jpg"]
OWNER = np.array([0, 1, 0, 2, 1])  # captions 0 and 2 are a.jpg#0 and #1, captions 1 and 4 b.jpg#0 and #1


def read(folder, text, ids=None):
    path = folder / "positives.tsv"
    path.write_text(text, encoding="utf-8")
    return read_positives(path, NAMES, OWNER, None if ids is None else np.array(ids))


def test_positives_and_flickr8k_judgements_become_rows_of_the_split(tmp_path):
    text = "a.jpg#1\tb.jpg\na.jpg#1\tb.jpg\nb.jpg#1\tc.jpg\na.jpg#0\ta.jpg\nother.jpg#0\tb.jpg\n"
    by_id = "40\tb.jpg\nb.jpg#1\tc.jpg\n10\ta.jpg\n77\tb.jpg\n"  # 10 is a label, 77 of another split
    for lines, ids in ((text, None), (by_id, [10, 20, 40, 30, 50])):
        positives = read(tmp_path, lines, ids)
        assert positives.pairs.tolist() == [[2, 1], [4, 2]]  # each once; the labels are not among them
        assert (positives.elsewhere, positives.rejected) == (1, 0)
    vast = f"a.jpg#1\tb.jpg\na.jpg#{10**20}\tb.jpg\n{10**20}\tb.jpg\nb.jpg#2\tc.jpg\n"
    positives = read(tmp_path, vast, [10, 20, 40, 30, 50])
    assert (positives.elsewhere, positives.missing) == (1, [f"'a.jpg#{10**20}'", "'b.jpg#2'"])
    assert "2 about captions" in read_judgements(tmp_path / "positives.tsv", NAMES, OWNER, np.arange(5)).fact
    (tmp_path / "positives.tsv").write_text(text)
    pairs = read_judgements(tmp_path / "positives.tsv", NAMES, OWNER).of_texts.tolist()
    assert sorted(pairs) == [[0, 0], [1, 1], [2, 0], [2, 1], [3, 2], [4, 1], [4, 2]]
    experts = read(tmp_path, EXPERTS)
    crowd = read(tmp_path, CROWD)
    assert (experts.pairs.tolist(), experts.rejected) == ([[0, 1], [2, 2]], 1)
    assert (crowd.pairs.tolist(), crowd.rejected) == ([[0, 1], [0, 2]], 1)
    deviations = [np.std([3, 3, 4]), np.nan, np.mean([np.std([1, 4, 3]), 0])]
    np.testing.assert_allclose(experts.disagreement, [*deviations, np.nan, np.nan])
    assert np.isnan(crowd.disagreement).all()


def test_a_name_that_two_images_share_is_refused(tmp_path):
    path = tmp_path / "positives.tsv"
    names = ["x/a.jpg", "y/a.jpg", "b.jpg"]
    path.write_text("a.jpg#0\tb.jpg\n")
    assert_refused(r"positives.tsv line 1", read_positives, path, names, np.array([0, 1, 2]))
    path.write_text("x/a.jpg#0\tb.jpg\n")
    assert read_positives(path, names, np.array([0, 1, 2])).pairs.tolist() == [[0, 2]]


EXPERTS = "b.jpg\ta.jpg#0\t3\t3\t4\nb.jpg\ta.jpg#1\t1\t4\t3\nc.jpg\ta.jpg#1\t3\t3\t3\n"
CROWD = "b.jpg\ta.jpg#0\t0.667\t2\t1\nc.jpg\tb.jpg#1\t0\t0\t3\nc.jpg\ta.jpg#0\t1\t3\t0\n"


@pytest.mark.parametrize(
    ("line", "ids", "part"),
    [
        ("40\tb.jpg", None, "caption 40"),
        ("b.jpg\ta.jpg#0\t1.5\t2\t1", None, "1.5"),
        ("b.jpg\ta.jpg#0\t0.5\t2", None, "0.5"),
        ("40\tb.jpg", [10, 20, 40, 40, 50], "'40'"),
        ("a.jpg\tb.jpg", None, "a.jpg"),
        ("a.jpg#x\tb.jpg", None, "a.jpg#x"),
        ("a.jpg#0", None, "a.jpg#0"),
        ("a.jpg#0\tb\tc", None, "a.jpg#0"),
        ("a\tb#0\t7\t1\t1", None, "b#0"),
        ("#0\ta.jpg", None, "#0"),
    ],
)
def test_malformed_lines_and_unknown_ids_are_named(tmp_path, line, ids, part):
    assert_refused(rf"positives.tsv line 2: .*{part}", read, tmp_path, f"a.jpg#0\tb.jpg\n{line}\n", ids)
    with pytest.raises(OtherSplitError, match=r"its 1 lines"):
        read(tmp_path, "z.jpg#0\ty.jpg\n")


def test_what_a_file_says_is_put_in_words(tmp_path):
    path = tmp_path / "positives.tsv"

    def fact(text):
        path.write_text(text)
        return read_judgements(path, NAMES, OWNER).fact

    assert fact("a.jpg#1\tb.jpg\n") == "1 positives beyond the labels"
    assert (
        fact("a.jpg#1\tb.jpg\nz.jpg#0\tb.jpg\n") == "1 positives beyond the labels, 1 line about other splits"
    )
    words = fact("a.jpg#1\tb.jpg\nz.jpg#0\tb.jpg\na.jpg#0\ty.jpg\na.jpg#7\tb.jpg\n")
    assert words == (
        "1 positives beyond the labels, 2 lines about other splits, "
        "1 about captions that their images do not have (the first: 'a.jpg#7')"
    )
    assert fact(EXPERTS) == "2 positives beyond the labels, 1 pairs that its judges reject"


def test_a_pair_fits_from_a_mean_grade_of_three_and_by_more_than_half_of_the_crowd(tmp_path):
    grades = {
        "2\t3\t4": True,
        "3\t3\t2": False,
        "4\t4\t1": True,
        "1\t1\t1": False,
        "0.5\t1\t1": False,
        "0.501\t1\t1": True,
    }
    for grade, fits in {**grades, "1\t3\t0": True, "0\t0\t3": False}.items():
        positives = read(tmp_path, f"b.jpg\ta.jpg#0\t{grade}\n")
        assert (len(positives.pairs), positives.rejected) == ((1, 0) if fits else (0, 1)), grade
