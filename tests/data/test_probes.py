"""Probes: pictures with a caption and an altered one (`coder_core.data.judgements`)."""

import json

import pytest

from coder_core.data.judgements import Probe, picture_key, read_probes
from tests.support.precomp_folders import assert_refused

ENTRY = {"filename": "a.jpg", "caption": "a dog", "negative_caption": "a cat"}


def written(folder, content, name="swap_object.json"):
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_probes_of_several_files_are_named_by_their_file(tmp_path):
    first = written(tmp_path, {"0": ENTRY, "7": ENTRY | {"caption": "two dogs"}})
    second = written(tmp_path, [ENTRY | {"filename": "b.jpg"}], "add_attribute.json")
    assert read_probes([first, second]) == [
        Probe("swap_object", "a.jpg", "a dog", "a cat"),
        Probe("swap_object", "a.jpg", "two dogs", "a cat"),
        Probe("add_attribute", "b.jpg", "a dog", "a cat"),
    ]
    assert len(read_probes([written(tmp_path, [ENTRY | {"caption": "x" * 4_000}])])) == 1


@pytest.mark.parametrize(
    "entry",
    [
        {},
        [],
        ENTRY | {"caption": 7},
        ENTRY | {"caption": " "},
        ENTRY | {"negative_caption": "x" * 4_001},
        {key: value for key, value in ENTRY.items() if key != "filename"},
    ],
)
def test_entries_that_are_no_probes_are_named(tmp_path, entry):
    assert_refused(
        "swap_object.json.*'?second'?", read_probes, [written(tmp_path, {"first": ENTRY, "second": entry})]
    )


@pytest.mark.parametrize("content", ["{}", "[]", "7", "{"])
def test_files_without_probes_are_refused(tmp_path, content):
    assert_refused("swap_object.json", read_probes, [written(tmp_path, content)])


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("val2014/COCO_val2014_000000085329.jpg", "000000085329"),
        ("000000085329.jpg", "000000085329"),
        ("shop/a.b.png", "a.b"),
        ("a", "a"),
    ],
)
def test_pictures_are_the_same_without_folders_ending_and_prefix(name, key):
    assert picture_key(name) == key
