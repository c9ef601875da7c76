"""Anchors against candidates of the other modality, for runs with embeddings or with scores of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coder_core.evaluation.sources import TILE_ELEMENTS, Array, slices

Modality = Literal["image", "text"]
Direction = Literal["i2t", "t2i"]
BOTH: tuple[Modality, Modality] = ("image", "text")
QUERIES: dict[Direction, Modality] = {"i2t": "image", "t2i": "text"}
DIRECTIONS: dict[Direction, str] = {"i2t": "Image → text", "t2i": "Text → image"}


@dataclass(frozen=True)
class Sides:
    """Anchors of one modality against candidates of the other."""

    anchors: Array  # (Q, D) unit rows
    candidates: Array  # (C, D) unit rows
    anchor_images: Array  # (Q,) the image each anchor shows or describes
    candidate_images: Array  # (C,) those of candidates; an anchor's own image is never a negative
    # (Q, C) of a model that scores pair by pair; its anchors and candidates are empty (D = 0)
    scores: Array | None = None

    def tile(self, rows: slice) -> Array:
        """Return (k, C) float32 similarities of some anchors to all candidates, as a copy."""
        if self.scores is not None:
            return np.array(self.scores[rows], dtype=np.float32)
        return np.asarray(np.ascontiguousarray(self.anchors[rows]) @ self.candidates.T)

    def tiles(self, elements: int) -> Iterator[tuple[slice, Array, tuple[Array, Array]]]:
        """Yield similarities in tiles of at most `elements`: rows, tile, and rows and columns of own pairs in it."""
        s = replace(self, candidates=np.ascontiguousarray(self.candidates))
        _, anchor, candidate = self.own_pairs()
        for rows in slices(len(self.anchors), elements // max(len(self.candidates), 1)):
            first, last = np.searchsorted(anchor, (rows.start, rows.stop))
            yield rows, s.tile(rows), (anchor[first:last] - rows.start, candidate[first:last])

    def row(self, anchor: int, candidates: Array | slice = slice(None)) -> Array:
        """Return (k,) float32 similarities of one anchor to some candidates."""
        if self.scores is not None:
            return np.array(self.scores[anchor, candidates], dtype=np.float32)
        return np.asarray(np.asarray(self.candidates[candidates], np.float32) @ self.anchors[anchor])

    def pairs(self, anchors: Array, candidates: Array) -> Array:
        """Return (P,) float32 similarity of each anchor to the candidate at the same position."""
        if self.scores is not None:
            return np.asarray(self.scores[anchors, candidates], dtype=np.float32)
        similarities = np.empty(len(anchors), dtype=np.float32)
        for part in slices(len(anchors), TILE_ELEMENTS // max(1, self.anchors.shape[1])):
            rows = self.anchors[anchors[part]]
            columns = self.candidates[candidates[part]]
            similarities[part] = np.einsum("pd,pd->p", rows, columns)
        return similarities

    def own_pairs(self) -> tuple[Array, Array, Array]:
        """Return pairs of the same image: counts per anchor (Q,), and their anchors, ascending, and candidates (P,)."""
        order = np.argsort(self.candidate_images, kind="stable")
        images = self.candidate_images[order]
        first, last = (np.searchsorted(images, self.anchor_images, side) for side in ("left", "right"))
        count = last - first
        anchor = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(anchor)) - np.repeat(np.cumsum(count) - count, count)
        return count, anchor, order[first[anchor] + within]

    def turned(self) -> Sides:
        """Return the candidates as anchors and the anchors as their candidates."""
        scores = None if self.scores is None else self.scores.T
        return Sides(self.candidates, self.anchors, self.candidate_images, self.anchor_images, scores)

    def among(self, candidates: Array) -> Sides:
        """Return the same anchors against some of the candidates."""
        scores = None if self.scores is None else self.scores[:, candidates]
        images = self.candidate_images[candidates]
        return Sides(self.anchors, self.candidates[candidates], self.anchor_images, images, scores)


def first_captions(image_of_text: Array, images: int) -> Array:
    """Return (n,) the first caption of each image; −1 for an image without captions."""
    first = np.full(images, -1, dtype=np.int64)
    captioned, captions = np.unique(image_of_text, return_index=True)
    first[captioned] = captions
    return first
