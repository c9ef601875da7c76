"""A scene → its picture: signed distances make smooth edges, soft shadows and a bevelled rim, without supersampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coder_core.demo.grounds import Picture, draw_ground
from coder_core.demo.scenes import SIDE, Scene, Thing
from coder_core.demo.shapes import length, signed_distance

Field = NDArray[np.float32]

# colour → (the thing's own colour, the second colour of its texture), red-green-blue
PAINT: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "red": ((214, 48, 49), (250, 214, 206)),
    "orange": ((240, 136, 32), (255, 228, 190)),
    "yellow": ((250, 210, 52), (255, 248, 214)),
    "green": ((46, 160, 80), (200, 240, 204)),
    "blue": ((38, 102, 220), (204, 224, 255)),
    "purple": ((124, 62, 176), (226, 206, 246)),
    "pink": ((240, 104, 164), (255, 222, 236)),
    "white": ((250, 250, 252), (176, 182, 196)),
}
LIGHT = (-0.6, -0.8)  # where the light comes from: (x, y), up and a little from the left
RIM = 5.0  # pixels of bevelled edge
SEAM = 1.6  # pixels round the edge that the texture leaves free
SHADOW_SHIFT = (3, 5)  # pixels right, down
SHADOW_SOFTNESS = 5.0  # pixels
SHADOW_DEPTH = 0.34


def draw(scene: Scene) -> NDArray[np.uint8]:
    """(SIDE, SIDE, 3) uint8. The same scene gives the same pixels."""
    generator = np.random.default_rng([*scene.key, 1])
    picture = draw_ground(scene.ground, generator)
    for thing in scene.things:
        _draw_thing(picture, thing, float(generator.uniform(0, np.pi)))
    pixels = np.clip(picture + 0.5, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(pixels.transpose(1, 2, 0))


def _draw_thing(picture: Picture, thing: Thing, direction: float) -> None:
    """Paint one thing and its shadow into the picture; direction (radians) is the way its stripes run."""
    reach = int(thing.radius * 1.2 + SHADOW_SOFTNESS * 2 + max(SHADOW_SHIFT))
    left, right = max(0, int(thing.x) - reach), min(SIDE, int(thing.x) + reach)
    top, bottom = max(0, int(thing.y) - reach), min(SIDE, int(thing.y) + reach)
    x = np.arange(left, right, dtype=np.float32)[None, :] - np.float32(thing.x)
    y = np.arange(top, bottom, dtype=np.float32)[:, None] - np.float32(thing.y)
    cos, sin = np.float32(np.cos(thing.tilt)), np.float32(np.sin(thing.tilt))
    u, v = cos * x + sin * y, cos * y - sin * x
    distance = signed_distance(thing.shape, u, v, thing.radius)
    window = picture[:, top:bottom, left:right]
    _cast_shadow(window, distance)
    cover = np.clip(0.5 - distance, 0, 1)
    window += cover * (_paint(thing, u, v, distance, direction) - window)


def _cast_shadow(window: Picture, distance: Field) -> None:
    right, down = SHADOW_SHIFT
    strength = np.clip(0.5 - distance / (2 * SHADOW_SOFTNESS), 0, 1)
    strength *= strength * (3 - 2 * strength) * SHADOW_DEPTH
    window[:, down:, right:] *= 1 - strength[:-down, :-right]


def _paint(thing: Thing, u: Field, v: Field, distance: Field, direction: float) -> Picture:
    """(3, h, w): the texture, lit from above, with a bright and a dark side of the rim."""
    own, second = (np.array(colour, np.float32)[:, None, None] for colour in PAINT[thing.colour])
    inside = np.clip(-distance / SEAM - 0.5, 0, 1)
    share = (
        _texture(thing, u, v, direction) * inside
    )  # a seam of its own colour: pale dots don't melt into snow
    colour = own + share * (second - own)
    down, across = np.gradient(distance)
    facing = across * np.float32(LIGHT[0]) + down * np.float32(LIGHT[1])
    rim = np.clip(1 + distance / RIM, 0, 1)
    glow = 16 * (-v / thing.radius) + 34 * facing * rim
    return np.clip(colour + glow, 0, 255)


def _texture(thing: Thing, u: Field, v: Field, direction: float) -> Field:
    """(h, w) in 0 … 1: how much of the texture's second colour shows."""
    if thing.texture == "plain":
        return np.zeros_like(u + v)
    period = np.float32(9.0 + 0.12 * thing.radius)  # pixels
    cos, sin = np.float32(np.cos(direction)), np.float32(np.sin(direction))
    if thing.texture == "striped":
        return _bands(cos * u + sin * v, period)
    if thing.texture == "checkered":
        one, other = _bands(u, period * 1.5), _bands(v, period * 1.5)
        return one + other - 2 * one * other
    a, b = cos * u + sin * v, cos * v - sin * u
    to_centre = [np.abs((w / period) % 1 - np.float32(0.5)) * period for w in (a, b)]
    return np.clip(0.5 + period * 0.29 - length(*to_centre), 0, 1)


def _bands(along: Field, period: np.float32) -> Field:
    """Alternating 0 and 1, each half a period wide, with edges one pixel soft."""
    to_edge = np.abs((along / period) % 1 - np.float32(0.5)) - np.float32(0.25)
    return np.clip(0.5 + to_edge * period, 0, 1)
