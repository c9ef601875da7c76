"""Draw a scene: signed distances give smooth edges, soft shadows and a bevelled rim without supersampling.

Distances are negative inside a shape, positive outside, in pixels. Their formulas are those of Inigo Quilez, "2D distance
functions" (iquilezles.org/articles/distfunctions2d).
"""

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from coder_core.demo.grounds import Picture, draw_ground
from coder_core.demo.scenes import SIDE, Scene, Thing

Field = NDArray[np.float32]
Corners = tuple[tuple[float, float], ...]

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
SEAM = 1.6  # pixels along the edge without texture
SHADOW_SHIFT = (3, 5)  # pixels right, down
SHADOW_SOFTNESS = 5.0  # pixels
SHADOW_DEPTH = 0.34


def draw_scene(scene: Scene) -> NDArray[np.uint8]:
    """Draw a scene as (SIDE, SIDE, 3) uint8. The same scene gives the same pixels."""
    generator = np.random.default_rng([*scene.key, 1])
    picture = draw_ground(scene.ground, generator)
    for thing in scene.things:
        _draw_thing(picture, thing, float(generator.uniform(0, np.pi)))
    pixels = np.clip(picture + 0.5, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(pixels.transpose(1, 2, 0))


def _draw_thing(picture: Picture, thing: Thing, direction: float) -> None:
    """Paint one thing and its shadow into the picture. direction: perpendicular to its stripes, in radians."""
    reach = int(thing.radius * 1.2 + SHADOW_SOFTNESS * 2 + max(SHADOW_SHIFT))
    left = max(0, int(thing.x) - reach)
    right = min(SIDE, int(thing.x) + reach)
    top = max(0, int(thing.y) - reach)
    bottom = min(SIDE, int(thing.y) + reach)

    x = np.arange(left, right, dtype=np.float32)[None, :] - np.float32(thing.x)
    y = np.arange(top, bottom, dtype=np.float32)[:, None] - np.float32(thing.y)
    cos = np.float32(np.cos(thing.tilt))
    sin = np.float32(np.sin(thing.tilt))
    u = cos * x + sin * y
    v = cos * y - sin * x

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
    """Paint the texture, lit from above, with a bright and a dark side of the rim: (3, h, w)."""
    first_paint, second_paint = PAINT[thing.colour]
    base = np.array(first_paint, np.float32)[:, None, None]
    second = np.array(second_paint, np.float32)[:, None, None]
    inside = np.clip(-distance / SEAM - 0.5, 0, 1)
    share = _texture(thing, u, v, direction) * inside  # the seam separates pale dots from snow
    colour = base + share * (second - base)
    down, across = np.gradient(distance)
    facing = across * np.float32(LIGHT[0]) + down * np.float32(LIGHT[1])
    rim = np.clip(1 + distance / RIM, 0, 1)
    glow = 16 * (-v / thing.radius) + 34 * facing * rim
    return np.clip(colour + glow, 0, 255)


def _texture(thing: Thing, u: Field, v: Field, direction: float) -> Field:
    """Compute the share of the texture's second colour: (h, w) in 0 … 1."""
    if thing.texture == "plain":
        return np.zeros_like(u + v)
    period = np.float32(9.0 + 0.12 * thing.radius)  # pixels
    cos = np.float32(np.cos(direction))
    sin = np.float32(np.sin(direction))
    if thing.texture == "striped":
        return _bands(cos * u + sin * v, period)
    if thing.texture == "checkered":
        one = _bands(u, period * 1.5)
        other = _bands(v, period * 1.5)
        return one + other - 2 * one * other
    a = _to_centre(cos * u + sin * v, period)
    b = _to_centre(cos * v - sin * u, period)
    return np.clip(0.5 + period * 0.29 - length(a, b), 0, 1)


def _to_centre(along: Field, period: np.float32) -> Field:
    """Return the distance of every point to the centre of its period."""
    return np.abs((along / period) % 1 - np.float32(0.5)) * period


def _bands(along: Field, period: np.float32) -> Field:
    """Make bands of 0 and 1, each half a period wide, with edges one pixel soft."""
    to_edge = np.abs((along / period) % 1 - np.float32(0.5)) - np.float32(0.25)
    return np.clip(0.5 + to_edge * period, 0, 1)


def signed_distance(shape: str, u: Field, v: Field, radius: float) -> Field:
    """Return the (h, w) float32 distance of every point to the outline of a shape that roughly fills a circle of this
    radius. u, v: (h, w) pixels right of and below the centre."""
    if shape == "circle":
        return length(u, v) - np.float32(0.92 * radius)
    if shape == "ring":
        return np.abs(length(u, v) - np.float32(0.72 * radius)) - np.float32(0.22 * radius)
    curved = {"moon": _moon, "flower": _flower, "heart": _heart}
    if shape in curved:
        return curved[shape](u / radius, v / radius) * np.float32(radius)
    rounding = 0.06 * radius
    return _polygon(_corners(shape), u / radius, v / radius) * np.float32(radius) - np.float32(rounding)


def length(a: Field, b: Field) -> Field:
    """Return the length of the vector (a, b); np.hypot takes three times as long, as it guards against overflow."""
    return np.sqrt(a * a + b * b)


@cache
def _corners(shape: str) -> Corners:
    """Return the corners of the right half, from the top of the axis to its bottom, in units of the radius."""
    if shape == "square":
        return ((0, -0.74), (0.74, -0.74), (0.74, 0.74), (0, 0.74))
    if shape == "diamond":
        return ((0, -0.98), (0.66, 0), (0, 0.98))
    if shape == "cross":
        a = 0.26
        b = 0.88
        return ((0, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b), (0, b))
    if shape == "triangle":  # the middle of its height is above the centre, its centroid below
        return ((0, -0.8), (0.83, 0.64), (0, 0.64))

    count, inner = {"hexagon": (6, 1.0), "star": (10, 0.44)}[shape]
    angles = [2 * np.pi * corner / count for corner in range(count // 2 + 1)]
    lengths = [0.96 if corner % 2 == 0 else 0.96 * inner for corner in range(count // 2 + 1)]
    return tuple(
        (float(reach * np.sin(angle)), float(-reach * np.cos(angle)))
        for reach, angle in zip(lengths, angles, strict=True)
    )


def _polygon(corners: Corners, u: Field, v: Field) -> Field:
    """Return the distance to a polygon that is symmetric about the vertical axis, from the edges of its right half."""
    u = np.abs(u)
    nearest = np.full(u.shape, np.inf, np.float32)
    outside = np.ones(u.shape, bool)
    for start, end in pairwise(corners):
        edge_u = end[0] - start[0]
        edge_v = end[1] - start[1]
        from_u = u - np.float32(start[0])
        from_v = v - np.float32(start[1])
        along = np.clip((from_u * edge_u + from_v * edge_v) / (edge_u**2 + edge_v**2), 0, 1)
        off_u = from_u - edge_u * along
        off_v = from_v - edge_v * along
        np.minimum(nearest, off_u * off_u + off_v * off_v, out=nearest)
        # an edge that crosses the point's ray to the right swaps inside and outside
        crosses = (v < start[1]) != (v < end[1])
        outside ^= crosses & ((from_u * edge_v < edge_u * from_v) == (edge_v > 0))

    return np.where(outside, np.float32(1), np.float32(-1)) * np.sqrt(nearest)


def _moon(u: Field, v: Field) -> Field:
    """Return the distance to a disc with a disc cut out, its horns turned up slightly."""
    disc = 0.92
    bite = 0.76
    apart = 0.5
    x = np.float32(0.94) * u - np.float32(0.34) * v + np.float32(0.1)
    y = np.abs(np.float32(0.94) * v + np.float32(0.34) * u)
    horn_x = (disc**2 - bite**2 + apart**2) / (2 * apart)
    horn_y = float(np.sqrt(disc**2 - horn_x**2))
    past_horn = x * horn_y - y * horn_x > apart * np.maximum(horn_y - y, 0)
    body = np.maximum(length(x, y) - np.float32(disc), np.float32(bite) - length(x - np.float32(apart), y))
    return np.where(past_horn, length(x - np.float32(horn_x), y - np.float32(horn_y)), body)


def _flower(u: Field, v: Field) -> Field:
    """Return the distance to six round petals around a disc with a hole in its middle."""
    petals = np.full(np.broadcast_shapes(u.shape, v.shape), np.inf, np.float32)
    for petal in range(6):
        angle = np.pi * petal / 3
        across = u - np.float32(0.6 * np.cos(angle))
        down = v - np.float32(0.6 * np.sin(angle))
        np.minimum(petals, length(across, down), out=petals)
    centre = length(u, v)
    whole = np.minimum(petals - np.float32(0.34), centre - np.float32(0.55))
    return np.maximum(whole, np.float32(0.2) - centre)


def _heart(u: Field, v: Field) -> Field:
    scale = 1.62
    x = np.abs(u / scale)
    y = np.float32(0.84 / scale) - v / scale
    lobe = length(x - np.float32(0.25), y - np.float32(0.75)) - np.float32(np.sqrt(2) / 4)
    half = np.maximum(x + y, 0) / 2
    tip = np.sqrt(np.minimum(x**2 + (y - 1) ** 2, (x - half) ** 2 + (y - half) ** 2)) * np.sign(x - y)
    return np.where(x + y > 1, lobe, tip) * np.float32(scale)
