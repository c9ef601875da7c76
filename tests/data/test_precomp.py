"""The precomp layout: lines, bytes and lengths of its text files, links, and the image of every caption."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data.dataset import read_split
from tests.support.precomp_folders import features, places, reason, refusal, write_split

FOUR = b"one dog\ntwo dogs\nthree dogs\nfour dogs\n"
FILES = ("train_ims.npy", "train_caps.txt", "train_ids.txt")


def captions(count):
    return [f"caption {row}" for row in range(count)]


@pytest.mark.parametrize(
    ("kind", "content", "lines", "fact"),
    [
        ("captions", b"one dog\n\nthree dogs\n \t \n", ["line 2", "line 4"], "the line is empty"),
        ("captions", b"one\ncaf\xe9 dogs\nthree\n\xff\n", ["line 2, byte 4", "line 4, byte 1"], "0xe9"),
        ("captions", b"\xef\xbb\xbf\n\ntwo\n\n", ["line 1", "line 2", "line 4"], ""),
        ("captions", FOUR.decode().encode("utf-16")[:-1], ["byte 77"], "begins as UTF-16"),
        (
            "captions",
            FOUR.decode().encode("utf-16")[2:],
            [*(f"line {line}" for line in range(1, 6)), ""],
            "NUL",
        ),
        ("captions", FOUR.replace(b"two", b"t\0o"), ["line 2"], "NUL"),
        ("captions", b"", [""], ""),
        ("captions", b"\n" * 40, [*(f"line {line}" for line in range(1, 21)), ""], "and 1 more"),
        ("captions", FOUR.replace(b"\n", b"\r"), ["line 1"], f"tr '\\r' '\\n' < {FILES[1]}"),
        ("ids", ["a\rb\rc\rd"], ["line 1"], f"tr '\\r' '\\n' < {FILES[2]}"),
        *(("captions", captions(m), [""], f"{m} captions for 4 images, {m / 4:.4f}") for m in (3, 7, 21)),
        ("ids", "abc", [""], "3 ids for 4 rows of features and 8 captions; expected one id per image (4) or"),
        ("ids", "aabbccde", [""], "5 different ids, for 4 rows"),
        ("ids", "01234567", [""], "remove the file, so that every 2 captions belong to one image"),
        ("ids", "abad", ["line 3"], "train_ids.txt line 1"),
    ],
)
def test_invalid_lines_and_mismatched_counts_are_named(tmp_path, kind, content, lines, fact):
    file = FILES[1 if kind == "captions" else 2]
    assert places(write_split(tmp_path, **{kind: content})) == [f"{file} {line}".strip() for line in lines]
    assert fact in reason(tmp_path)


def test_only_newlines_end_captions_and_long_captions_are_cut(tmp_path):
    for inside in "\u2028\u2029\x85\x0b\x0c\x1c\r":
        lines = [f"one{inside}dog", "two dogs", "three dogs", "four dogs"]
        assert read_split(write_split(tmp_path, captions=lines), "train").captions == lines
    plain = {FOUR: 0, FOUR[:-1]: 0, FOUR[:-1] + b"\r\n": 0}
    noted = (b"\xef\xbb\xbf" + FOUR, FOUR.replace(b"\n", b"\r\n"))
    noted += tuple(FOUR.decode().encode(encoding) for encoding in ("utf-16", "utf-32"))
    for content, notes in (plain | dict.fromkeys(noted, 1)).items():
        split = read_split(write_split(tmp_path, captions=content), "train")
        assert split.captions == ["one dog", "two dogs", "three dogs", "four dogs"]
        assert [fault.severity for fault in split.faults] == ["note"] * notes
    lines = ["one dog", " ".join(["dog"] * 201), "x" * 5000, " ".join(["a"] * 200)]
    split = read_split(write_split(tmp_path, captions=lines), "train")
    assert [len(caption.split()) for caption in split.captions] == [2, 200, 1, 200]
    assert len(split.captions[2]) == 4000
    (warning,) = [fault for fault in split.faults if fault.severity == "warning"]
    assert "the first: 2, 3" in warning.found
    write_split(tmp_path, captions=b"one\n\n", ids=["a", "", "c", "d"])
    (tmp_path / "train_ims.npy").write_bytes(b"text")
    assert places(tmp_path) == ["train_caps.txt line 2", "train_ids.txt line 2", "train_ims.npy"]


@pytest.mark.parametrize("name", [*FILES, "precomp", "f30k_precomp"])
def test_links_are_followed_with_a_note_and_broken_ones_named(tmp_path, name):
    data = tmp_path / "data"
    elsewhere = tmp_path / "elsewhere"
    write_split(data / ("" if name in FILES else name), ids="abcd")
    (tmp_path / "linked").symlink_to(data)
    plain = read_split(tmp_path / "linked", "train")
    assert plain.faults == []  # the path that a user gives may be a link
    link = (data / name).rename(elsewhere) and data / name
    link.symlink_to(elsewhere)
    split = read_split(data, "train")
    assert split.captions == plain.captions
    np.testing.assert_array_equal(split.features, plain.features)
    (note,) = split.faults
    assert (note.place, note.severity) == (str(link), "note")
    assert str(elsewhere) in note.found
    for target in ("gone", name):  # which is the link itself
        link.unlink()
        link.symlink_to(target)
        (fault,) = refusal(read_split, data, "train").faults
        assert fault.place == str(link)
        assert ("back to itself" in fault.found) == (target == name)


def test_without_ids_captions_are_divided_evenly_among_images(tmp_path):
    for each in (1, 2, 5, 7):
        split = read_split(write_split(tmp_path, captions=captions(4 * each)), "train")
        assert split.image_of_text.tolist() == [row // each for row in range(4 * each)]
        assert split.image_of_text.dtype == np.int64
        assert split.image_names is None
    write_split(tmp_path, "dev", array=features(1_200, 1, 2), captions=captions(6_000))
    assert read_split(tmp_path, "dev").n_texts == 6_000  # dev is never cut to 5,000


@settings(max_examples=10)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_ids_per_caption_are_read_back(tmp_path_factory, of_text):
    names = [f"p{i}.jpg" for i in (*of_text, of_text[0])]
    first = list(dict.fromkeys(names))  # in order of first appearance
    folder = tmp_path_factory.mktemp("ids")
    write_split(folder, array=features(len(first)), captions=captions(len(names)), ids=names)
    split = read_split(folder, "train")
    assert split.image_names == first
    assert [first[image] for image in split.image_of_text] == names


@pytest.mark.parametrize("with_ids", [True, False])
def test_feature_rows_repeated_per_caption_are_read_once(tmp_path, with_ids):
    array = features(12)
    array[2, 1] = 0
    names = list("abcdefghijkl")
    ids = [name for name in names for _ in range(5)] if with_ids else None
    repeated = np.repeat(array, 5, axis=0)
    write_split(tmp_path, array=repeated, captions=captions(60), ids=ids)
    split = read_split(tmp_path, "train")
    assert (split.n_images, split.n_texts) == (12, 60)
    assert isinstance(split.features, np.memmap)
    np.testing.assert_array_equal(split.features, array)
    assert split.image_of_text.tolist() == [row // 5 for row in range(60)]
    assert split.image_names == (names if with_ids else None)
    assert "note" in [fault.severity for fault in split.faults]
    assert split.zero_regions.tolist() == [2 * 3 + 1]  # counted once
    repeated[59] += 1
    write_split(tmp_path / "other", array=repeated, captions=captions(60))
    assert (
        read_split(tmp_path / "other", "train").n_images == 60
    )  # one row differs: all are images of their own
    write_split(tmp_path, array=features(8), captions=captions(8), ids="aabbccdd")
    assert places(tmp_path) == [f"train_ids.txt line {line}" for line in (2, 4, 6, 8)]  # the rows differ


def test_ids_name_images_and_a_mapping_gives_them_file_names(tmp_path):
    folder = write_split(tmp_path / "precomp", ids="dcba")
    mapping = tmp_path / "id_mapping.json"
    names = {name: f"t/{name}.jpg" for name in "dcba"}
    for content, expected in (
        (json.dumps(names), list(names.values())),
        *((bad, list(names)) for bad in ('{"a": "a.jpg"}', "[1]", "{", '{"a": 1, "b": 2, "c": 3, "d": 4}')),
    ):
        mapping.write_text(content)
        for path in (tmp_path, folder):
            split = read_split(path, "train")
            assert split.image_names == expected
            assert split.image_of_text.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        severity = "note" if expected != list(names) else "warning"
        assert [fault.severity for fault in split.faults if str(mapping) in fault.place] == [severity]


def test_equal_pictures_that_have_captions_of_their_own_stay_two(tmp_path):
    """Rows are joined only if there is one for every caption; with one caption each, unless they are all equal."""
    array = np.repeat(features(2), 2, axis=0)
    split = read_split(write_split(tmp_path / "two", array=array), "train")
    assert (split.n_images, split.n_texts, split.image_of_text.tolist()) == (4, 8, [0, 0, 1, 1, 2, 2, 3, 3])
    split = read_split(write_split(tmp_path / "one", array=array, captions=list("abcd")), "train")
    assert (split.n_images, split.image_of_text.tolist()) == (2, [0, 0, 1, 1])
    split = read_split(write_split(tmp_path / "single", array=array[:1], captions=["a"]), "train")
    assert split.n_images == 1
