"""Local features of pictures: patch tokens or feature-map cells of a pretrained tower, pooled to a grid."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.dual_encoder import Preparation
from coder_core.model.towers.own import OwnTowers
from coder_core.model.towers.pretrained import load_pretrained, load_processor

PROBE = Image.new("RGB", (64, 64), "grey")  # tells the shape of what a tower gives
NORMALISED_LATE = ("clip", "clip_vision_model")  # their last layer norm reaches the class token only
View = tuple[float, float, float, float]
WHOLE: View = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class PreparedRegions:
    """A prepared picture, and which part of it the tower sees: left, top, right, bottom as shares of its sides."""

    prepared: Any
    view: View


@dataclass(frozen=True)
class PreparationWithView:
    """Prepare a picture and note which part of it the tower sees.

    Args:
        prepare: of the tower.
        view: of a picture of this width and height.
    """

    prepare: Callable[[Image.Image], Any]
    view: Callable[[int, int], View]

    def __call__(self, picture: Image.Image) -> PreparedRegions:
        return PreparedRegions(self.prepare(picture), self.view(*picture.size))


@dataclass(frozen=True)
class CentreCrop:
    """The view of an image processor: its settings say whether the middle of the picture is cut out."""

    settings: dict[str, Any]

    def __call__(self, width: int, height: int) -> View:
        """Shares of a picture of this size."""
        crop, size = self.settings.get("crop_size"), self.settings.get("size") or {}
        if not self.settings.get("do_center_crop") or not isinstance(crop, dict):
            return WHOLE
        short = size.get("shortest_edge")
        if self.settings.get("do_resize") and short:
            scale = short / min(width, height)
            resized = width * scale, height * scale
        elif self.settings.get("do_resize"):
            resized = float(size.get("width", width)), float(size.get("height", height))
        else:
            resized = float(width), float(height)
        wide, high = min(1.0, crop["width"] / resized[0]), min(1.0, crop["height"] / resized[1])
        return (1 - wide) / 2, (1 - high) / 2, (1 + wide) / 2, (1 + high) / 2


def boxes(view: View, rows: int, columns: int) -> np.ndarray:
    """(rows · columns, 4) float32: left, top, right, bottom of every cell as shares of the picture's sides."""
    left, top, right, bottom = view
    x, y = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
    cells = [(x[c], y[r], x[c + 1], y[r + 1]) for r in range(rows) for c in range(columns)]
    return np.array(cells, dtype=np.float32)


class RegionTower:
    """Pictures -> a grid of features.

    Args:
        about: what a run notes, to find the same tower again.
        device: where it computes.
        prepare: of one upright RGB picture, in a worker process.
        features: prepared pictures -> (B, rows, columns, F).
        grid: cells a side to pool to; 0 keeps all.

    Raises:
        InputError: the tower gives no grid, or a smaller one.
    """

    def __init__(
        self,
        about: dict[str, Any],
        device: torch.device,
        prepare: Callable[[Image.Image], PreparedRegions],
        features: Callable[[Sequence[Any]], Tensor],
        grid: int,
    ) -> None:
        self.device, self.prepare, self._features, self._grid = device, prepare, features, 0
        _, rows, columns, self.size = self._compute([prepare(PROBE)]).shape
        if grid > min(rows, columns) or grid < 0:
            expected = f"from 1 to {min(rows, columns)}, or 0 for all"
            raise InputError(
                Fault("--grid", f"is {grid}; the tower gives {rows} × {columns} cells", expected)
            )
        self._grid = grid
        self.rows, self.columns = (grid, grid) if grid else (int(rows), int(columns))
        self.about = about | {
            "grid": grid,
            "rows": self.rows,
            "columns": self.columns,
            "size": int(self.size),
        }

    @property
    def regions(self) -> int:
        """L: cells of a picture."""
        return self.rows * self.columns

    def _compute(self, prepared: Sequence[PreparedRegions]) -> Tensor:
        with torch.inference_mode():
            grid = self._features([one.prepared for one in prepared]).float()
            if self._grid:
                grid = nn.functional.adaptive_avg_pool2d(grid.permute(0, 3, 1, 2), self._grid).permute(
                    0, 2, 3, 1
                )
            return grid

    def encode(self, prepared: Sequence[PreparedRegions]) -> np.ndarray:
        """B prepared pictures -> (B, L, F) float16, row by row of the grid.

        Raises:
            InputError: NaN, Inf, or numbers that float16 cannot hold.
        """
        values = self._compute(prepared).flatten(1, 2).half().cpu().numpy()
        if not np.isfinite(values).all():
            fault = Fault(
                "the tower", "gives NaN, Inf or numbers above 65,504", "finite numbers", "check its weights"
            )
            raise InputError(fault)
        return np.asarray(values)

    def boxes_of(self, picture: Image.Image) -> np.ndarray:
        """(L, 4) float32 boxes of a picture's regions, see `boxes`."""
        return boxes(self.prepare(picture).view, self.rows, self.columns)

    def encode_picture(self, picture: Image.Image) -> np.ndarray:
        """One upright RGB picture -> (L, F) float32, the numbers that its features file would hold."""
        return self.encode([self.prepare(picture)])[0].astype(np.float32)


def transformers_regions(
    name: str,
    *,
    grid: int,
    revision: str = "",
    device: torch.device | str = "cpu",
    precision: str = "bfloat16",
    expected: str = "",
    place: str = "",
) -> RegionTower:
    """The picture tower of any transformers model with patch tokens or a feature map (CLIP, SigLIP, DINOv2, ResNet …).

    Args:
        name, revision, device, precision, expected, place: as for `DualEncoder`.
        grid: as for `RegionTower`.

    Raises:
        InputError: as for `DualEncoder`, or the model gives no grid.
    """
    fix = "restore the model the features were made with"
    loaded = load_pretrained(name, place=place, revision=revision, expected=expected, fix=fix)
    place, target = loaded.place, torch.device(device)
    processor = load_processor(loaded.folder, place)
    model = getattr(loaded.model, "vision_model", loaded.model).to(target)
    prepare = Preparation(processor)
    if set(prepare(PROBE)) != {"pixel_values"}:
        fix = "use a model of fixed size, or wrap it (docs/training.md)"
        raise InputError(
            Fault(place, "reads pictures of any shape (NaFlex), which gives no fixed grid", fix=fix)
        )
    half = target.type == "cuda" and precision == "bfloat16"

    def features(prepared: Sequence[dict[str, np.ndarray]]) -> Tensor:
        pixels = torch.from_numpy(np.stack([one["pixel_values"] for one in prepared])).to(target)
        with torch.autocast(target.type, torch.bfloat16, enabled=half):
            output = model(pixel_values=pixels).last_hidden_state
            if loaded.settings.get("model_type") in NORMALISED_LATE and output.ndim == 3:
                output = model.post_layernorm(output)
        return as_grid(output, pixels.shape[-2:], model, place)

    about = loaded.about | {
        "precision": "bfloat16" if half else "float32",
        "processor": json.loads(processor.to_json_string()),
    }
    view = CentreCrop(about["processor"])
    return RegionTower(about, target, PreparationWithView(prepare, view), features, grid)


def as_grid(output: Tensor, pixels: Sequence[int], model: Any, place: str) -> Tensor:
    """(B, T, F) tokens or a (B, F, rows, columns) map -> (B, rows, columns, F); special tokens in front are dropped."""
    if output.ndim == 4:
        return output.permute(0, 2, 3, 1)
    patch = getattr(model.config, "patch_size", None)
    sides = (patch, patch) if isinstance(patch, int) else tuple(patch or ())
    if output.ndim != 3 or len(sides) != 2:
        fix = "wrap it (docs/training.md)"
        raise InputError(
            Fault(place, f"gives shape {tuple(output.shape)}", "patch tokens or a feature map", fix)
        )
    rows, columns = pixels[0] // sides[0], pixels[1] // sides[1]
    special = output.shape[1] - rows * columns
    if special < 0:
        problem = f"gives {output.shape[1]} tokens for {rows} × {columns} patches"
        raise InputError(Fault(place, problem, "a token a patch", "wrap it (docs/training.md)"))
    return output[:, special:].unflatten(1, (rows, columns))


def own_regions(name: str, *, grid: int, expected: str = "") -> RegionTower:
    """The picture tower of a user's own code: `encode_pictures` gives (B, L, F); `grid` = (rows, columns) says how the
    L lie, where they are no square; `view(width, height)` which part of a picture it sees, where it is not the whole.

    Raises:
        InputError: as for `OwnTowers`, or the L are no grid.
    """
    towers = OwnTowers(name, expected=expected, texts=False)

    def features(prepared: Sequence[Any]) -> Tensor:
        output = towers.local_features(prepared)
        length = output.shape[1]
        rows, columns = towers.option("grid") or (isqrt(length), isqrt(length))
        if rows * columns != length:
            problem = f"gives {length} features a picture, not {rows} × {columns}"
            fix = "give the object an attribute grid = (rows, columns)"
            raise InputError(Fault(f"--tower {name}", problem, "a grid", fix))
        return output.unflatten(1, (rows, columns))

    view = towers.option("view") or _whole
    prepare = PreparationWithView(towers.prepare, view)
    about = {key: value for key, value in towers.about.items() if key != "prompt"}
    return RegionTower(about, towers.device, prepare, features, grid)


def _whole(width: int, height: int) -> View:
    return WHOLE
