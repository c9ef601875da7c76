"""Draw scenes at random: things with shape, colour, texture, size and position, on a ground. No pixels, no words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

SIDE = 256  # pixels; every scene is a square picture

_SHAPES = "circle square triangle star ring heart diamond hexagon cross flower moon"
SHAPES = tuple(_SHAPES.split())
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")
TEXTURES = ("plain", "striped", "dotted", "checkered")
SIZES = ("small", "medium", "large")
GROUNDS = ("sky", "sunset", "grass", "sand", "night", "paper", "water", "wood", "snow")

# Colours that are hard to see on their ground, or whose names are debatable there.
_DROWNED = (
    "sky=blue white, sunset=orange pink purple, grass=green, sand=yellow orange white, night=blue purple, "
    "paper=white yellow, water=blue green, wood=orange, snow=white"
)
DROWNED = dict(pair.split("=") for pair in _DROWNED.split(", "))

RADII = {"small": (19.0, 23.0), "medium": (29.0, 35.0), "large": (43.0, 51.0)}  # pixels, lowest and highest
THINGS_SHARE = {2: 0.22, 3: 0.36, 4: 0.28, 5: 0.14}
PLAIN_SHARE = 0.4
GAP = 7.0  # pixels of ground left between two things
BORDER = 6.0
TRIES = 60

Option = TypeVar("Option")


@dataclass(frozen=True)
class Thing:
    """One object: its words, and its centre and radius in pixels (x to the right, y down), its tilt in radians."""

    shape: str
    colour: str
    texture: str
    size: str
    x: float
    y: float
    radius: float
    tilt: float


@dataclass(frozen=True)
class Scene:
    """A ground and two to five things on it that don't touch. `key` seeds the drawing's own randomness."""

    ground: str
    things: tuple[Thing, ...]
    key: tuple[int, int]


def sample_scene(seed: int, index: int) -> Scene:
    """Draw the index-th scene of a seed, independently of all other scenes."""
    generator = np.random.default_rng([seed, index, 0])
    ground = pick(generator, GROUNDS)
    colours = [colour for colour in COLOURS if colour not in DROWNED[ground].split()]
    count = int(generator.choice(list(THINGS_SHARE), p=list(THINGS_SHARE.values())))
    things: list[Thing] = []
    looks: set[tuple[str, str]] = set()
    for _ in range(TRIES):
        thing = _sample_thing(generator, colours, things)
        if (thing.shape, thing.colour) not in looks and all(_apart(thing, other) for other in things):
            things.append(thing)
            looks.add((thing.shape, thing.colour))
        if len(things) == count:
            break
    # the first two always find room: two large things fill less than a third of the picture
    return Scene(ground, tuple(things), (seed, index))


def pick(generator: np.random.Generator, options: Sequence[Option]) -> Option:
    """Draw one of the options with equal probability; ten times faster than generator.choice."""
    return options[int(generator.integers(len(options)))]


def _sample_thing(generator: np.random.Generator, colours: list[str], others: list[Thing]) -> Thing:
    size = pick(generator, SIZES)
    radius = float(generator.uniform(*RADII[size]))
    low = radius + BORDER
    high = SIDE - radius - BORDER
    # sometimes a shape is repeated, so that captions can count "two stars"
    shape = others[-1].shape if others and generator.random() < 0.2 else pick(generator, SHAPES)
    texture = "plain" if generator.random() < PLAIN_SHARE else pick(generator, TEXTURES[1:])
    colour = pick(generator, colours)
    x = round(float(generator.uniform(low, high)), 2)
    y = round(float(generator.uniform(low, high)), 2)
    tilt = round(float(generator.uniform(-0.2, 0.2)), 3)
    return Thing(shape, colour, texture, size, x, y, round(radius, 2), tilt)


def _apart(one: Thing, other: Thing) -> bool:
    return math.hypot(one.x - other.x, one.y - other.y) > one.radius + other.radius + GAP


def relations(one: Thing, other: Thing) -> list[str]:
    """List every relation that clearly holds from `one` to `other`. For "left", the centres are over 0.8 of the larger
    radius apart sideways, and over 1.25 times as far as vertically."""
    across = other.x - one.x
    down = other.y - one.y
    clear = 0.8 * max(one.radius, other.radius)
    names = []
    if abs(across) > max(clear, 1.25 * abs(down)):
        names.append("left" if across > 0 else "right")
    if abs(down) > max(clear, 1.25 * abs(across)):
        names.append("above" if down > 0 else "below")
    if math.hypot(across, down) < one.radius + other.radius + 18.0:
        names.append("near")
    return names


def part_of_picture(thing: Thing) -> str | None:
    """Return the part of the picture that a thing is clearly in: "top left" … "middle"; None if it is in between."""
    third = SIDE / 3
    column = ("left", "", "right")[int(thing.x // third)]
    row = ("top", "", "bottom")[int(thing.y // third)]
    if bool(row) != bool(column):
        return None
    return f"{row} {column}" if row else "middle"
