"""Reviews: one growing file of verdicts, keyed by content, that several writers share."""

import json
import multiprocessing
import os

import numpy as np
import pytest

from coder_core.data import reviews as module
from coder_core.data.reviews import Review, append_review, append_undo, read_reviews
from coder_core.reviews import main
from tests.support.precomp_folders import refusal

HOSTILE = "<img src=x onerror=alert(1)> ![x](http://a.b/c) \u202egnp.exe \x1b[31m \x00 \u2028 $x$"
PAIR = ("x.jpg", "a dog")


def written(path, *reviews):
    for review in reviews:
        append_review(path, review)
    return path


def review(caption="a dog", verdict="wrong-caption", *, who="anna"):
    return Review("x.jpg", caption, verdict, who)


def test_a_weight_counts_unless_a_person_judged_the_pair_or_its_whole_image(tmp_path):
    path = tmp_path / "reviews.jsonl"
    for image in ("pair.jpg", "whole.jpg", "nobody.jpg"):
        tags = ("rule", f"{module.WEIGHT}0.250")
        append_review(path, Review(image, "a dog", "wrong-caption", module.CLEANING, tags))
    assert set(read_reviews(path).weights.values()) == {"0.250"}
    append_review(path, Review("pair.jpg", "a dog", "label-right", "anna"))
    append_review(path, Review("whole.jpg", "", "duplicate", "anna"))
    append_review(path, Review("nobody.jpg", "a cat", "label-right", "anna"))
    assert read_reviews(path).weights == {("nobody.jpg", "a dog"): "0.250"}


def test_a_reviewers_last_verdict_counts_and_undo_restores_the_previous_one(tmp_path):
    first = review()
    second = review(verdict="too-vague")
    path = written(tmp_path / "reviews.jsonl", first, second)
    assert read_reviews(path).verdicts == {PAIR: "too-vague"}
    append_undo(path, second.id, "anna")
    assert read_reviews(path).verdicts == {PAIR: "wrong-caption"}
    append_undo(path, first.id, "anna")
    assert read_reviews(path).verdicts == {}
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4, "undoing removes nothing"
    assert read_reviews(path).fingerprint() == module.parse_reviews(b"", "empty").fingerprint()
    repeated = module.parse_reviews(lines[0] + lines[1] + lines[0], "r")
    assert (len(repeated.all), repeated.verdicts) == (2, {PAIR: "too-vague"})


def test_the_majority_of_reviewers_decides_and_the_last_breaks_ties(tmp_path):
    path = tmp_path / "r.jsonl"
    prints = []
    for who, given, verdict in (
        ("anna", "wrong-caption", "wrong-caption"),
        ("ben", "label-right", "label-right"),
        ("cleo", "wrong-caption", "wrong-caption"),
        ("dora", "none", "wrong-caption"),
        ("eli", "none", "wrong-caption"),
    ):
        reviews = read_reviews(written(path, review(verdict=given, who=who)))
        assert reviews.verdicts == {PAIR: verdict}
        prints.append(reviews.fingerprint())
    assert prints[1] != prints[0] == prints[2] == prints[4]  # it depends on the verdicts only


def test_a_persons_verdict_on_a_pair_or_image_overrides_the_cleaning(tmp_path):
    path = tmp_path / "r.jsonl"
    written(path, review(who="anna", verdict="label-right"), review("a cat", who=module.CLEANING))
    reviews = read_reviews(written(path, review(who=module.CLEANING)))
    assert reviews.verdicts == {PAIR: "label-right", ("x.jpg", "a cat"): "wrong-caption"}
    reviews = read_reviews(written(path, review("", verdict="label-right")))
    assert reviews.verdicts == {PAIR: "label-right", ("x.jpg", ""): "label-right"}


CAPTIONS = ["a dog", "a cat", "a pet"]
OWNER = np.array([0, 1, 1])


def test_verdicts_survive_reordering_and_unnamed_images_are_known_by_captions():
    names = ["x.jpg", "y.jpg"]
    verdicts = {
        ("y.jpg", "a cat"): "wrong-caption",
        ("x.jpg", "a pet"): "also-matches",
        ("y.jpg", "a dog"): "label-right",
        ("z.jpg", "a dog"): "duplicate",
        ("x.jpg", "a bird"): "wrong-caption",
    }
    turned = (names[::-1], CAPTIONS[::-1], 1 - OWNER[::-1])
    for arguments, matches in (((names, CAPTIONS, OWNER), [[2, 0]]), (turned, [[0, 1]])):
        judged = module.judge_split(verdicts, *arguments, 2)
        assert judged.labels.tolist() == ["", "wrong-caption", ""]
        assert (judged.matches.tolist(), judged.elsewhere) == (matches, 2)
    # a verdict on an image holds for its captions unless they have their own
    verdicts = {("y.jpg", ""): "duplicate", ("y.jpg", "a pet"): "label-right"}
    judged = module.judge_split(verdicts, names, CAPTIONS, OWNER, 2)
    assert judged.labels.tolist() == ["", "duplicate", "label-right"]
    assert (judged.rows("duplicate").tolist(), judged.elsewhere) == ([1], 0)
    keys = module.image_keys(None, CAPTIONS, OWNER, 2)
    for names in (["image 0", "image 1"], ["0", "1"], ["x", "x"]):  # row numbers, a name of two images
        assert module.image_keys(names, CAPTIONS, OWNER, 2) == keys
    assert module.image_keys(None, CAPTIONS[::-1], np.array([0, 0, 1]), 2) == keys[::-1]
    assert module.image_keys(["1", "0"], CAPTIONS, OWNER, 2) == ["1", "0"], "no row numbers, so names"


def test_every_beginning_of_a_line_is_left_out_and_the_next_line_is_intact(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    path = tmp_path / "r.jsonl"
    text = 'é\\ {cat}, ["😀"]'
    first, line = (json.dumps(review(caption).document()) for caption in ("a dog", text))
    for end in range(1, len(line) + 1):  # of the whole line, only the line end is missing
        path.write_text(f"{first}\n{line[:end]}")
        cut = end < len(line)
        before = read_reviews(path)
        reviews = read_reviews(written(path, review("a bird")))
        assert [fault.place for fault in before.faults] == [f"{path} line 2"] * cut
        assert reviews.faults == before.faults
        assert [each.caption for each in reviews.standing] == ["a dog", *[text] * (not cut), "a bird"]


GOOD = review().document()
OTHER = [
    ('{"version": 1, "version": 1}', "the key 'version' occurs twice"),
    ("[", "JSON"),
    (json.dumps(GOOD) + ",", "JSON"),
    ("[]}", "JSON"),
    (GOOD | {"id": "first"}, "key id: 'first'"),
    (GOOD | {"time": "yesterday"}, "key time: is 'yesterday'"),
    (GOOD | {"time": "2026-11-22T17:40:12"}, "key time"),
    ("[" * 200_000 + "}", "200,001 bytes"),
    ("[" * 100_000 + "}", "JSON"),
    (GOOD | {"version": 2}, "version 2"),
    (GOOD | {"version": True}, "key version"),
    (GOOD | {"verdict": "wrong"}, "key verdict: is 'wrong'"),
    (GOOD | {"verdict": ["duplicate"]}, "key verdict"),
    (GOOD | {"image": ""}, "key image: has 0"),
    (GOOD | {"image": 3}, "key image: is '3'"),
    (GOOD | {"caption": "x" * 4001}, "key caption: has 4,001"),
    (GOOD | {"note": "x" * 2001}, "key note: has 2,001"),
    (GOOD | {"tags": ["x"] * 21}, "key tags"),
    (GOOD | {"tags": [""]}, "key tags"),
    (GOOD | {"note": "\ud800"}, "key note"),
    (GOOD | {"reviewer": None}, "key reviewer: is 'None'"),
    ({"version": 1, "undo": 3}, "key id"),
]


@pytest.mark.parametrize(("line", "fact"), OTHER)
def test_invalid_lines_are_refused_with_their_number(tmp_path, line, fact):
    path = written(tmp_path / "r.jsonl", Review("y.jpg", "a cat", "duplicate", "ben", id="first"))
    with path.open("a") as file:
        file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    (fault,) = refusal(read_reviews, path).faults
    assert fault.place == f"{path} line 2"
    assert fact in fault.found


def test_hostile_text_is_read_back_and_refused_reviews_are_not_written(tmp_path):
    given = Review(HOSTILE, HOSTILE, "none", HOSTILE, (HOSTILE[:50],), HOSTILE)
    path = written(tmp_path / "r.jsonl", given)
    assert read_reviews(path).all == (given,)
    assert path.read_bytes().isascii()
    assert path.read_bytes().count(b"\n") == 1
    assert not set(path.read_bytes()) & {0, 27}
    long = Review("x.jpg", "a", "none", "anna", note="x" * (module.LONGEST["note"] + 1))
    assert "key note" in refusal(append_review, path, long).faults[0].found
    link = tmp_path / "link.jsonl"
    none = tmp_path / "none.jsonl"
    link.symlink_to(none)
    assert refusal(append_review, link, review()).faults[0].place == str(link)  # nothing goes through it
    assert refusal(read_reviews, none).faults[0].place == str(none)
    assert read_reviews(path).all == (given,), "what is refused is not written"


def _write_many(path, who, count):
    for number in range(count):
        append_review(path, Review("x.jpg", f"caption {number}", "too-vague", who, note="n" * 1500))


def test_two_writing_processes_lose_no_review(tmp_path):
    path = tmp_path / "r.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(path, who, 25)) for who in ("anna", "ben")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    reviews = read_reviews(path)
    assert not reviews.faults
    assert len(reviews.all) == 50
    for who in ("anna", "ben"):
        captions = [each.caption for each in reviews.all if each.reviewer == who]
        assert captions == [f"caption {number}" for number in range(25)]


def test_a_verdict_is_synced_to_disk(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    synced = []
    sync = os.fsync

    def noted(descriptor):
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), path.stat().st_size))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    append_review(path, review())
    size = path.stat().st_size
    assert synced == [(str(path), size), (str(tmp_path), size)], "the folder names a new file"
    append_undo(path, "0", "anna")
    assert synced[2:] == [(str(path), path.stat().st_size)]
    assert path.stat().st_size > size


def test_merging_keeps_every_line_once(tmp_path):
    shared = review()
    left = read_reviews(written(tmp_path / "a.jsonl", shared, review("a cat")))
    right = written(tmp_path / "b.jsonl", shared, review("a cat", "label-right", who="ben"))
    append_undo(right, shared.id, "ben")
    text = module.merge([left, read_reviews(right)])
    merged = module.parse_reviews(text.encode(), "merged")
    assert len(merged.lines) == 4
    assert PAIR not in merged.verdicts, "undone in one file is undone"
    assert module.merge([merged, left]) == text
    other = json.dumps(shared.document() | {"verdict": "duplicate"}).encode()
    assert shared.id in refusal(module.merge, [merged, module.parse_reviews(other, "other")]).faults[0].place


def test_merging_keeps_the_order_of_each_file_if_the_clock_went_back(tmp_path):
    first, second, third = (
        Review("x.jpg", "a dog", verdict, "anna", time=f"2026-01-01T{hour:02}:00:00Z")
        for verdict, hour in (("duplicate", 11), ("too-vague", 10), ("wrong-caption", 9))
    )
    elsewhere = Review("y.jpg", "a cat", "duplicate", "ben", time="2026-01-01T10:30:00Z")
    one = read_reviews(written(tmp_path / "a.jsonl", first, second, third))
    two = read_reviews(written(tmp_path / "b.jsonl", second, elsewhere, third))
    in_order = [first, second, elsewhere, third]
    for files, reviews in (([one, module.Reviews()], [first, second, third]), ([two, one], in_order)):
        merged = module.parse_reviews(module.merge(files).encode(), "merged")
        assert [line.id for line in merged.all] == [line.id for line in reviews]
        assert merged.verdicts[PAIR] == "wrong-caption"
    assert "ids " in refusal(module.merge, [one, module.Reviews(lines=one.lines[::-1])]).faults[0].place


def test_merge_writes_every_line_once_and_overwrites_nothing(tmp_path, capsys, complaint):
    paths = [written(tmp_path / f"{caption}.jsonl", review(caption)) for caption in ("a", "b")]
    paths[1].write_bytes(paths[1].read_bytes() + b'{"version"')
    out = tmp_path / "c.jsonl"
    command = ["merge", *map(str, paths), "--out", str(out)]
    assert main(command) == 0
    printed = " ".join("".join(capsys.readouterr()).split())
    assert "lines: 2, pairs judged: 2 (" in printed
    assert "b.jsonl line 2: " in printed
    assert (len(read_reviews(out).verdicts), main(command)) == (2, 1)
    assert "--out" in capsys.readouterr().err
    assert "FILE: " in complaint(main, ["merge", str(paths[0]), "--out", str(tmp_path / "d.jsonl")])
