"""Captions as text files: every row of the catalogue about lines, bytes and lengths."""

import pytest

from coder_core.data.dataset import read_split
from tests.support.precomp_folders import refusal, write_split

FOUR = b"one dog\ntwo dogs\nthree dogs\nfour dogs\n"


def test_an_empty_line_is_named_and_never_dropped(tmp_path):
    write_split(tmp_path, captions=b"one dog\n\nthree dogs\n \t \n")
    error = refusal(read_split, tmp_path, "train")
    assert [fault.place.rpartition(" line ")[2] for fault in error.faults] == ["2", "4"]
    assert "train_caps.txt line 2: the line is empty; expected every line is one caption" in str(error)


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


def test_a_byte_order_mark_is_removed_with_a_note(tmp_path):
    write_split(tmp_path, captions=b"\xef\xbb\xbf" + FOUR)
    split = read_split(tmp_path, "train")
    assert split.captions[0] == "one dog"
    assert [f.severity for f in split.faults if "byte order mark" in f.found] == ["note"]


def test_windows_line_ends_are_removed_with_a_note(tmp_path):
    write_split(tmp_path, captions=FOUR.replace(b"\n", b"\r\n"))
    split = read_split(tmp_path, "train")
    assert split.captions == ["one dog", "two dogs", "three dogs", "four dogs"]
    assert [f.severity for f in split.faults if "CRLF" in f.found] == ["note"]


def test_invalid_utf8_is_an_error_with_line_and_byte(tmp_path):
    write_split(tmp_path, captions=b"one dog\ncaf\xe9 dogs\nthree\n\xff\xfe\n")
    error = refusal(read_split, tmp_path, "train")
    assert [f.place.rpartition(".txt ")[2] for f in error.faults] == ["line 2, byte 4", "line 4, byte 1"]
    assert "0xe9 is not UTF-8" in str(error)


def test_captions_of_over_200_words_are_cut_and_counted(tmp_path):
    long = " ".join(["dog"] * 201)
    write_split(tmp_path, captions=["one dog", long, "x" * 5000, " ".join(["a"] * 200)])
    split = read_split(tmp_path, "train")
    assert [len(caption.split()) for caption in split.captions] == [2, 200, 1, 200]
    assert len(split.captions[2]) == 4000
    (warning,) = [f for f in split.faults if f.severity == "warning"]
    assert "2 captions are over 200 words" in warning.found
    assert "captions 2, 3" in warning.found


def test_an_empty_captions_file_says_so(tmp_path):
    write_split(tmp_path, captions=b"")
    assert "the file is empty" in str(refusal(read_split, tmp_path, "train"))


def test_captions_through_a_link_out_of_the_folder_are_refused(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_bytes(FOUR)
    folder = write_split(tmp_path / "data")
    (folder / "train_caps.txt").unlink()
    (folder / "train_caps.txt").symlink_to(secret)
    assert "a link that leaves the data folder" in str(refusal(read_split, folder, "train"))


def test_a_folder_that_is_itself_a_link_is_read(tmp_path):
    write_split(tmp_path / "real")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert read_split(tmp_path / "linked", "train").n_texts == 8


def test_faults_of_all_files_come_together(tmp_path):
    write_split(tmp_path, captions=b"one\n\n", ids=["a", "", "c", "d"])
    (tmp_path / "train_ims.npy").write_bytes(b"text")
    places = " ".join(fault.place for fault in refusal(read_split, tmp_path, "train").faults)
    assert "train_caps.txt line 2" in places
    assert "train_ids.txt line 2" in places
    assert "train_ims.npy" in places
