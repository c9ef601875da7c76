"""Base forms: spelling rules, what the captions decide, and the forms no rule gives."""

from __future__ import annotations

import pytest

from coder_core.model.concepts.lemmas import Kind, base_form, kind_of_tag

SEEN = {
    **{"dog": 50, "ride": 9, "rid": 1, "sing": 4, "singe": 0, "run": 7, "ski": 5, "skiing": 6},
    **{"build": 1, "building": 90, "pant": 1, "pants": 60, "box": 3, "lady": 4, "leaf": 4},
    **{"old": 5, "large": 5, "big": 3, "happy": 2, "dance": 3},
}

# pants: a stray "pant" does not make them one; jeans, younger: no "jean" or "young" in these captions.
NOUNS = """dogs dog, boxes box, ladies lady, leaves leaf, men man, feet foot, children child, grass grass, bus bus,
tennis tennis, dog dog, pants pants, jeans jeans, skiing ski, building building, ceiling ceiling, dancing dance"""
ADJECTIVES = "older old, largest large, bigger big, happier happy, river river, younger younger"
VERBS = """riding ride, rides ride, rode ride, singing sing, running run, ran run, wore wear, carries carry,
carried carry"""
VERBS_BY_SPELLING = """walking walk, jumps jump, hopping hop, passing pass, pulled pull, posing pose, smiling smile,
dancing dance, waving wave, catches catch, passes pass, makes make, skating skate, eating eat, juggling juggle,
looking look, playing play, listening listen, lying lie, swing swing, goes go, fixing fix, string string"""


@pytest.mark.parametrize(
    ("kind", "table", "seen"),
    [
        ("object", NOUNS, SEEN),
        ("property", ADJECTIVES, SEEN),
        ("motion", VERBS, SEEN),
        ("motion", VERBS_BY_SPELLING, {}),
    ],
)
def test_base_forms(kind: Kind, table: str, seen: dict[str, int]) -> None:
    expected = dict(pair.split() for pair in table.split(","))
    count = (
        {} if kind != "object" else dict.fromkeys(expected, 5)
    )  # a plural needs a singular that is not rare
    assert {word: base_form(word, kind, count | seen) for word in expected} == expected


def test_a_tag_that_says_base_form_is_believed() -> None:
    assert base_form("feed", "motion", {"fe": 3}, tag="VB") == "feed"
    assert base_form("dogs", "object", SEEN, tag="NN") == "dog"  # lexicons err on plurals
    assert base_form("silver", "property", {"silv": 1}, tag="JJ") == "silver"


def test_kinds_of_tags() -> None:
    kinds = [kind_of_tag(tag) for tag in ("NNS", "JJR", "VBG", "RB", "DT", "CD")]
    assert kinds == ["object", "property", "motion", None, None, None]
