"""Local features of pictures: patch tokens or feature-map cells of a pretrained tower, pooled to a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from coder_core.console.faults import InputError
from coder_core.model.towers.own import OwnTowers
from coder_core.model.towers.pretrained import View, load_pretrained

PROBE = Image.new("RGB", (64, 64), "grey")  # shows the shape of what a tower gives
NORMALISED_LATE = ("clip", "clip_vision_model")  # their last layer norm reaches the class token only
WRAP = "wrap it (docs/training.md, Towers)"


class PreparedRegions(NamedTuple):
    """A prepared picture, and the part of it that the tower sees."""

    prepared: Any
    view: View


def boxes(view: View, rows: int, columns: int) -> np.ndarray:
    """(rows · columns, 4) float32: left, top, right, bottom of every cell as shares of the picture's sides."""
    left, top, right, bottom = view
    x, y = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
    cells = [(x[c], y[r], x[c + 1], y[r + 1]) for r in range(rows) for c in range(columns)]
    return np.array(cells, dtype=np.float32)


class RegionTower:
    """Pictures -> a grid of features.

    Args:
        about: description stored with the features, to find the same tower again.
        device: where it computes.
        prepare: of one upright RGB picture, in a worker process.
        view: of a picture of this width and height.
        features: prepared pictures -> (B, rows, columns, F).
        grid: cells a side to pool to; 0 keeps all.

    Raises:
        InputError: the tower gives no grid, or a smaller one.
    """

    def __init__(
        self,
        about: dict[str, Any],
        device: torch.device,
        prepare: Callable[[Image.Image], Any],
        view: Callable[[int, int], View],
        features: Callable[[Sequence[Any]], Tensor],
        grid: int,
    ) -> None:
        self.device, self._features, self._grid = device, features, 0
        self.prepare: Callable[[Image.Image], PreparedRegions] = partial(_prepare, prepare, view)
        _, rows, columns, size = self._compute([self.prepare(PROBE)]).shape
        if grid > min(rows, columns) or grid < 0:
            problem = f"is {grid}; the tower gives {rows} × {columns} cells"
            raise InputError.at("--grid", problem, f"from 1 to {min(rows, columns)}, or 0 for all")
        self._grid, self.size = grid, int(size)
        self.rows, self.columns = (grid, grid) if grid else (int(rows), int(columns))
        shape = {"grid": grid, "rows": self.rows, "columns": self.columns, "size": self.size}
        self.about = about | shape

    @property
    def regions(self) -> int:
        """L: cells of a picture."""
        return self.rows * self.columns

    def _compute(self, pictures: Sequence[PreparedRegions]) -> Tensor:
        with torch.inference_mode():
            grid = self._features([picture.prepared for picture in pictures]).float()
            if not self._grid:
                return grid
            return adaptive_avg_pool2d(grid.permute(0, 3, 1, 2), self._grid).permute(0, 2, 3, 1)

    def encode(self, prepared: Sequence[PreparedRegions]) -> np.ndarray:
        """B prepared pictures -> (B, L, F) float16, row by row of the grid.

        Raises:
            InputError: NaN, Inf, or numbers that float16 cannot hold.
        """
        values = self._compute(prepared).flatten(1, 2).half().cpu().numpy()
        if not np.isfinite(values).all():
            problem = "gives NaN, Inf or numbers above 65,504"
            raise InputError.at("the tower", problem, "finite numbers", "check its weights")
        return np.asarray(values)

    def boxes_of(self, picture: Image.Image) -> np.ndarray:
        """(L, 4) float32 boxes of a picture's regions, see `boxes`."""
        return boxes(self.prepare(picture).view, self.rows, self.columns)

    def encode_picture(self, picture: Image.Image) -> np.ndarray:
        """One upright RGB picture -> (L, F) float32, the numbers that its features file would hold."""
        return self.encode([self.prepare(picture)])[0].astype(np.float32)


def _prepare(
    prepare: Callable[[Image.Image], Any], view: Callable[[int, int], View], picture: Image.Image
) -> PreparedRegions:
    return PreparedRegions(prepare(picture), view(*picture.size))


def transformers_regions(
    name: str,
    *,
    grid: int,
    revision: str = "",
    device: torch.device | str = "cpu",
    precision: str = "bfloat16",
    expected: str = "",
    where: str = "",
) -> RegionTower:
    """The picture tower of any transformers model with patch tokens or a feature map (CLIP, SigLIP, DINOv2, ResNet …).

    Args:
        name, revision, device, precision, expected, where: as for `DualEncoder`.
        grid: as for `RegionTower`.

    Raises:
        InputError: as for `DualEncoder`, or the model gives no grid.
    """
    fix = "restore the model the features were made with"
    loaded = load_pretrained(name, where=where, revision=revision, expected=expected, fix=fix)
    target, prepare = torch.device(device), loaded.preparation
    model = getattr(loaded.model, "vision_model", loaded.model).to(target)
    if set(prepare(PROBE)) != {"pixel_values"}:
        problem = "reads pictures of any shape (NaFlex), which gives no fixed grid"
        raise InputError.at(loaded.where, problem, fix=f"use a model of fixed size, or {WRAP}")
    half = target.type == "cuda" and precision == "bfloat16"
    late_norm = loaded.settings.get("model_type") in NORMALISED_LATE

    def features(prepared: Sequence[dict[str, np.ndarray]]) -> Tensor:
        pixels = torch.from_numpy(np.stack([arrays["pixel_values"] for arrays in prepared])).to(target)
        with torch.autocast(target.type, torch.bfloat16, enabled=half):
            return picture_grid(model, pixels, late_norm, loaded.where)

    used = {"precision": "bfloat16" if half else "float32", "processor": prepare.settings}
    return RegionTower(loaded.about | used, target, prepare, prepare.view, features, grid)


def picture_grid(model: Any, pixels: Tensor, late_norm: bool, where: str) -> Tensor:
    """(B, 3, H, W) pixels -> (B, rows, columns, F): patch tokens without the special ones in front, or a feature map.

    Args:
        model: a picture tower of transformers.
        pixels: of its size.
        late_norm: apply the model's last layer norm to every token.
        where: who names the model, for messages.

    Raises:
        InputError: the model gives neither.
    """
    output = model(pixel_values=pixels).last_hidden_state
    if output.ndim == 4:
        return output.permute(0, 2, 3, 1)
    patch = getattr(model.config, "patch_size", None)
    sides = (patch, patch) if isinstance(patch, int) else tuple(patch or ())
    if output.ndim != 3 or len(sides) != 2:
        problem = f"gives shape {tuple(output.shape)}"
        raise InputError.at(where, problem, "patch tokens or a feature map", WRAP)
    rows, columns = pixels.shape[-2] // sides[0], pixels.shape[-1] // sides[1]
    special = output.shape[1] - rows * columns
    if special < 0:
        problem = f"gives {output.shape[1]} tokens for {rows} × {columns} patches"
        raise InputError.at(where, problem, "a token a patch", WRAP)
    tokens = model.post_layernorm(output) if late_norm else output
    return tokens[:, special:].unflatten(1, (rows, columns))


def own_regions(name: str, *, grid: int, expected: str = "") -> RegionTower:
    """The picture tower of a user's own code: `encode_pictures` gives (B, L, F); `grid` = (rows, columns) says how the
    L lie where they are not a square; `view(width, height)` which part of a picture it sees where not the whole.

    Raises:
        InputError: as for `OwnTowers`, or the L are not a grid.
    """
    towers = OwnTowers(name, expected=expected, texts=False)

    def features(prepared: Sequence[Any]) -> Tensor:
        output = towers.local_features(prepared)
        rows, columns = towers.grid or (isqrt(output.shape[1]),) * 2
        if rows * columns != output.shape[1]:
            problem = f"gives {output.shape[1]} features a picture, not {rows} × {columns}"
            fix = "give the object an attribute grid = (rows, columns)"
            raise InputError.at(f"--tower {name}", problem, "a grid", fix)
        return output.unflatten(1, (rows, columns))

    about = {key: value for key, value in towers.about.items() if key != "prompt"}
    return RegionTower(about, towers.device, towers.prepare, towers.view, features, grid)
