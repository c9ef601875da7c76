"""The content of a data set: bad pictures, near-duplicates, uninformative captions, the report in the cache."""

import os
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rapidfuzz.fuzz import ratio

from coder_core.api.data_quality import GuardedFiles
from coder_core.console.faults import InputError
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.content import duplicates
from coder_core.data.content import report as report_module
from coder_core.data.content.duplicates import content_words
from coder_core.data.content.report import cached_report, check_content, content_key
from tests.support.run_folders import overwritten

IMAGES = 8


def photograph(seed):
    """Return a picture with large soft patches, like a photograph."""
    colours = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(colours).resize((240, 200), Image.Resampling.BICUBIC)


def a_split(name, folder, names, captions):
    owner = np.arange(len(captions)) % len(names)
    return CaptionedSplit(name, names, captions, owner, GuardedFiles(folder, names), np.arange(len(names)))


BAD = dict.fromkeys(("cut.png", "page.jpg", "gone.png"), "broken")
BAD |= {"tiny.png": "tiny", "blank.png": "blank"}
TEXTS = ["A DOG runs, through the Grass!", "dog runs trough grass", "a cat runs through the grass"]


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    """Eight photographs in train; in dev four more, copies of train's first three, and five bad files."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(IMAGES + 4):
        photograph(number).save(folder / f"{number}.png")
    (folder / "exact.png").write_bytes((folder / "0.png").read_bytes())
    photograph(1).resize((90, 75)).save(folder / "rescaled.png")
    photograph(2).save(folder / "recompressed.jpg", quality=15)
    (folder / "cut.png").write_bytes((folder / "4.png").read_bytes()[:900])
    (folder / "page.jpg").write_text("<html>not found</html>")
    photograph(5).resize((40, 30)).save(folder / "tiny.png")
    Image.new("RGB", (200, 200), "#8090a0").save(folder / "blank.png")
    train = [f"{number}.png" for number in range(IMAGES)]
    dev = [f"{number}.png" for number in range(IMAGES, IMAGES + 4)]
    dev += ["exact.png", "rescaled.png", "recompressed.jpg", *BAD]
    captions = [*TEXTS, *(f"{name} is in dev" for name in dev[3:])]
    of_train = ["a dog runs through the grass .", *(f"{name} is in train" for name in train[1:])]
    return [a_split("train", folder, train, of_train), a_split("dev", folder, dev, captions)]


@pytest.fixture(scope="module")
def report(splits):
    return check_content(splits)


def test_bad_pictures_and_planted_copies_across_splits_are_found(splits, report):
    problems = {splits[1].image_names[f.samples[0][1]]: f.what for f in report.pictures}
    assert {name: what.split(":")[0] for name, what in problems.items()} == BAD
    assert "40 × 30" in problems["tiny.png"]
    assert all(finding.splits == ("dev",) for finding in report.pictures)
    groups = {finding.samples for finding in report.duplicate_pictures}
    copies = {(("train", number), ("dev", 4 + number)) for number in range(3)}
    assert groups - {(("train", 5), ("dev", 10))} == copies  # and the tiny one
    assert all(finding.splits == ("train", "dev") for finding in report.duplicate_pictures)
    [finding] = report.duplicate_captions  # case, punctuation, article; one misspelled word
    assert finding.samples == (("train", 0), ("dev", 0), ("dev", 1))
    assert finding.splits == ("train", "dev")
    assert 0.9 < finding.likeness < 1


def test_a_report_is_cached_until_the_data_changes(splits, report, tmp_path, monkeypatch):
    phases = []
    assert check_content(splits, progress=lambda done, total, phase: phases.append(phase)) == report
    assert phases == ["reading the captions", "finished"]  # no picture was read again
    key = content_key(splits)
    assert cached_report(key) == report
    other = replace(splits[1], captions=[*splits[1].captions[:-1], "another"])
    file = Path(splits[1].positions.folder or "") / "8.png"
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    changed = content_key(splits)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len({key, changed, content_key([splits[0], other])}) == 3
    stored = Path(os.environ["CODER_CACHE"]) / "content" / f"{key}.json"
    with overwritten(stored, stored.read_bytes()[: stored.stat().st_size // 2]):
        assert cached_report(key) is None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match="CODER_CACHE"):  # which cannot be written
        check_content([replace(splits[0], positions=GuardedFiles(None, splits[0].image_names))])


def test_progress_is_shared_among_the_splits_by_their_pictures(splits, tmp_path, monkeypatch):
    """Of 20 pictures, 8 are in train."""
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    seen = []
    check_content(splits, progress=lambda done, total, phase: seen.append((done / total, phase)))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    comparing = {phase: share for share, phase in seen}["comparing pictures"]
    assert 0.5 < comparing < 0.95
    of_train = max(share for share, phase in seen if phase == "checking the pictures of train")
    assert of_train == pytest.approx(comparing * 8 / 20)


def test_picture_names_cannot_leave_the_picture_folder(tmp_path):
    (tmp_path / "inside").mkdir()
    photograph(0).save(tmp_path / "secret.png")
    (tmp_path / "inside" / "link.png").symlink_to(tmp_path / "secret.png")
    names = ["../secret.png", str(tmp_path / "secret.png"), "link.png"]
    split = a_split("dev", tmp_path / "inside", names, names)
    assert [split.positions.state(number) for number in range(3)] == [(0, 0)] * 3
    report = check_content([split])
    assert report.without_pictures == ("dev",)
    assert not report.pictures


def test_duplicate_pictures_are_alike_by_hash_and_by_cosine():
    faint = Image.new("RGB", (16, 16))
    faint.putpixel((0, 0), (1, 0, 0))
    assert np.linalg.norm(report_module.tiny_image(faint)) == pytest.approx(1)
    rng = np.random.default_rng(3)
    hashes = rng.integers(0, 256, (60, 8), dtype=np.uint8)
    tiny = rng.normal(size=(60, 24))
    for number in range(0, 40, 2):  # pairs of falling likeness in either
        hashes[number + 1] = hashes[number] ^ np.packbits(rng.permutation(64) < number)
        tiny[number + 1] = tiny[number] + number / 20 * rng.normal(size=24) * (1 if number % 4 else 0.1)
    tiny[59] = 0
    hashes[59] = hashes[0]
    tiny /= np.maximum(np.linalg.norm(tiny, axis=1, keepdims=True), 1e-9)
    cosines = tiny @ tiny.T
    near = np.bitwise_count(hashes[:, None] ^ hashes).sum(-1) <= duplicates.HASH_DISTANCE
    alike = near & (cosines >= duplicates.PICTURE_LIKENESS)
    joined = {(i, j) for i, j in combinations(range(59), 2) if alike[i, j]}
    groups = duplicates.duplicate_pictures(hashes, tiny.astype(np.float32))
    assert {tuple(rows.tolist()) for rows, _ in groups} == joined  # no two of these pairs share a row
    assert all(abs(likeness - min(1, cosines[tuple(rows)])) < 1e-6 for rows, likeness in groups)


def test_duplicate_captions_match_a_slow_comparison_even_for_odd_texts():
    rng = np.random.default_rng(0)
    words = np.array(["a", "the", "dogs", "doggs", "running", "runing", "sand", "beach", "Two", "on"])
    captions = [" ".join(words[rng.integers(0, len(words), 5)]) for _ in range(250)]
    keys = [[word for word in text.lower().split() if word not in ("a", "an", "the")] for text in captions]

    def alike(one, other):
        if len(one) != len(other) or not one:
            return False
        different = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        spelled = len(different) == 1 and min(map(len, different[0])) >= 4 and ratio(*different[0]) >= 80
        return not different or (spelled and len(one) >= 3)

    group = list(range(len(keys)))
    for i, j in combinations(range(len(keys)), 2):
        if alike(keys[i], keys[j]):
            group = [group[i] if number == group[j] else number for number in group]
    expected = {tuple(k for k in range(len(keys)) if group[k] == number) for number in set(group)}
    groups = {tuple(rows.tolist()) for rows, _ in duplicates.duplicate_captions(captions)}
    assert groups == {rows for rows in expected if len(rows) > 1}
    for caption in ("", "…", "\0", "e" + "\u0301" * 10_000, "<script>alert(1)</script>", "word " * 50_000):
        groups = duplicates.duplicate_captions([caption, "two dogs on the beach", caption])
        assert [rows.tolist() for rows, _ in groups] == ([[0, 2]] if content_words(caption) else [])
