"""The grounds of the demo pictures: sky, sunset, grass, sand, night, paper, water, wood, snow."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from coder_core.demo.scenes import GROUNDS, SIDE

Picture = NDArray[np.float32]  # (3, SIDE, SIDE) or a part of it, 0 … 255; colours first is four times faster
Field = NDArray[np.float32]  # (SIDE, SIDE)

TILE = 3 * SIDE // 2  # noise repeats after this many pixels; a picture is a window of it
DOWN = np.linspace(0, 1, SIDE, dtype=np.float32)[:, None]
ACROSS = DOWN.T


def draw_ground(ground: str, generator: np.random.Generator) -> Picture:
    """Draw a ground as (3, SIDE, SIDE) float32 in 0 … 255, with a slightly different light every time."""
    picture = _PAINTERS[ground](generator)
    light = 1 + generator.uniform(-0.04, 0.04) + generator.uniform(-0.05, 0.05) * (ACROSS - 0.5)
    return picture * light.astype(np.float32)


@cache  # 17 tiles, 10 MB
def _noise_tile(power: float, stretch: float) -> Field:
    """Make (TILE, TILE) noise with a 1/f^power spectrum, stretched sideways; mean 0, deviation 1, seamless."""
    down = np.fft.fftfreq(TILE)[:, None] * TILE
    across = np.fft.rfftfreq(TILE)[None, :] * TILE
    frequency = np.sqrt(down**2 + (across * stretch) ** 2)
    frequency[0, 0] = 1
    phase = np.exp(2j * np.pi * np.random.default_rng(1729).random(frequency.shape))
    amplitude = frequency**-power
    amplitude[0, 0] = 0
    noise = np.fft.irfft2(amplitude * phase, s=(TILE, TILE))
    return ((noise - noise.mean()) / noise.std()).astype(np.float32)


def _noise(generator: np.random.Generator, power: float, stretch: float = 1.0) -> Field:
    """Return a random window of the noise. stretch > 1 stretches it sideways, < 1 vertically."""
    top, left = generator.integers(0, TILE - SIDE, 2)
    return _noise_tile(power, stretch)[top : top + SIDE, left : left + SIDE]


def _step(low: float, high: float, field: Field) -> Field:
    """Return 0 below low, 1 above high, smooth between."""
    t = np.clip((field - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def _gradient(*stops: tuple[float, tuple[int, int, int]]) -> Picture:
    """Make colours from top to bottom, (3, SIDE, 1), from stops (height 0 … 1, red-green-blue)."""
    places = [place for place, _ in stops]
    bands = [np.interp(DOWN[:, 0], places, [colour[band] for _, colour in stops]) for band in range(3)]
    return np.stack(bands)[..., None].astype(np.float32)


def _mix(picture: Picture, colour: tuple[int, int, int], share: Field) -> Picture:
    """Lay a colour over the picture with the opacity `share`, (SIDE, SIDE) in 0 … 1."""
    return picture + share * (np.array(colour, np.float32)[:, None, None] - picture)


def _specks(generator: np.random.Generator, count: int, spread: float) -> Field:
    """Make small soft points of light, (SIDE, SIDE) in 0 … 1; spread is their size in pixels."""
    field = np.zeros((SIDE, SIDE), np.float32)
    reach = np.arange(-4, 5, dtype=np.float32)
    for row, column in generator.integers(4, SIDE - 4, (count, 2)):
        width = spread * generator.uniform(0.6, 1.4)
        bell = np.exp(-((reach / width) ** 2))
        spot = bell[:, None] * bell * generator.uniform(0.4, 1.0)
        window = field[row - 4 : row + 5, column - 4 : column + 5]
        np.maximum(window, spot, out=window)
    return field


def _sky(generator: np.random.Generator) -> Picture:
    shape = _noise(generator, 1.7, 2.0)
    clouds = _step(0.1, 2.0, (shape - shape.mean()) / shape.std())  # some in every picture, for its captions
    return _mix(_gradient((0, (84, 156, 226)), (1, (196, 226, 246))), (255, 255, 255), 0.9 * clouds)


def _sunset(generator: np.random.Generator) -> Picture:
    picture = _gradient(
        (0, (66, 48, 112)), (0.38, (188, 84, 128)), (0.66, (246, 146, 98)), (1, (255, 214, 138))
    )
    column = generator.uniform(0.15, 0.85)
    row = 0.74
    distance = np.hypot(ACROSS - np.float32(column), DOWN - np.float32(row))
    picture = _mix(picture, (255, 240, 190), 0.75 * np.exp(-distance * 5))
    clouds = _step(0.5, 2.2, _noise(generator, 1.9, 4.0))
    picture = _mix(picture, (255, 186, 160), 0.5 * clouds)
    for height, colour in ((0.84, (122, 62, 104)), (0.92, (70, 40, 82))):
        ridge = height + 0.025 * _noise(generator, 2.2)[0]
        picture = _mix(picture, colour, np.clip((DOWN - ridge) * SIDE, 0, 1))
    return picture


def _grass(generator: np.random.Generator) -> Picture:
    picture = _gradient((0, (150, 196, 92)), (1, (84, 150, 62)))
    picture = picture + (9 * _noise(generator, 1.7) + 9 * _noise(generator, 0.9, 0.22))
    return _mix(picture, (246, 246, 214), 0.9 * _specks(generator, 26, 1.3))


def _sand(generator: np.random.Generator) -> Picture:
    picture = _gradient((0, (238, 214, 168)), (1, (222, 190, 136)))
    waves = np.sin(np.float32(2 * np.pi) * (DOWN * 9 + ACROSS * 1.5 + 0.55 * _noise(generator, 2.1, 1.6)))
    ripples = 6.5 * waves.astype(np.float32)
    return picture + (ripples + 4.0 * _noise(generator, 0.2) + 3 * _noise(generator, 1.9))


def _night(generator: np.random.Generator) -> Picture:
    picture = _gradient((0, (14, 18, 48)), (0.7, (36, 40, 92)), (1, (62, 58, 116)))
    picture = _mix(picture, (96, 92, 168), 0.5 * _step(0.2, 2.4, _noise(generator, 1.9, 1.4)))
    picture = _mix(picture, (255, 255, 244), 0.9 * _specks(generator, 60, 0.9))
    return _mix(picture, (220, 230, 255), _specks(generator, 7, 1.7))


def _paper(generator: np.random.Generator) -> Picture:
    picture = _gradient((0, (247, 243, 232)), (1, (247, 243, 232)))
    spacing = 21
    lines = np.zeros((SIDE, SIDE), np.float32)
    top, left = generator.integers(4, spacing, 2)
    lines[top::spacing] = 1
    lines[:, left::spacing] = 1
    picture = _mix(picture, (150, 186, 214), 0.42 * lines)
    edge = np.hypot(ACROSS - 0.5, DOWN - 0.5)
    grain = 1.8 * _noise(generator, 0.3) + 2.0 * _noise(generator, 1.8)
    return picture + (grain - 26 * np.maximum(edge - 0.4, 0))


def _water(generator: np.random.Generator) -> Picture:
    picture = _gradient((0, (92, 190, 204)), (1, (22, 118, 160)))
    ridges = np.exp(-((4.5 * _noise(generator, 1.8, 1.8)) ** 2))
    fainter = np.exp(-((4 * _noise(generator, 1.7, 2.2)) ** 2))
    return _mix(picture, (226, 250, 250), 0.42 * ridges + 0.2 * fainter)


def _wood(generator: np.random.Generator) -> Picture:
    planks = 4
    row = np.arange(SIDE)
    plank = (row + int(generator.integers(0, SIDE // planks))) * planks // SIDE
    tone = generator.uniform(-14, 14, planks + 1).astype(np.float32)[plank][:, None]
    shift = 40 * plank[:, None]

    grain = _noise(generator, 1.6, 9.0)
    shifted = np.take_along_axis(grain, (np.arange(SIDE) + shift) % SIDE, 1)
    rings = np.sin(np.float32(2 * np.pi) * (DOWN * 14 + 1.6 * shifted))
    picture = _gradient((0, (188, 138, 92)), (1, (188, 138, 92))) + (tone + 7 * rings + 5 * grain)

    seams = np.zeros(SIDE, np.float32)
    seams[1:] = np.diff(plank) != 0
    seams[:-1] = np.maximum(seams[:-1], 0.5 * seams[1:])
    return _mix(picture, (92, 58, 34), 0.75 * np.broadcast_to(seams[:, None], (SIDE, SIDE)))


def _snow(generator: np.random.Generator) -> Picture:
    picture = _gradient((0, (214, 228, 242)), (1, (246, 249, 253)))
    drifts = _noise(generator, 2.2, 2.5)
    slope = np.clip(3 * np.gradient(drifts, axis=0), -0.3, 0.3)
    picture = picture + (60 * slope + 3 * drifts)
    return _mix(picture, (255, 255, 255), _specks(generator, 60, 1.0))


_IN_ORDER = (_sky, _sunset, _grass, _sand, _night, _paper, _water, _wood, _snow)
_PAINTERS = dict(zip(GROUNDS, _IN_ORDER, strict=True))
