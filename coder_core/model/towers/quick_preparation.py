"""Prepare pixels for a tower with PyTorch's kernels, in a fifth of the time of a transformers image processor.

The usual processors scale a picture, crop its center and normalize each channel. PyTorch scales uint8 pixels with the
same filter as Pillow in integers, several times as fast; a few results differ by 1 or 2 of 255. The rest is the same to the
last bit. Whether that holds for a processor is tried on a picture when its tower is loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from coder_core.model.towers.pretrained import Preparation

FILTERS = {Image.Resampling.BILINEAR: "bilinear", Image.Resampling.BICUBIC: "bicubic"}
LEVELS = 256  # of a channel
MOST_LEVELS_APART = 2  # that a scaled pixel may differ from Pillow's
TRIED = (120, 90)  # width and height of the picture on which a preparation is tried


@dataclass(frozen=True)
class QuickPreparation:
    """Preparation of (height, width, 3) uint8 pixels: (3, H, W) float32."""

    size: tuple[int, ...]  # of the shorter side, or height and width, to which a picture is scaled
    crop: tuple[int, int] | None  # height and width of the center that is kept; None keeps all
    filter: str  # of `interpolate`
    mean: Tensor  # (3, 1, 1) float32, of the pixels as shares of 255
    deviation: Tensor  # (3, 1, 1) float32

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        channels_last = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))
        height, width, _ = pixels.shape
        scaled = interpolate(
            channels_last.permute(2, 0, 1)[None],
            size=self._scaled_size(height, width),
            mode=self.filter,
            antialias=True,
        )
        center = self._center(scaled[0])
        values = center.to(torch.float32, memory_format=torch.contiguous_format).div_(LEVELS - 1)
        return np.asarray(values.sub_(self.mean).div_(self.deviation).numpy())

    def _scaled_size(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width after scaling, rounded as transformers does."""
        if len(self.size) == 2:
            return self.size[0], self.size[1]
        shorter = self.size[0]
        longer = int(shorter * max(height, width) / min(height, width))
        return (shorter, longer) if height <= width else (longer, shorter)

    def _center(self, pixels: Tensor) -> Tensor:
        if self.crop is None:
            return pixels
        _, height, width = pixels.shape
        top = (height - self.crop[0]) // 2
        left = (width - self.crop[1]) // 2
        return pixels[:, top : top + self.crop[0], left : left + self.crop[1]]


def quick_preparation(preparation: Preparation) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a quick form of an image processor; None if it does anything else, or its results differ by more than
    rounding."""
    quick = _read(preparation.settings)
    if quick is None:
        return None
    width, height = TRIED
    picture = np.random.default_rng(0).integers(0, LEVELS, (height, width, 3), dtype=np.uint8)
    for pixels in (picture, picture.transpose(1, 0, 2)):
        expected = preparation(Image.fromarray(np.ascontiguousarray(pixels)))["pixel_values"]
        actual = quick(pixels)
        if actual.shape != expected.shape:
            return None
        apart = np.abs(actual - expected) * quick.deviation.numpy() * (LEVELS - 1)
        if apart.max() > MOST_LEVELS_APART + 0.01:
            return None
    return quick


def _read(settings: dict[str, Any]) -> QuickPreparation | None:
    """Read the settings of an image processor; None if it does anything else than scale, crop and normalize."""
    steps = ("do_resize", "do_rescale", "do_normalize")
    if not all(settings.get(step) for step in steps) or settings.get("do_pad"):
        return None

    size = settings.get("size") or {}
    if size.keys() == {"shortest_edge"}:
        sides: tuple[int, ...] = (size["shortest_edge"],)
    elif size.keys() == {"height", "width"}:
        sides = (size["height"], size["width"])
    else:
        return None

    filter_name = FILTERS.get(settings.get("resample", -1))
    if filter_name is None:
        return None

    crop = None
    if settings.get("do_center_crop"):
        of_crop = settings.get("crop_size") or {}
        if of_crop.keys() != {"height", "width"}:
            return None
        crop = of_crop["height"], of_crop["width"]

    mean = torch.tensor(settings["image_mean"], dtype=torch.float32).view(-1, 1, 1)
    deviation = torch.tensor(settings["image_std"], dtype=torch.float32).view(-1, 1, 1)
    if len(mean) != 3 or len(deviation) != 3:
        return None

    return QuickPreparation(sides, crop, filter_name, mean, deviation)
