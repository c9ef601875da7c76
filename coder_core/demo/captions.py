"""Write five captions of a scene as a person might, from exact to vague, every one true of the picture."""

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np

from coder_core.demo.scenes import Scene, Thing, part_of_picture, pick, relations

# Vagueness of a caption: 0 names two things in full and their relation, 1 fits every picture.
EXACT = 0.0
PRECISE = 0.25
LOOSE = 0.5
VAGUE = 0.75
EMPTY = 1.0

# The five grades of one picture; one of these rows is drawn per picture.
RECIPES = (
    (EXACT, EXACT, PRECISE, LOOSE, EMPTY),
    (EXACT, PRECISE, PRECISE, LOOSE, VAGUE),
    (EXACT, PRECISE, LOOSE, VAGUE, EMPTY),
    (EXACT, EXACT, PRECISE, LOOSE, VAGUE),
)
TRIES = 20  # draws before a caption may repeat within a picture


_WORDINGS = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text("utf-8"))


def _wordings(name: str) -> dict[str, tuple[str, ...]]:
    return {key: tuple(words) for key, words in _WORDINGS[name].items()}


LOOKS = _wordings("looks")
TEXTURES = _wordings("textures")
SIZES = _wordings("sizes")
RELATIONS = _wordings("relations")
PLACES = _wordings("places")
GROUNDS = _wordings("grounds")
TEXTURES_AFTER: dict[str, str] = _WORDINGS["textures-after"]
VAGUE_CAPTIONS = _WORDINGS["vague"]
EMPTY_CAPTIONS = _WORDINGS["empty"]
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
ANY_ONE = ("shape", "thing", "object")
ANY_MANY = ("shapes", "things", "objects")


@dataclass(frozen=True)
class Caption:
    """One sentence and how vague it is (0 … 1)."""

    text: str
    vagueness: float


def write_captions(scene: Scene) -> list[Caption]:
    """Write five captions in random order, all different unless twenty draws find no new one."""
    generator = np.random.default_rng([*scene.key, 2])
    grades = RECIPES[int(generator.integers(len(RECIPES)))]
    captions: list[Caption] = []
    for grade in grades:
        for _ in range(TRIES):
            text = _WRITERS[grade](scene, generator)
            if all(text != caption.text for caption in captions):
                break
        captions.append(Caption(text, grade))
    return [captions[i] for i in generator.permutation(len(captions))]


def _word(generator: np.random.Generator, table: Mapping[str, Sequence[str]], key: str) -> str:
    """Draw the common word half of the time, otherwise a synonym."""
    options = table.get(key, (key,))
    return options[0] if len(options) == 1 or generator.random() < 0.5 else pick(generator, options[1:])


def _describe(
    thing: Thing, generator: np.random.Generator, *, size: bool = True, texture: bool = True
) -> str:
    """Describe a thing: "a small striped blue star", or "a small blue star with stripes"."""
    words = [_word(generator, LOOKS, thing.colour)]
    after = ""
    if texture and thing.texture != "plain":
        if generator.random() < 0.75:
            words.insert(0, _word(generator, TEXTURES, thing.texture))
        else:
            after = f" with {TEXTURES_AFTER[thing.texture]}"
    if size and thing.size != "medium":
        words.insert(0, _word(generator, SIZES, thing.size))
    words.append(_word(generator, LOOKS, thing.shape))
    return _with_article(" ".join(words)) + after


def _ground(scene: Scene, generator: np.random.Generator) -> str:
    return _word(generator, GROUNDS, scene.ground)


def _related(scene: Scene, generator: np.random.Generator) -> tuple[Thing, str, Thing] | None:
    """Draw two things and words for a relation between them; None if no relation clearly holds."""
    options = [(a, name, b) for a, b in permutations(scene.things, 2) for name in relations(a, b)]
    if not options:
        return None
    first, name, second = pick(generator, options)
    return first, _word(generator, RELATIONS, name), second


def _located(scene: Scene, generator: np.random.Generator) -> tuple[Thing, str] | None:
    """Draw a thing and words for its part of the picture; None if all things are in between."""
    options = [(thing, where) for thing in scene.things if (where := part_of_picture(thing))]
    if not options:
        return None
    thing, where = pick(generator, options)
    return thing, _word(generator, PLACES, where)


def _two(scene: Scene, generator: np.random.Generator) -> tuple[Thing, Thing]:
    first, second = generator.permutation(len(scene.things))[:2]
    return scene.things[int(first)], scene.things[int(second)]


def _exact(scene: Scene, generator: np.random.Generator) -> str:
    """Describe two or three things in full, their relation if one clearly holds, and mostly the ground."""
    ground = _ground(scene, generator)
    related = _related(scene, generator)
    if related is None:
        first, second = (_describe(thing, generator) for thing in _two(scene, generator))
        return f"{first} and {second} {ground}"

    a, relation, b = related
    first = _describe(a, generator)
    second = _describe(b, generator)
    text = f"{first} {relation} {second}"
    rest = [thing for thing in scene.things if thing not in (a, b)]
    form = int(generator.integers(5))
    if form == 0:
        return f"{ground}, {first} is {relation} {second}"
    if form == 1:
        return f"{text} {ground}"
    if form == 2 and rest:
        third = _describe(pick(generator, rest), generator, size=False)
        return f"{text}, and {third} {ground}"

    return f"there is {text}" if form == 3 else text


def _precise(scene: Scene, generator: np.random.Generator) -> str:
    """Describe one thing in full with its place or another thing, or count all things by shape, with the ground."""
    ground = _ground(scene, generator)
    located = _located(scene, generator)
    form = int(generator.integers(4))
    if form == 0 and located:
        thing, where = located
        return f"{_describe(thing, generator)} {where} {ground}"
    if form == 1:
        return f"{_count_shapes(scene, generator)} {ground}"
    first, second = _two(scene, generator)
    short = _describe(second, generator, size=False, texture=False)
    if form == 2:
        return f"{_describe(first, generator)} and {short} {ground}"
    return f"{ground} there is {_describe(first, generator)} with {short}"


def _loose(scene: Scene, generator: np.random.Generator) -> str:
    """Describe one or two things by a property or two, or count the things, perhaps with the ground."""
    first, second = _two(scene, generator)
    ground = _ground(scene, generator)
    colour = _word(generator, LOOKS, first.colour)
    shape = _word(generator, LOOKS, first.shape)
    forms: list[Callable[[], str]] = [
        lambda: f"{_with_article(colour)} {pick(generator, ANY_ONE)} {ground}",
        lambda: f"{_with_article(shape)} {ground}",
        lambda: f"{NUMBERS[len(scene.things)]} {pick(generator, ANY_MANY)} {ground}",
        lambda: _count_shapes(scene, generator),
        lambda: f"{_with_article(colour)} {shape}",
        lambda: f"{_with_article(shape)} and {_describe(second, generator, size=False, texture=False)}",
    ]
    return pick(generator, forms)()


def _count_shapes(scene: Scene, generator: np.random.Generator) -> str:
    """Count all things by shape: "two stars and a ring"."""
    counts = list(Counter(thing.shape for thing in scene.things).items())
    parts = []
    for i in generator.permutation(len(counts)):
        shape, count = counts[int(i)]
        word = _word(generator, LOOKS, shape)
        parts.append(_with_article(word) if count == 1 else f"{NUMBERS[count]} {_plural(word)}")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _with_article(words: str) -> str:
    """Prepend the article: "an orange star", "a star"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _plural(word: str) -> str:
    """Form the plural: "crosses", "boxes", "rhombuses", "plus signs"."""
    return word + ("es" if word.endswith(("s", "x")) else "s")


_WRITERS: dict[float, Callable[[Scene, np.random.Generator], str]] = {
    EXACT: _exact,
    PRECISE: _precise,
    LOOSE: _loose,
    VAGUE: lambda scene, generator: pick(generator, VAGUE_CAPTIONS),
    EMPTY: lambda scene, generator: pick(generator, EMPTY_CAPTIONS),
}
