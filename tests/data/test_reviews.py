"""Reviews: one growing file of verdicts, keyed by content, that several writers share."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.data.reviews import (
    LONGEST,
    Review,
    Verdict,
    append_review,
    append_undo,
    image_keys,
    judge_split,
    merge,
    parse_reviews,
    read_reviews,
)

HOSTILE = "<img src=x onerror=alert(1)> ![x](http://a.b/c) \u202egnp.exe \x1b[31m \x00 \u2028 $x$"


def written(path: Path, *reviews: Review) -> Path:
    for review in reviews:
        append_review(path, review)
    return path


def review(caption: str = "a dog", verdict: Verdict = "wrong-caption", *, who: str = "anna") -> Review:
    return Review("x.jpg", caption, verdict, who)


def test_the_last_verdict_of_a_reviewer_counts_and_undo_brings_the_one_before_back(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    first, second = review(), review(verdict="too-vague")
    written(path, first, second)
    assert read_reviews(path).verdicts == {("x.jpg", "a dog"): "too-vague"}
    append_undo(path, second.id, "anna")
    assert read_reviews(path).verdicts == {("x.jpg", "a dog"): "wrong-caption"}
    append_undo(path, first.id, "anna")
    assert read_reviews(path).verdicts == {}
    assert len(path.read_text().splitlines()) == 4, "undoing removes nothing"
    assert read_reviews(path).fingerprint() == parse_reviews(b"", "empty").fingerprint()


def test_most_reviewers_decide_and_of_equally_many_the_last(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", review(), review(verdict="label-right", who="ben"))
    assert list(read_reviews(path).verdicts.values()) == ["label-right"]
    written(path, review(who="cleo"))
    assert list(read_reviews(path).verdicts.values()) == ["wrong-caption"]
    written(path, review(verdict="none", who="dora"), review(verdict="none", who="eli"))
    assert list(read_reviews(path).verdicts.values()) == ["wrong-caption"], "a remark is no vote"


def test_verdicts_survive_reordering_of_captions_and_images() -> None:
    names, captions, owner = ["x.jpg", "y.jpg"], ["a dog", "a cat", "a pet"], np.array([0, 1, 1])
    verdicts: dict[tuple[str, str], Verdict] = {
        ("y.jpg", "a cat"): "wrong-caption",
        ("x.jpg", "a pet"): "also-matches",
        ("y.jpg", "a dog"): "label-right",
        ("z.jpg", "a dog"): "duplicate",
        ("x.jpg", "a bird"): "wrong-caption",
    }
    judged = judge_split(verdicts, names, captions, owner, 2)
    assert judged.labels.tolist() == ["", "wrong-caption", ""]
    assert judged.matches.tolist() == [[2, 0]]
    assert judged.elsewhere == 2
    turned = judge_split(verdicts, names[::-1], captions[::-1], 1 - owner[::-1], 2)
    assert turned.labels.tolist() == ["", "wrong-caption", ""]
    assert turned.matches.tolist() == [[0, 1]]


def test_images_without_names_are_known_by_their_captions() -> None:
    captions, owner = ["a dog", "a cat", "a pet"], np.array([0, 1, 1])
    keys = image_keys(None, captions, owner, 2)
    assert (
        keys
        == image_keys(["image 0", "image 1"], captions, owner, 2)
        == image_keys(["0", "1"], captions, owner, 2)
    )
    assert keys == image_keys(None, ["a pet", "a cat", "a dog"], np.array([0, 0, 1]), 2)[::-1]
    assert image_keys(["1", "0"], captions, owner, 2) == ["1", "0"], "numbers that number no rows are names"
    assert image_keys(["x", "x"], captions, owner, 2) == keys, "a name of two images tells neither"


def test_a_verdict_on_an_image_holds_for_its_captions_unless_they_have_their_own() -> None:
    verdicts: dict[tuple[str, str], Verdict] = {("y.jpg", ""): "duplicate", ("y.jpg", "a pet"): "label-right"}
    judged = judge_split(verdicts, ["x.jpg", "y.jpg"], ["a dog", "a cat", "a pet"], np.array([0, 1, 1]), 2)
    assert judged.labels.tolist() == ["", "duplicate", "label-right"]
    assert judged.rows("duplicate").tolist() == [1]
    assert judged.elsewhere == 0


@pytest.mark.parametrize("cut", [1, 20, 60, 120])
def test_half_a_line_is_named_and_left_out_and_the_next_one_stands_whole(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "r.jsonl", review(), review("a cat"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(lines[0] + b"\n" + lines[1][:cut])
    reviews = read_reviews(path)
    assert [str(fault.place) for fault in reviews.faults] == [f"{path} line 2"]
    assert "half a line" in reviews.faults[0].found
    written(path, review("a bird"))
    assert [each.caption for each in read_reviews(path).standing] == ["a dog", "a bird"]


def test_a_whole_last_line_needs_no_line_end(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", review())
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    written(path, review("a cat"))
    assert [each.caption for each in read_reviews(path).standing] == ["a dog", "a cat"]
    assert not read_reviews(path).faults


GOOD = review().document()


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("[]}", "is not JSON"),
        ("[" * 200_000 + "}", "has 200,001 bytes"),
        ("[" * 100_000 + "}", "is not JSON"),
        (GOOD | {"version": 2}, "a newer one wrote it"),
        (GOOD | {"version": True}, "key version"),
        (GOOD | {"verdict": "wrong"}, "key verdict: is 'wrong'"),
        (GOOD | {"verdict": ["duplicate"]}, "key verdict"),
        (GOOD | {"image": ""}, "key image: has 0 characters"),
        (GOOD | {"image": 3}, "key image: is '3', not a text"),
        (GOOD | {"caption": "x" * 4001}, "key caption: has 4,001 characters"),
        (GOOD | {"note": "x" * 2001}, "key note: has 2,001"),
        (GOOD | {"tags": ["x"] * 21}, "key tags"),
        (GOOD | {"tags": [""]}, "key tags"),
        (GOOD | {"note": "\ud800"}, "half a character"),
        (GOOD | {"reviewer": None}, "key reviewer: is 'None'"),
        ({"version": 1, "undo": 3}, "key id"),
    ],
)
def test_other_lines_are_refused_with_their_number(tmp_path: Path, line: object, fact: str) -> None:
    path = written(tmp_path / "r.jsonl", review())
    with path.open("a") as file:
        file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    with pytest.raises(InputError) as caught:
        read_reviews(path)
    assert caught.value.faults[0].place == f"{path} line 2"
    assert fact in caught.value.faults[0].found


def test_hostile_text_comes_back_as_it_was_and_the_file_stays_plain(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    given = Review(HOSTILE, HOSTILE, "none", HOSTILE, (HOSTILE[:50],), HOSTILE)
    append_review(path, given)
    assert read_reviews(path).all == (given,)
    assert path.read_bytes().isascii()
    assert path.read_bytes().count(b"\n") == 1
    assert not set(path.read_bytes()) & {0, 27}
    with pytest.raises(InputError, match="key note: has 2,001 characters"):
        append_review(path, Review("x.jpg", "a", "none", "anna", note="x" * (LONGEST["note"] + 1)))
    assert read_reviews(path).all == (given,), "what is refused is not written"


def test_a_link_is_not_written_through_and_a_missing_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(InputError, match="is a link to"):
        append_review(tmp_path / "link.jsonl", review())
    assert not (tmp_path / "elsewhere.jsonl").exists()
    with pytest.raises(InputError, match="the file is missing"):
        read_reviews(tmp_path / "none.jsonl")


def _write_many(path: Path, who: str, count: int) -> None:
    for number in range(count):
        append_review(path, Review("x.jpg", f"caption {number}", "too-vague", who, note="n" * 1500))


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(path, who, 60)) for who in ("anna", "ben")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    reviews = read_reviews(path)
    assert not reviews.faults
    assert len(reviews.all) == 120
    for who in ("anna", "ben"):
        own = [each.caption for each in reviews.all if each.reviewer == who]
        assert own == [f"caption {number}" for number in range(60)]


def test_a_verdict_is_on_disk_before_it_counts_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "r.jsonl", []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), path.stat().st_size))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    append_review(path, review())
    size = path.stat().st_size
    assert synced == [(str(path), size), (str(tmp_path), size)], "the folder names a new file"
    append_undo(path, "0", "anna")
    assert synced[2:] == [(str(path), path.stat().st_size)]
    assert path.stat().st_size > size


def test_merging_keeps_every_line_once(tmp_path: Path) -> None:
    shared = review()
    left = written(tmp_path / "a.jsonl", shared, review("a cat"))
    right = written(tmp_path / "b.jsonl", shared, review("a cat", "label-right", who="ben"))
    append_undo(right, shared.id, "ben")
    text = merge([read_reviews(left), read_reviews(right)])
    merged = parse_reviews(text.encode(), "merged")
    assert len(merged.lines) == 4
    assert ("x.jpg", "a dog") not in merged.verdicts, "undone in one file is undone"
    assert merge([merged, read_reviews(left)]) == text
    other = parse_reviews(json.dumps(shared.document() | {"verdict": "duplicate"}).encode(), "other")
    with pytest.raises(InputError, match="stands in two files and says different things"):
        merge([merged, other])


def test_the_fingerprint_follows_the_verdicts_alone(tmp_path: Path) -> None:
    left = written(tmp_path / "a.jsonl", review(), review("a cat"))
    right = written(tmp_path / "b.jsonl", review("a cat", who="ben"), review(who="ben"))
    assert read_reviews(left).fingerprint() == read_reviews(right).fingerprint()
    written(right, review("a cat", "too-vague", who="ben"))
    assert read_reviews(left).fingerprint() != read_reviews(right).fingerprint()
