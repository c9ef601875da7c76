"""Plan of the pictures and captions that are computed together.

The blocks follow from the data alone. So neither the number of workers or processes nor a restart changes a shape that
the model computes, and on the CPU not one bit of the result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coder_core.data.captioned.reading import CaptionedSplit

VERSION = 1  # of how blocks are made
BLOCK_ON_CPU = 32


@dataclass(frozen=True)
class Plan:
    """Blocks of images and of captions.

    Args:
        images, texts: the rows of every block, (≤ size,) int64 each. Captions are sorted by length, longest first.
        key: changes with the data, the model and the size of the blocks.
    """

    images: list[np.ndarray]
    texts: list[np.ndarray]
    key: str


def make_plan(split: CaptionedSplit, about: Mapping[str, Any], size: int) -> Plan:
    """The plan of a split.

    Args:
        split: the data.
        about: of the towers.
        size: samples in a block.
    """
    lengths = np.array([len(caption) for caption in split.captions])
    order = np.argsort(-lengths, kind="stable")
    return Plan(_blocks(np.arange(len(split.rows)), size), _blocks(order, size), _key(split, about, size))


def _blocks(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _key(split: CaptionedSplit, about: Mapping[str, Any], size: int) -> str:
    digest = hashlib.sha256(json.dumps([VERSION, size, about], sort_keys=True, default=str).encode())
    for image, name in enumerate(split.image_names):
        state = split.positions.state(int(split.rows[image]))
        digest.update(f"{name}\0{state}\n".encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(split.image_of_text, dtype="<i8").tobytes())
    for caption in split.captions:
        digest.update(f"{caption}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:12]
