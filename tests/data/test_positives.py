"""Positives beyond the labels, read from files as people have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.data.judgements import read_positives

NAMES = ["a.jpg", "photos/b.jpg", "c.jpg"]
OWNER = np.array([0, 1, 0, 2, 1])  # captions 0 and 2 are a.jpg#0 and #1, captions 1 and 4 b.jpg#0 and #1


def written(folder: Path, text: str) -> Path:
    path = folder / "positives.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_pairs_are_rows_of_the_split(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.jpg#1\tb.jpg\na.jpg#1\tb.jpg\nb.jpg#1\tc.jpg\na.jpg#0\ta.jpg\nother.jpg#0\tb.jpg\n"
    )
    positives = read_positives(path, NAMES, OWNER)
    assert positives.pairs.tolist() == [[2, 1], [4, 2]]  # each once; a label is none beyond the labels
    assert (positives.elsewhere, positives.rejected) == (1, 0)
    assert sorted(map(tuple, positives.with_labels(OWNER).tolist())) == sorted(
        [(0, 0), (1, 1), (2, 0), (3, 2), (4, 1), (2, 1), (4, 2)]
    )


def test_captions_are_named_by_their_ids(tmp_path: Path) -> None:
    path = written(tmp_path, "40\tb.jpg\nb.jpg#1\tc.jpg\n10\ta.jpg\n77\tb.jpg\n")
    positives = read_positives(path, NAMES, OWNER, np.array([10, 20, 40, 30, 50]))
    assert positives.pairs.tolist() == [[2, 1], [4, 2]]  # 10 is a label, 77 of another split
    assert positives.elsewhere == 1


@pytest.mark.parametrize(
    ("ids", "fact"),
    [
        (None, "names caption 40 by its id, and no ids of captions are known. Name the caption as x.jpg#2"),
        (
            [10, 20, 40, 40, 50],
            "names caption 40, and rows 2 and 3 have this id. Name the caption as x.jpg#2",
        ),
    ],
)
def test_an_id_that_tells_no_caption_is_named(tmp_path: Path, ids: list[int] | None, fact: str) -> None:
    with pytest.raises(InputError, match=f"positives.tsv line 2: {fact}"):
        read_positives(
            written(tmp_path, "a.jpg#0\tb.jpg\n40\tb.jpg\n"),
            NAMES,
            OWNER,
            None if ids is None else np.array(ids),
        )


@pytest.mark.parametrize(
    ("lines", "pairs", "rejected"),
    [
        ("b.jpg\ta.jpg#0\t3\t3\t4\nb.jpg\ta.jpg#1\t1\t4\t3\nc.jpg\ta.jpg#1\t3\t3\t3\n", [[0, 1], [2, 2]], 1),
        (
            "b.jpg\ta.jpg#0\t0.667\t2\t1\nc.jpg\tb.jpg#1\t0\t0\t3\nc.jpg\ta.jpg#0\t1\t3\t0\n",
            [[0, 1], [0, 2]],
            1,
        ),
    ],
    ids=["experts", "crowd"],
)
def test_judgements_of_flickr8k(tmp_path: Path, lines: str, pairs: list[list[int]], rejected: int) -> None:
    positives = read_positives(written(tmp_path, lines), NAMES, OWNER)
    assert positives.pairs.tolist() == pairs
    assert positives.rejected == rejected
    experts = "3\t3\t4" in lines
    grades = [[[3, 3, 4]], None, [[1, 4, 3], [3, 3, 3]]] if experts else [None] * 3
    expected = [np.mean([np.std(pair) for pair in of]) if of else np.nan for of in grades]
    np.testing.assert_allclose(positives.disagreement[:3], expected)


@pytest.mark.parametrize(
    "line", ["a.jpg\tb.jpg", "a.jpg#x\tb.jpg", "a.jpg#0", "a.jpg#0\tb\tc", "a\tb#0\t7\t1\t1", "#0\ta.jpg"]
)
def test_a_line_of_another_layout_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"positives.tsv line 2: is .*; expected caption⇥image"):
        read_positives(written(tmp_path, f"a.jpg#0\tb.jpg\n{line}\n"), NAMES, OWNER)


def test_a_file_about_another_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of its 1 lines is about a caption and an image of this split"):
        read_positives(written(tmp_path, "z.jpg#0\ty.jpg\n"), NAMES, OWNER)
