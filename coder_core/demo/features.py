"""Region features from the pixels: 35 overlapping windows, each described by its colours, outlines and texture.

They are hand-made on purpose: no network has to be downloaded, and every column has a meaning that can be inspected.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

CELLS = 16  # a picture is first summarised in 16 × 16 cells
# (cells per side, first cells): 25 + 9 + 1 windows
WINDOWS = ((6, (0, 2, 5, 8, 10)), (9, (0, 4, 7)), (16, (0,)))
BOXES = [(x, y, x + side, y + side) for side, starts in WINDOWS for y in starts for x in starts]  # in cells
REGIONS = len(BOXES)

# bins of the colour histogram: saturated pixels by hue, the others by lightness
HUES = 12
GREYS = 4
TURNS = 8  # bins of an edge's direction, over half a turn
PARTS = 3  # outlines are described separately in 3 × 3 parts of a window
BINS = HUES + GREYS
WIDTH = 3 + 2 * BINS + TURNS + PARTS * PARTS * (TURNS + 1) + 4


def cell_features(picture: NDArray[np.uint8]) -> Array:
    """Summarise one picture, (side, side, 3) uint8 with a side that is a multiple of 32.

    Returns (CELLS, CELLS, channels) float32: mean colour, colour histogram, the same of things only, edges of the
    lightness by direction, edges of the things' outlines by direction, share covered by things.
    """
    small = _halve(picture)
    things = _things(small)
    bins = _colour_bins(small)
    light = small.mean(0)
    maps = [_cell_means(small[band]) for band in range(3)]
    histograms = [
        _cell_histogram(bins, np.ones_like(light), BINS),
        _cell_histogram(bins, things, BINS),
        _cell_edges(light),
        _cell_edges(things),
    ]
    channels = [np.stack(maps, -1), *histograms, _cell_means(things)[..., None]]
    return np.concatenate(channels, -1).astype(np.float32)


def region_features(cells: Array) -> Array:
    """Describe the windows of n pictures: (n, CELLS, CELLS, channels) -> (n, REGIONS, WIDTH) float32. Not yet
    standardised. The last four columns are the window's box in 0 … 1."""
    return np.stack([_describe(cells[:, box[1] : box[3], box[0] : box[2]], box) for box in BOXES], 1)


def region_boxes() -> Array:
    """Return (REGIONS, 4): left, top, right, bottom of every window as shares of the picture's sides."""
    return np.array(BOXES, np.float32) / np.float32(CELLS)


def standardise(features: Array, mean: Array, deviation: Array) -> Array:
    """Scale each column of (…, WIDTH) to mean 0 and deviation 1; values beyond 6 deviations are clipped."""
    return np.clip((features - mean) / np.maximum(deviation, 1e-4), -6, 6).astype(np.float32)


def _halve(picture: NDArray[np.uint8]) -> Array:
    """Average 2 × 2 pixels: (side, side, 3) uint8 → (3, side / 2, side / 2) in 0 … 1, colours first."""
    planes = np.ascontiguousarray(picture.transpose(2, 0, 1)).astype(np.uint16)
    rows = planes[:, ::2] + planes[:, 1::2]
    return (rows[..., ::2] + rows[..., 1::2]).astype(np.float32) / np.float32(4 * 255)


def _things(picture: Array) -> Array:
    """Locate things: (h, w) in 0 … 1, a pixel's colour distance from its row's median, as grounds change downwards."""
    ground = np.partition(picture, picture.shape[-1] // 2, axis=-1)[..., picture.shape[-1] // 2, None]
    return np.clip((np.abs(picture - ground).max(0) - 0.12) / 0.12, 0, 1)


def _colour_bins(picture: Array) -> NDArray[np.int64]:
    """Return the (h, w) bin of each pixel: by hue if it has one, otherwise by lightness."""
    highest = picture.max(0)
    lowest = picture.min(0)
    chroma = highest - lowest
    red, green, blue = picture
    safe = np.maximum(chroma, 1e-6)
    turn = np.where(
        highest == red,
        (green - blue) / safe + np.where(green < blue, np.float32(6), np.float32(0)),
        np.where(highest == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = (turn * (HUES / 6) + 0.5).astype(np.int64) % HUES  # a bin's middle, not its edge, is pure red
    grey = HUES + np.minimum(highest * GREYS, GREYS - 1).astype(np.int64)
    return np.where(chroma > 0.3 * highest, hue, grey)


def _cell_means(field: Array) -> Array:
    """Average the pixels of each cell: (h, w) → (CELLS, CELLS)."""
    height = field.shape[0] // CELLS
    width = field.shape[1] // CELLS
    rows = field.reshape(CELLS, height, -1).sum(1)
    return rows.reshape(CELLS, CELLS, width).sum(-1) / np.float32(height * width)


def _cell_histogram(bins: NDArray[np.int64], weights: Array, count: int) -> Array:
    """Make a histogram per cell, as a mean over its pixels: (h, w) bins and weights → (CELLS, CELLS, count)."""
    height, width = bins.shape
    row = np.arange(height) * CELLS // height
    column = np.arange(width) * CELLS // width
    slot = (row[:, None] * CELLS + column) * count + bins
    sums = np.bincount(slot.ravel(), weights.ravel(), CELLS * CELLS * count)
    return (sums / (height * width / CELLS**2)).reshape(CELLS, CELLS, count).astype(np.float32)


def _cell_edges(field: Array) -> Array:
    """Sum up edges by direction, whichever side is brighter: (h, w) → (CELLS, CELLS, TURNS)."""
    down = np.zeros_like(field)
    across = np.zeros_like(field)
    down[1:-1] = field[2:] - field[:-2]
    across[:, 1:-1] = field[:, 2:] - field[:, :-2]
    turn = np.arctan2(down, across) * np.float32(TURNS / np.pi) + np.float32(TURNS + 0.5)
    return _cell_histogram(turn.astype(np.int64) % TURNS, np.sqrt(down * down + across * across), TURNS)


def _describe(window: Array, box: tuple[int, int, int, int]) -> Array:
    """Describe a window of n pictures: (n, side, side, channels) → (n, WIDTH). Roots raise small things' share."""
    count, side = window.shape[:2]
    split = 3 + 2 * BINS + TURNS
    whole = window[..., :split].mean((1, 2))
    whole[:, 3:] = np.sqrt(whole[:, 3:])
    cuts = [round(part * side / PARTS) for part in range(PARTS + 1)]
    parts = [
        window[:, cuts[i] : cuts[i + 1], cuts[j] : cuts[j + 1], split:].mean((1, 2))
        for i in range(PARTS)
        for j in range(PARTS)
    ]
    corners = np.broadcast_to(np.array(box, np.float32) / CELLS, (count, 4))
    return np.concatenate([whole, np.sqrt(np.concatenate(parts, 1)), corners], 1)
