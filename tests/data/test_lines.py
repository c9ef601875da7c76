"""Text and JSON from files (`coder_core.data.lines`): what is read, and the place that a fault names."""

import json

import pytest

from coder_core.data.lines import (
    Once,
    count_cases,
    decode_text,
    name_pictures,
    parse_json_text,
    read_lines,
    shorten,
    shown,
)
from tests.support.precomp_folders import assert_refused, refusal


def test_a_key_that_occurs_twice_is_named_where_it_occurs_again():
    text = b'[\n{"a": 1,\n  "a": 2},\n{"a": {"b": "}"}},\n{"a": 4}]'
    assert_refused("data.json line 3, column 3: the key 'a' occurs twice", parse_json_text, text, "data.json")
    text = b'[{"a": 1},\n{"b": {"a": 1}, "b": 2},\n{"b": 3}]'
    assert_refused("line 2, column 17: the key 'b' occurs twice", parse_json_text, text, "data.json")
    assert_refused("^row 7: the key 'a' occurs twice", parse_json_text, '{"a": 1, "a": 2}', "row 7")


def test_what_is_not_json_is_named_where_it_begins():
    assert_refused("data.json line 2, column 6: is not JSON", parse_json_text, b'{"a":\n "b" x}', "data.json")
    assert_refused("data.json line 1, column 1: is not JSON", parse_json_text, b"x", "data.json")
    assert_refused("nested too deeply", parse_json_text, "[" * 100_000, "row 1")
    assert parse_json_text("[NaN]", "row 1")[0] != 0
    assert_refused("contains NaN", parse_json_text, "[NaN]", "row 1", finite=True)


def test_captions_of_more_than_200_words_or_4000_characters_are_cut():
    word = ["x"] * 201
    captions = [" ".join(word[:200]), " ".join(word), "y" * 4_000, "y" * 4_001, "z " * 2_000]
    faults = []
    kept = shorten(captions, "captions.txt", faults)
    assert kept is captions
    assert kept[0] == kept[1] == " ".join(word[:200])
    assert (len(kept[2]), len(kept[3]), len(kept[4])) == (4_000, 4_000, 399)
    [fault] = faults
    limits = "200 words or 4,000 characters"
    assert fault.found == f"3 captions exceed {limits} and were cut; the first: 2, 4, 5"


def test_ten_cases_are_named_and_twenty_empty_lines_placed(tmp_path):
    assert count_cases("here", "things", []) == []
    [fault] = count_cases("here", "things are odd", range(1_234))
    assert fault.found == "1,234 things are odd; the first: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    file = tmp_path / "captions.txt"
    for empty, listed in ((20, 20), (21, 21)):
        file.write_text("a dog\n" + "\n" * empty)
        faults = []
        assert read_lines(file, "caption", faults) == ["a dog", *[""] * empty]
        assert [fault.place for fault in faults[:2]] == [f"{file} line 2", f"{file} line 3"]
        assert len(faults) == listed
    assert faults[-1].found == "21 lines are empty"
    file.write_text("")
    faults = []
    assert read_lines(file, "caption", faults) == []
    assert faults[0].found == "the file is empty"


@pytest.mark.parametrize(
    ("content", "lines", "notes"),
    [
        (b"a\nb", ["a", "b"], []),
        (b"\xef\xbb\xbfa\r\nb\r\n", ["a", "b"], ["byte order mark", "CRLF"]),
        ("é\nb\n".encode("utf-16"), ["é", "b"], ["is UTF-16"]),
        ("é\nb\n".encode("utf-32"), ["é", "b"], ["is UTF-32"]),
        (b"a\xff\nb\n", ["", "b"], ["the byte 0xff is not UTF-8"]),
        (b"a\0\nb\n", ["a\0", "b"], ["contains a NUL character"]),
        (b"a\rb\rc", [], ["the lines end in CR alone"]),
        (b"a\rb\nc\n", ["a\rb", "c"], []),
    ],
)
def test_encodings_and_line_ends_are_read_or_named(tmp_path, content, lines, notes):
    file = tmp_path / "captions.txt"
    file.write_bytes(content)
    faults = []
    assert read_lines(file, "caption", faults) == lines
    assert len(faults) == len(notes)
    for fault, note in zip(faults, notes, strict=True):
        assert note in fault.found


def test_the_byte_that_is_not_utf8_is_placed_and_twenty_are_listed(tmp_path):
    faults = []
    file = tmp_path / "captions.txt"
    file.write_bytes(b"a\nbc\xe9d\n" + b"\xff\n" * 30)
    read_lines(file, "caption", faults)
    assert faults[0].place == f"{file} line 2, byte 3"
    assert len(faults) == 20
    assert all("is not UTF-8" in fault.found for fault in faults)
    assert decode_text(b"a\n", "here", []) == "a\n"
    assert_refused("here line 2, byte 1: the byte 0xff", decode_text, b"a\n\xff", "here", [])


def test_repeated_keys_name_the_first_place_and_at_most_twenty_are_listed():
    faults = []
    once = Once("id", faults)
    assert once.add("a", "line 1")
    assert once.add("a", "line 1")
    assert not once.add("a", "line 2", at="line 2, column 3")
    assert (faults[0].place, faults[0].found) == ("line 2, column 3", "'a' is also the id of line 1")
    for number in range(30):
        once.add("a", f"line {number + 3}")
    assert (len(faults), once.repeated) == (20, 31)


def test_long_texts_are_shortened_for_messages():
    assert shown("x" * 80) == repr("x" * 80)
    assert shown("x" * 81) == repr("x" * 79 + "…")
    assert shown("a\nb") == "'a\\nb'"


def test_ids_become_names_if_a_mapping_has_all_of_them(tmp_path):
    folder = tmp_path / "data" / "precomp"
    folder.mkdir(parents=True)
    faults = []
    assert name_pictures(folder, folder, ["1", "2"], faults) == ["1", "2"]
    mapping = tmp_path / "data" / "id_mapping.json"
    mapping.write_text(json.dumps({"1": "a.jpg"}))
    assert name_pictures(folder, folder, ["1", "2"], faults) == ["1", "2"]
    assert faults[-1].found == "names only 1 of 2 images, so the ids are used as names"
    mapping.write_text(json.dumps({"1": "a.jpg", "2": "b.jpg"}))
    assert name_pictures(folder, folder, ["1", "2"], faults) == ["a.jpg", "b.jpg"]
    assert faults[-1].found == "names the pictures of 2 ids"
    mapping.write_text("{")
    assert name_pictures(folder, folder, ["1"], faults) == ["1"]
    assert faults[-1].severity == "warning"
    mapping.write_text('{"1": "a", "1": "b"}')
    assert "occurs twice" in str(refusal(name_pictures, folder, folder, ["1"], faults))
