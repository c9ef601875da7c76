"""Captions as text files: every row of the catalogue about lines, bytes and lengths."""

import numpy as np
import pytest

from coder_core.data.dataset import read_split
from tests.support.precomp_folders import reason, refusal, write_split

FOUR = b"one dog\ntwo dogs\nthree dogs\nfour dogs\n"
LINKED = ("train_ims.npy", "train_caps.txt", "train_ids.txt")


@pytest.mark.parametrize(
    ("captions", "places"),
    [
        (b"one dog\n\nthree dogs\n \t \n", ["line 2", "line 4"]),
        (b"one dog\ncaf\xe9 dogs\nthree\n\xff\xfe\n", ["line 2, byte 4", "line 4, byte 1"]),
        (b"\xef\xbb\xbf\n\ntwo\n\n", ["line 1", "line 2", "line 4"]),
        (b"", [""]),
    ],
)
def test_empty_and_unreadable_lines_are_named_and_never_dropped(tmp_path, captions, places):
    write_split(tmp_path, captions=captions)
    faults = [fault for fault in refusal(read_split, tmp_path, "train").faults if fault.severity == "error"]
    file = tmp_path / "train_caps.txt"
    assert [fault.place for fault in faults] == [f"{file} {place}".strip() for place in places]


@pytest.mark.parametrize("name", ["train_caps.txt", "train_ids.txt"])
def test_lines_that_end_in_cr_alone_are_an_error_that_says_so(tmp_path, name):
    file = write_split(tmp_path, captions=FOUR, ids=list("abcd")) / name
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r"))
    [fault] = refusal(read_split, tmp_path, "train").faults
    assert (fault.place, "CR alone" in fault.found) == (str(file), True)
    assert f"tr '\\r' '\\n' < {name}" in fault.fix


def test_more_than_twenty_empty_lines_are_counted(tmp_path):
    message = str(refusal(read_split, write_split(tmp_path, captions=b"\n" * 40), "train"))
    assert message.count("train_caps.txt line ") == 20


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_ends_a_caption(tmp_path, inside):
    captions = [f"one{inside}dog", "two dogs", "three dogs", "four dogs"]
    assert read_split(write_split(tmp_path, captions=captions), "train").captions == captions


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        (FOUR, 0),
        (FOUR[:-1], 0),
        (FOUR[:-1] + b"\r\n", 0),
        (b"\xef\xbb\xbf" + FOUR, 1),
        (FOUR.replace(b"\n", b"\r\n"), 1),
    ],
)
def test_line_ends_and_a_byte_order_mark_are_removed_with_a_note(tmp_path, content, notes):
    split = read_split(write_split(tmp_path, captions=content), "train")
    assert split.captions == ["one dog", "two dogs", "three dogs", "four dogs"]
    assert [fault.severity for fault in split.faults] == ["note"] * notes


def test_captions_of_over_200_words_are_cut_and_counted(tmp_path):
    captions = ["one dog", " ".join(["dog"] * 201), "x" * 5000, " ".join(["a"] * 200)]
    split = read_split(write_split(tmp_path, captions=captions), "train")
    assert [len(caption.split()) for caption in split.captions] == [2, 200, 1, 200]
    assert len(split.captions[2]) == 4000
    (warning,) = [fault for fault in split.faults if fault.severity == "warning"]
    assert "captions 2, 3" in warning.found


@pytest.mark.parametrize("name", LINKED)
def test_a_linked_file_is_read_wherever_it_lies_and_a_note_says_so(tmp_path, name):
    folder = write_split(tmp_path / "data", ids=list("abcd"))
    plain = read_split(folder, "train")
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    split = read_split(folder, "train")
    assert split.captions == plain.captions
    np.testing.assert_array_equal(split.features, plain.features)
    (note,) = split.faults
    assert (note.place, note.severity) == (str(folder / name), "note")
    assert str(tmp_path / "elsewhere") in note.found


@pytest.mark.parametrize("name", [*LINKED, "precomp"])
@pytest.mark.parametrize("target", ["gone", "itself"])
def test_a_link_that_leads_nowhere_is_named(tmp_path, name, target):
    folder = tmp_path / "data" if name == "precomp" else write_split(tmp_path / "data", ids=list("abcd"))
    folder.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(name if target == "itself" else tmp_path / target)
    (fault,) = refusal(read_split, folder, "train").faults
    assert fault.place == str(folder / name)
    assert ("back to itself" in fault.found) == (target == "itself")


def test_a_linked_folder_is_read_with_a_note_where_it_lies_inside(tmp_path):
    write_split(tmp_path / "disk")
    (tmp_path / "linked").symlink_to(tmp_path / "disk")
    assert read_split(tmp_path / "linked", "train").faults == []
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f30k_precomp").symlink_to(tmp_path / "disk")
    (note,) = read_split(tmp_path / "data", "train").faults
    assert (note.place, note.severity) == (str(tmp_path / "data" / "f30k_precomp"), "note")


def test_faults_of_all_files_come_together(tmp_path):
    write_split(tmp_path, captions=b"one\n\n", ids=["a", "", "c", "d"])
    (tmp_path / "train_ims.npy").write_bytes(b"text")
    for place in ("train_caps.txt line 2", "train_ids.txt line 2", "train_ims.npy: "):
        assert place in reason(tmp_path)
