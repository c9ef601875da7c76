"""The lists of a run file as arrays (`coder_core.data.trec_run`), by hand."""

import numpy as np
import pytest

from coder_core.data.qrels import SampleIds
from coder_core.data.trec_run import read_trec_run
from tests.support.precomp_folders import assert_refused

IDS = SampleIds(["a.jpg", "b.jpg", "c.jpg"], np.array([0, 0, 1]))  # c.jpg has no caption


def read(folder, *lines):
    file = folder / "run.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return read_trec_run(file, IDS, 3, 3, "a.jpg#0")


def test_lists_are_ordered_by_rank_and_counted(tmp_path):
    """Ranks may start at 0, lines come in any order, and equal scores are in the order of their ranks."""
    run = read(
        tmp_path,
        "a.jpg#1 Q0 b.jpg 2 0.5 ours",
        "a.jpg#1 Q0 c.jpg 0 0.75 other",
        "a.jpg#1 Q0 a.jpg 1 0.5 ours",
        "b.jpg#0 Q0 c.jpg 7 -2 ours",
        "b.jpg Q0 a.jpg#0 1 3 ours",
    )
    assert run.tag == "ours"
    assert run.t2i.candidates.tolist() == [[-1, -1, -1], [2, 0, 1], [2, -1, -1]]
    lowest = -np.inf
    assert run.t2i.scores.tolist() == [[lowest] * 3, [0.75, 0.5, 0.5], [-2, lowest, lowest]]
    assert run.i2t.candidates.tolist() == [[-1], [0], [-1]]
    assert run.i2t.scores.tolist() == [[lowest], [3], [lowest]]
    assert [(fault.severity, fault.found) for fault in run.faults] == [
        ("note", "lists images for 2 captions, at most 3 each; captions for 1 images, at most 1 each"),
        ("warning", "1 of 3 captions have no list and count as misses"),
        ("warning", "2 of 3 images have no list and count as misses"),
    ]


def test_a_direction_without_lists_is_empty_and_is_no_warning(tmp_path):
    run = read(tmp_path, *(f"{text} Q0 a.jpg 1 0.5 x" for text in ("a.jpg#0", "a.jpg#1", "b.jpg#0")))
    assert run.i2t.candidates.shape == run.i2t.scores.shape == (3, 0)
    assert run.t2i.candidates.tolist() == [[0], [0], [0]]
    assert [str(fault.found) for fault in run.faults] == [
        "lists images for 3 captions, at most 1 each; no lists of captions for images"
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.jpg#0 Q0 a.jpg 1 0.5"], "line 1: is 'a.jpg#0 Q0 a.jpg 1 0.5'"),
        (["a.jpg#0 Q0 a.jpg 1.5 0.5 x"], "line 1: is "),
        (["a.jpg#0 Q0 a.jpg -1 0.5 x"], "line 1: has the rank '-1'"),
        (["a.jpg#0 Q0 a.jpg 1 inf x"], "line 1: has the score 'inf'"),
        (["a.jpg Q0 b.jpg 1 0.5 x"], "'b.jpg' for 'a.jpg', which are both images or both captions"),
        (["a.jpg#0 Q0 a.jpg#1 1 0.5 x"], "'a.jpg#1' for 'a.jpg#0', which are both"),
        (["d.jpg#0 Q0 a.jpg 1 0.5 x"], "line 1: names the query 'd.jpg#0', which the split does not have"),
        (["a.jpg#0 Q0 d.jpg 1 0.5 x"], "line 1: names the document 'd.jpg'"),
        (
            ["a.jpg#0 Q0 a.jpg 1 0.5 x", "a.jpg#0 Q0 b.jpg 1 0.5 x"],
            "line 2: has rank 1, as line 1 of the same query",
        ),
        (
            ["a.jpg#0 Q0 a.jpg 2 0.75 x", "a.jpg#0 Q0 b.jpg 1 0.5 x"],
            r"line 1: has score 0.75 at rank 2, above 0.5 at rank 1 \(line 2\)",
        ),
        (
            ["a.jpg#0 Q0 a.jpg 1 0.5 x", "b.jpg#0 Q0 a.jpg 1 0.5 x", "a.jpg#0 Q0 a.jpg 2 0.25 x"],
            "line 3: lists 'a.jpg' for 'a.jpg#0' again, after line 1",
        ),
    ],
)
def test_lines_that_cannot_be_read_are_named(tmp_path, lines, message):
    assert_refused(rf"run.txt {message}" if message.startswith("line") else message, read, tmp_path, *lines)


def test_a_name_of_two_images_is_refused_and_an_empty_file_too(tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("y/b.jpg#0 Q0 a.jpg 1 0.5 x\n")
    ids = SampleIds(["x/a.jpg", "z/a.jpg", "y/b.jpg"], np.array([0, 1, 2]))
    several = "names the document 'a.jpg', a name that several samples of the split have"
    assert_refused(several, read_trec_run, file, ids, 3, 3, "x/a.jpg#0")
    file.write_text("")
    assert_refused("run.txt", read_trec_run, file, ids, 3, 3, "x/a.jpg#0")


def test_at_most_twenty_faults_are_listed(tmp_path):
    with pytest.raises(Exception, match="line 20") as caught:
        read(tmp_path, *(f"nobody{number} Q0 a.jpg 1 0.5 x" for number in range(30)))
    assert len(caught.value.faults) == 20
