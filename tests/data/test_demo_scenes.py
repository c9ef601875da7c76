"""Scenes and captions of the built-in data set: what a caption says is true of its picture, read word by word."""

import math
import re
from itertools import permutations

import numpy as np

from coder_core.demo import captions as wording
from coder_core.demo.captions import EXACT, write_captions
from coder_core.demo.scenes import COLOURS, GROUNDS, SHAPES, SIDE, Scene, Thing, relations, sample_scene

SCENES = [sample_scene(0, index) for index in range(150)]
CAPTIONS = [write_captions(scene) for scene in SCENES]
WRITTEN = [
    (scene, caption.text) for scene, captions in zip(SCENES, CAPTIONS, strict=True) for caption in captions
]
SHAPE_WORDS = {shape: wording.LOOKS.get(shape, (shape,)) for shape in SHAPES}
COLOUR_WORDS = {colour: wording.LOOKS.get(colour, (colour,)) for colour in COLOURS}


def test_scenes_hold_two_to_five_things_apart_and_inside():
    for scene in SCENES:
        assert 2 <= len(scene.things) <= 5
        for i, one in enumerate(scene.things):
            assert one.radius < min(one.x, one.y, SIDE - one.x, SIDE - one.y)
            for other in scene.things[:i]:
                assert math.dist((one.x, one.y), (other.x, other.y)) > one.radius + other.radius
    assert {scene.ground for scene in SCENES} == set(GROUNDS)
    assert {thing.shape for scene in SCENES for thing in scene.things} == set(SHAPES)


def test_relations_by_hand():
    def at(x: float, y: float) -> Thing:
        return Thing("star", "red", "plain", "small", x, y, 20.0, 0.0)

    for one, other, names in (
        (at(50, 100), at(150, 110), ["left"]),
        (at(150, 110), at(50, 100), ["right"]),
        (at(100, 40), at(110, 200), ["above"]),
        (at(110, 200), at(100, 40), ["below"]),
        (at(50, 50), at(150, 150), []),  # as much left of as above: nobody would say either
        (at(50, 50), at(102, 50), ["left", "near"]),
    ):
        assert relations(one, other) == names


AFTER = {key: (words,) for key, words in wording.TEXTURES_AFTER.items()}


def meaning(table: dict, words: str) -> str | None:
    """The key of the table's entry that occurs in the words."""
    keys = (
        key for key, entries in table.items() if any(re.search(rf"\b{entry}\b", words) for entry in entries)
    )
    return next(keys, None)


def fits(thing: Thing, words: str) -> bool:
    """True if a description such as "a small star with stripes" fits a thing, read word by word."""
    tables = {"shape": SHAPE_WORDS, "colour": COLOUR_WORDS, "size": wording.SIZES}
    named = {name: meaning(table, words) for name, table in tables.items()}
    named["texture"] = meaning(wording.TEXTURES, words) or meaning(AFTER, words)
    return all(value is None or getattr(thing, name) == value for name, value in named.items())


def holds(name: str, a: Thing, b: Thing) -> bool:
    """The relation from the pixels' coordinates alone."""
    if name == "near":
        return math.dist((a.x, a.y), (b.x, b.y)) - a.radius - b.radius < 0.1 * SIDE
    across, down = b.x - a.x, b.y - a.y
    return {"left": across, "right": -across, "above": down, "below": -down}[name] > 10


def check_relation(scene: Scene, text: str) -> bool:
    """True when the caption states a relation (and it holds); False when it states none."""
    for name, phrases in wording.RELATIONS.items():
        for phrase in sorted(phrases, key=len, reverse=True):
            if match := re.search(rf"^(?P<one>.*?) (?:is )?{phrase} (?P<other>an? .*)$", text):
                one = re.split(r", |there is ", match["one"])[-1]
                other = strip_ground(scene, match["other"].split(", and ")[0])
                pairs = [(a, b) for a, b in permutations(scene.things, 2) if fits(a, one) and fits(b, other)]
                assert any(holds(name, a, b) for a, b in pairs), (text, scene)
                return True
    return False


def strip_ground(scene: Scene, text: str) -> str:
    for phrase in sorted(wording.GROUNDS[scene.ground], key=len, reverse=True):
        text = text.removesuffix(phrase).removeprefix(phrase).strip(" ,")
    return text


def test_relations_in_captions_are_true():
    assert sum(check_relation(scene, text) for scene, text in WRITTEN) > 120


def test_grounds_places_and_counts_in_captions_are_true():
    columns, rows = {"left": 0, "right": 2}, {"top": 0, "bottom": 2}
    numbers = {word: number for number, word in wording.NUMBERS.items()}
    for scene, text in WRITTEN:
        for ground, phrases in wording.GROUNDS.items():
            if any(re.search(rf"(^| ){phrase}($|,| there)", text) for phrase in phrases):
                assert ground == scene.ground, text
        places = [(where, phrase) for where, phrases in wording.PLACES.items() for phrase in phrases]
        for where, phrase in places:
            if f" {phrase} " in text:
                row, column = where.split() if " " in where else ("middle", "middle")
                things = [thing for thing in scene.things if fits(thing, text.split(phrase)[0])]
                cells = {(thing.y * 3 // SIDE, thing.x * 3 // SIDE) for thing in things}
                assert (rows.get(row, 1), columns.get(column, 1)) in cells, text
        for shape, words in SHAPE_WORDS.items():
            for word in words:
                if counted := re.search(rf"(two|three|four|five) {wording._plural(word)}\b", text):
                    assert sum(thing.shape == shape for thing in scene.things) == numbers[counted[1]]


def test_everything_a_caption_names_is_in_the_picture():
    plurals = {shape: [*words, *map(wording._plural, words)] for shape, words in SHAPE_WORDS.items()}
    for scene, caption in WRITTEN:
        text = strip_ground(scene, caption)
        for kind, table in (("shape", plurals), ("colour", COLOUR_WORDS)):
            present = {getattr(thing, kind) for thing in scene.things}
            for key, words in table.items():
                assert key in present or not re.search(rf"\b({'|'.join(words)})\b", text), (text, scene)


def test_exact_captions_are_mostly_one_of_a_kind():
    exact = [caption.text for captions in CAPTIONS for caption in captions if caption.vagueness == EXACT]
    assert len(set(exact)) >= 0.98 * len(exact)
    assert all(len({caption.text for caption in captions}) == 5 for captions in CAPTIONS)


def test_position_of_a_caption_does_not_give_its_vagueness_away():
    grades = np.array([[caption.vagueness for caption in captions] for captions in CAPTIONS])
    np.testing.assert_allclose(grades.mean(0), grades.mean(), atol=0.08)
