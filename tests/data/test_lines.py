"""Captions as text files: every row of the catalogue about lines, bytes and lengths."""

import numpy as np
import pytest

from coder_core.data.dataset import read_split
from tests.support.precomp_folders import refusal, write_split

FOUR = b"one dog\ntwo dogs\nthree dogs\nfour dogs\n"


@pytest.mark.parametrize(
    ("captions", "places", "said"),
    [
        (b"one dog\n\nthree dogs\n \t \n", ["line 2", "line 4"], "the line is empty"),
        (
            b"one dog\ncaf\xe9 dogs\nthree\n\xff\xfe\n",
            ["line 2, byte 4", "line 4, byte 1"],
            "0xe9 is not UTF-8",
        ),
        (b"", ["train_caps.txt"], "the file is empty"),
    ],
)
def test_empty_and_unreadable_lines_are_named_and_never_dropped(tmp_path, captions, places, said):
    write_split(tmp_path, captions=captions)
    error = refusal(read_split, tmp_path, "train")
    assert [
        place for fault, place in zip(error.faults, places, strict=True) if place not in fault.place
    ] == []
    assert said in error.faults[0].found


def test_more_than_twenty_empty_lines_are_counted(tmp_path):
    write_split(tmp_path, captions=b"\n" * 40)
    message = str(refusal(read_split, tmp_path, "train"))
    assert "40 lines are empty" in message or "and 1 more" in message
    assert message.count("the line is empty") == 20


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_ends_a_caption(tmp_path, inside):
    captions = [f"one{inside}dog", "two dogs", "three dogs", "four dogs"]
    write_split(tmp_path, captions=captions)
    assert read_split(tmp_path, "train").captions == captions


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_last_line_may_end_or_not(tmp_path, end):
    write_split(tmp_path, captions=b"one dog\ntwo dogs\nthree dogs\nfour dogs" + end)
    assert read_split(tmp_path, "train").n_texts == 4


@pytest.mark.parametrize(
    ("content", "text"), [(b"\xef\xbb\xbf" + FOUR, "byte order mark"), (FOUR.replace(b"\n", b"\r\n"), "CRLF")]
)
def test_byte_order_mark_and_windows_line_ends_are_removed_with_a_note(tmp_path, content, text):
    write_split(tmp_path, captions=content)
    split = read_split(tmp_path, "train")
    assert split.captions == ["one dog", "two dogs", "three dogs", "four dogs"]
    assert [fault.severity for fault in split.faults if text in fault.found] == ["note"]


def test_captions_of_over_200_words_are_cut_and_counted(tmp_path):
    long = " ".join(["dog"] * 201)
    write_split(tmp_path, captions=["one dog", long, "x" * 5000, " ".join(["a"] * 200)])
    split = read_split(tmp_path, "train")
    assert [len(caption.split()) for caption in split.captions] == [2, 200, 1, 200]
    assert len(split.captions[2]) == 4000
    (warning,) = [f for f in split.faults if f.severity == "warning"]
    assert "2 captions are over 200 words" in warning.found
    assert "captions 2, 3" in warning.found


LINKED = ("train_ims.npy", "train_caps.txt", "train_ids.txt")


@pytest.mark.parametrize("name", LINKED)
def test_a_linked_file_is_read_wherever_it_lies_and_a_note_says_so(tmp_path, name):
    folder = write_split(tmp_path / "data", ids=list("abcd"))
    plain = read_split(folder, "train")
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    split = read_split(folder, "train")
    assert split.captions == plain.captions
    np.testing.assert_array_equal(split.features, plain.features)
    assert [str(fault) for fault in split.faults] == [
        f"{folder / name}: a link, followed to {tmp_path / 'elsewhere'}"
    ]
    assert split.faults[0].severity == "note"


@pytest.mark.parametrize("name", [*LINKED, "precomp"])
@pytest.mark.parametrize(
    ("target", "problem"), [("gone", "which does not exist"), ("itself", "back to itself")]
)
def test_a_link_that_leads_nowhere_is_named(tmp_path, name, target, problem):
    folder = tmp_path / "data" if name == "precomp" else write_split(tmp_path / "data", ids=list("abcd"))
    folder.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(name if target == "itself" else tmp_path / target)
    (fault,) = refusal(read_split, folder, "train").faults
    assert fault.place == str(folder / name)
    assert problem in fault.found


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
    places = " ".join(fault.place for fault in refusal(read_split, tmp_path, "train").faults)
    assert "train_caps.txt line 2" in places
    assert "train_ids.txt line 2" in places
    assert "train_ims.npy" in places
