"""Views saved under a name (`coder_core.api.saved_views`): what is kept, and what is refused."""

import json

import pytest

from coder_core.api.saved_views import FILE, remove_view, save_view, saved_views
from tests.support.precomp_folders import assert_refused

ADDRESS = "retrieval?run=a&query=%C3%A9"


def test_views_are_kept_by_name_until_they_are_removed(tmp_path):
    assert saved_views(tmp_path) == {}
    save_view(tmp_path, "b", ADDRESS)
    save_view(tmp_path, "ä b", "?")
    save_view(tmp_path, "a", ADDRESS)
    assert list(saved_views(tmp_path).items()) == [("a", ADDRESS), ("b", ADDRESS), ("ä b", "?")]
    assert_refused("the view 'a': exists", save_view, tmp_path, "a", "?")
    remove_view(tmp_path, "a")
    remove_view(tmp_path, "a")
    assert list(saved_views(tmp_path)) == ["b", "ä b"]


@pytest.mark.parametrize("name", ["", "  ", "x" * 81, "a\nb"])
def test_names_that_cannot_be_shown_are_refused(tmp_path, name):
    assert_refused("needs a name of 1 to 80 printable characters", save_view, tmp_path, name, ADDRESS)


@pytest.mark.parametrize("address", ["", "retrieval", "https://x.org/?a=1", "a?b#c", "?" + "a" * 4_000])
def test_addresses_outside_the_app_are_refused(tmp_path, address):
    assert_refused("has an address that is not a page of this app", save_view, tmp_path, "a", address)


def test_the_longest_names_and_addresses_and_two_hundred_views_are_kept(tmp_path):
    save_view(tmp_path, "x" * 80, "?" + "a" * 3_999)
    (tmp_path / FILE).write_text(json.dumps({f"view {number}": ADDRESS for number in range(199)}))
    save_view(tmp_path, "last", ADDRESS)
    assert len(saved_views(tmp_path)) == 200
    assert_refused("already has 200 views", save_view, tmp_path, "one more", ADDRESS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON; expected names and addresses"),
        ("[]", "contains something other than views"),
        ('{"a": 1}', "contains something other than views"),
        ('{"": "?"}', "contains something other than views"),
        (json.dumps({f"view {number}": "?" for number in range(201)}), "contains something other than views"),
    ],
)
def test_another_file_is_neither_read_nor_replaced(tmp_path, content, message):
    (tmp_path / FILE).write_text(content)
    assert_refused(message, saved_views, tmp_path)
    assert_refused(message, save_view, tmp_path, "a", ADDRESS)
    assert (tmp_path / FILE).read_text() == content
