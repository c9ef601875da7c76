"""Base forms: spelling rules, what the captions decide, and the forms no rule gives."""

from __future__ import annotations

import pytest

from coder_core.model.concepts.lemmas import base_form, kind_of_tag

SEEN = {
    "dog": 50,
    "ride": 9,
    "rid": 1,
    "sing": 4,
    "singe": 0,
    "run": 7,
    "ski": 5,
    "build": 1,
    "building": 90,
    "skiing": 6,
    "pant": 1,
    "pants": 60,
    "box": 3,
    "lady": 4,
    "leaf": 4,
    "old": 5,
    "large": 5,
    "big": 3,
    "happy": 2,
    "dance": 3,
}


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("dogs", "dog"),
        ("boxes", "box"),
        ("ladies", "lady"),
        ("leaves", "leaf"),
        ("men", "man"),
        ("feet", "foot"),
        ("children", "child"),
        ("grass", "grass"),
        ("bus", "bus"),
        ("tennis", "tennis"),
        ("dog", "dog"),
        ("pants", "pants"),  # a stray "pant" does not make them one
        ("jeans", "jeans"),  # no "jean" in these captions
        ("skiing", "ski"),
        ("building", "building"),
        ("ceiling", "ceiling"),
        ("dancing", "dance"),
    ],
)
def test_nouns(word: str, base: str) -> None:
    assert base_form(word, "object", {word: 5} | SEEN) == base


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("riding", "ride"),
        ("rides", "ride"),
        ("rode", "ride"),
        ("singing", "sing"),
        ("running", "run"),
        ("ran", "run"),
        ("wore", "wear"),
        ("carries", "carry"),
        ("carried", "carry"),
    ],
)
def test_verbs_the_captions_hold(word: str, base: str) -> None:
    assert base_form(word, "motion", SEEN) == base


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("walking", "walk"),
        ("jumps", "jump"),
        ("hopping", "hop"),
        ("passing", "pass"),
        ("pulled", "pull"),
        ("posing", "pose"),
        ("smiling", "smile"),
        ("dancing", "dance"),
        ("waving", "wave"),
        ("catches", "catch"),
        ("passes", "pass"),
        ("makes", "make"),
        ("skating", "skate"),
        ("eating", "eat"),
        ("juggling", "juggle"),
        ("looking", "look"),
        ("playing", "play"),
        ("listening", "listen"),
        ("lying", "lie"),
        ("swing", "swing"),
        ("goes", "go"),
        ("fixing", "fix"),
        ("string", "string"),
    ],
)
def test_verbs_nobody_wrote_follow_the_spelling(word: str, base: str) -> None:
    assert base_form(word, "motion", {}) == base


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("older", "old"),
        ("largest", "large"),
        ("bigger", "big"),
        ("happier", "happy"),
        ("river", "river"),
        ("younger", "younger"),  # no "young" in these captions
    ],
)
def test_adjectives(word: str, base: str) -> None:
    assert base_form(word, "property", SEEN) == base


def test_a_tag_that_says_base_form_is_believed() -> None:
    assert base_form("feed", "motion", {"fe": 3}, tag="VB") == "feed"
    assert base_form("dogs", "object", SEEN, tag="NN") == "dog"  # lexicons err on plurals
    assert base_form("silver", "property", {"silv": 1}, tag="JJ") == "silver"


def test_kinds_of_tags() -> None:
    assert [kind_of_tag(tag) for tag in ("NNS", "JJR", "VBG", "RB", "DT", "CD")] == [
        "object",
        "property",
        "motion",
        None,
        None,
        None,
    ]
