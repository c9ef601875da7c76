"""Heat maps by masking: parts of a picture and words of a text are left out, and the score is computed again.

Such a map is faithful by construction, unlike cosines of patches, which no part of the score is made of. How faithful a map
is says the area between its insertion and deletion curve; both kinds of map are measured on the same cells.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from coder_core.api.heat_maps import HeatMap, Way, heat_map, heat_map_ways, text_words
from coder_core.api.run import Run
from coder_core.api.sides import Array
from coder_core.console.faults import InputError
from coder_core.evaluation.masking import area_between, curve_masks, draw_masks, effects, interactions
from coder_core.runs.derived.store import derived_folder, read_as, write_derived

KIND = "masks"
VERSION = 1
GRID = 7  # cells per side of a picture
AT_ONCE = 16  # pictures encoded together
TEXTS_AT_ONCE = 64
LONGEST_SIDE = 512  # pixels of the pictures that are masked
COMPARED: Way = "cosine"


@dataclass(frozen=True)
class MaskMap:
    """The map of a text over a picture by masking, and how faithful it and the map of cosines are."""

    heat: HeatMap  # words as in the text, one region per cell
    areas: dict[
        Way, float
    ]  # area between the insertion and the deletion curve, in units of the score; 0: at random
    encoded: int  # masked pictures and texts

    @property
    def better(self) -> Way:
        """The more faithful kind of map; masking if both are alike."""
        return max(self.areas, key=lambda way: (self.areas[way], way == "masking"))


def mask_map(run: Run, split: str, text: str, image: int | Image.Image) -> MaskMap:
    """Compute the heat map of a text's words over an image of a split, or a new upright RGB picture, by masking.

    The picture is cut into 7 × 7 cells; cells left out get the picture's mean color, words left out are removed. The
    result for an image of the split is stored in the run's folder. InputError: the run cannot encode pictures, or
    lacks its picture or its towers.
    """
    if "masking" not in heat_map_ways(run, split):
        raise InputError.at(f"run {run.name}", "cannot encode a masked picture", "a run that reads pictures")
    if isinstance(image, Image.Image):
        return _compute(run, split, text, image)
    about = {"method": VERSION, "text": text, "image": int(image)}
    folder = derived_folder(run.path, split, KIND, about, [run.analysis(split)])
    with suppress(InputError):  # damaged: computed again, and replaced
        stored = read_as(folder, _build)
        if stored is not None:
            return stored
    computed = _compute(run, split, text, image)
    facts = {"words": computed.heat.words, "areas": computed.areas, "encoded": computed.encoded}
    with suppress(OSError, InputError):
        write_derived(folder, {"values": computed.heat.values}, facts=facts)
    return computed


def cell_boxes() -> Array:
    """Return (GRID², 4) float32 left, top, right, bottom of every cell as shares of the picture's sides."""
    edges = np.linspace(0, 1, GRID + 1)
    rows, columns = np.divmod(np.arange(GRID * GRID), GRID)
    sides = [edges[columns], edges[rows], edges[columns + 1], edges[rows + 1]]
    return np.stack(sides, axis=1).astype(np.float32)


def masked_picture(picture: Image.Image, kept: Array) -> Image.Image:
    """Fill the cells of an RGB picture that are not `kept`, (GRID²,) bool, with the picture's mean color."""
    pixels = np.asarray(picture)
    height, width = pixels.shape[:2]
    row_of = np.arange(height) * GRID // height
    column_of = np.arange(width) * GRID // width
    shown = kept.reshape(GRID, GRID)[row_of[:, None], column_of]
    mean = pixels.reshape(-1, pixels.shape[2]).mean(0).round().astype(np.uint8)
    return Image.fromarray(np.where(shown[..., None], pixels, mean))


def on_cells(values: Array, boxes: Array) -> Array:
    """Average the values (L,) of regions, NaN to leave one out, over the cells, weighted by the area of overlap with their
    boxes (L, 4): (GRID²,) float64, NaN for a cell that no region covers."""
    cells = cell_boxes().astype(np.float64)
    left, top = (np.maximum(cells[:, side, None], boxes[:, side]) for side in (0, 1))
    right, bottom = (np.minimum(cells[:, side, None], boxes[:, side]) for side in (2, 3))
    overlap = np.clip(right - left, 0, None) * np.clip(bottom - top, 0, None)
    overlap = np.where(np.isfinite(values), overlap, 0)
    total = overlap.sum(1)
    mean = overlap @ np.nan_to_num(values) / np.maximum(total, 1e-12)
    return np.where(total > 1e-9, mean, np.nan)


def _compute(run: Run, split: str, text: str, image: int | Image.Image) -> MaskMap:
    words = text_words(text)
    picture = image.copy() if isinstance(image, Image.Image) else run.open_picture(split, image)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))

    cell_masks = draw_masks(GRID * GRID)
    word_masks = draw_masks(len(words))
    pictures = _Pictures(run, split, picture)
    cell_effects = effects(cell_masks, pictures.rows(cell_masks))

    texts = [" ".join(word for word, kept in zip(words, mask, strict=True) if kept) for mask in word_masks]
    word_effects = effects(word_masks, _text_rows(run, texts))
    values = interactions(word_effects, cell_effects)

    whole = run.encode_text([text])[0]
    maps: dict[Way, Array] = {"masking": values.mean(0)}
    with suppress(InputError):
        other = heat_map(run, split, text, image, COMPARED)
        if other.boxes is not None:
            maps[COMPARED] = on_cells(other.values.mean(0), other.boxes)

    areas: dict[Way, float] = {}
    for way, importance in maps.items():
        inserted, deleted = curve_masks(importance)
        areas[way] = area_between(pictures.rows(inserted) @ whole, pictures.rows(deleted) @ whole)

    return MaskMap(HeatMap(words, values, cell_boxes()), areas, pictures.encoded + len(set(texts)))


class _Pictures:
    """Embeddings of one masked picture, each mask encoded once."""

    def __init__(self, run: Run, split: str, picture: Image.Image) -> None:
        self.run = run
        self.split = split
        self.picture = picture
        self._known: dict[bytes, Array] = {}

    @property
    def encoded(self) -> int:
        return len(self._known)

    def rows(self, masks: Array) -> Array:
        """Return (n, D) embeddings of the picture under (n, GRID²) masks."""
        new = {mask.tobytes(): mask for mask in masks if mask.tobytes() not in self._known}
        keys = list(new)
        for start in range(0, len(keys), AT_ONCE):
            batch = keys[start : start + AT_ONCE]
            pictures = [masked_picture(self.picture, new[key]) for key in batch]
            encoded = self.run.encode_pictures(pictures, split=self.split)
            self._known |= dict(zip(batch, encoded, strict=True))
        return np.stack([self._known[mask.tobytes()] for mask in masks])


def _text_rows(run: Run, texts: Sequence[str]) -> Array:
    """Return (n, D) embeddings of texts, each different one encoded once."""
    different = list(dict.fromkeys(texts))
    parts = [
        run.encode_text(different[start : start + TEXTS_AT_ONCE])
        for start in range(0, len(different), TEXTS_AT_ONCE)
    ]
    rows = dict(zip(different, np.concatenate(parts), strict=True))
    return np.stack([rows[text] for text in texts])


def _build(arrays: dict[str, Any], manifest: dict[str, Any]) -> MaskMap:
    facts = manifest["facts"]
    words = [str(word) for word in facts["words"]]
    values = arrays["values"].reshape(len(words), GRID * GRID)
    ways: tuple[Way, ...] = ("masking", COMPARED)
    areas = {way: float(facts["areas"][way]) for way in ways if way in facts["areas"]}
    return MaskMap(HeatMap(words, values, cell_boxes()), areas, int(facts["encoded"]))
