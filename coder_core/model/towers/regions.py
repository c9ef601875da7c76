"""Local features of pictures: patch tokens or feature-map cells of a pretrained tower, pooled to a grid; patches in the
joint space of two towers, and their weights in the picture's embedding."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.dual_encoder import DualEncoder
from coder_core.model.towers.own import OwnTowers
from coder_core.model.towers.pretrained import PROBE, View, load_pretrained

NORMALISED_LATE = ("clip", "clip_vision_model")  # they apply the last layer norm only to the class token
WRAP = "wrap it (see Towers in docs/training.md)"
JOINT = "use CLIP or SigLIP, or wrap the towers (docs/training.md)"


class PreparedRegions(NamedTuple):
    """A prepared picture, and the part of the picture that the tower sees."""

    prepared: Any
    view: View


def boxes(view: View, rows: int, columns: int) -> np.ndarray:
    """Return (rows · columns, 4) float32: left, top, right, bottom of every cell as shares of the picture's sides."""
    left, top, right, bottom = view
    x = np.linspace(left, right, columns + 1)
    y = np.linspace(top, bottom, rows + 1)
    cells = [(x[c], y[r], x[c + 1], y[r + 1]) for r in range(rows) for c in range(columns)]
    return np.array(cells, dtype=np.float32)


class RegionTower:
    """Tower that encodes pictures as a grid of features, pooled to `grid` cells per side; 0 keeps all.

    `about`: stored with the features, to find the same tower again. `prepare`: called in worker processes. `features`:
    prepared pictures -> (B, rows, columns, F). InputError: the tower has no grid, or a smaller one.
    """

    def __init__(
        self,
        about: dict[str, Any],
        device: torch.device,
        prepare: Callable[[Image.Image], PreparedRegions],
        features: Callable[[Sequence[Any]], Tensor],
        grid: int,
    ) -> None:
        self.device = device
        self.notes: tuple[Fault, ...] = ()
        self._features = features
        self._grid = 0
        self.prepare = prepare
        _, rows, columns, size = self._compute([self.prepare(PROBE)]).shape
        if grid > min(rows, columns) or grid < 0:
            problem = f"is {grid}; the tower gives {rows} × {columns} cells"
            raise InputError.at("--grid", problem, f"from 1 to {min(rows, columns)}, or 0 for all")
        self._grid = grid
        self.size = int(size)
        self.rows, self.columns = (grid, grid) if grid else (int(rows), int(columns))
        self.about = about | {"grid": grid, "rows": self.rows, "columns": self.columns, "size": self.size}

    @property
    def regions(self) -> int:
        """Number of cells per picture, L."""
        return self.rows * self.columns

    def _compute(self, pictures: Sequence[PreparedRegions]) -> Tensor:
        with torch.inference_mode():
            grid = self._features([picture.prepared for picture in pictures]).float()
            if not self._grid:
                return grid
            return adaptive_avg_pool2d(grid.permute(0, 3, 1, 2), self._grid).permute(0, 2, 3, 1)

    def encode(self, prepared: Sequence[PreparedRegions]) -> np.ndarray:
        """Encode B prepared pictures as (B, L, F) float16, row by row of the grid. InputError: NaN, Inf, or numbers
        beyond the range of float16."""
        values = self._compute(prepared).flatten(1, 2).half().cpu().numpy()
        if not np.isfinite(values).all():
            problem = "gives NaN, Inf or numbers above 65,504"
            raise InputError.at("the tower", problem, "finite numbers", "check its weights")
        return np.asarray(values)

    def boxes_of(self, picture: Image.Image) -> np.ndarray:
        """Return (L, 4) float32 boxes of a picture's regions, see `boxes`."""
        return boxes(self.prepare(picture).view, self.rows, self.columns)

    def encode_picture(self, picture: Image.Image) -> np.ndarray:
        """Encode one upright RGB picture as (L, F) float32, the numbers that a features file would contain."""
        return self.encode([self.prepare(picture)])[0].astype(np.float32)


def _prepare(
    prepare: Callable[[Image.Image], Any], view: Callable[[int, int], View], picture: Image.Image
) -> PreparedRegions:
    return PreparedRegions(prepare(picture), view(*picture.size))


def transformers_regions(
    model: str | ModelChoice, *, grid: int, device: torch.device | str = "cpu", precision: str = "bfloat16"
) -> RegionTower:
    """Load the picture tower of any transformers model with patch tokens or a feature map (CLIP, SigLIP, DINOv2,
    ResNet …). Arguments and errors as for `DualEncoder` and `RegionTower`."""
    loaded = load_pretrained(ModelChoice(model) if isinstance(model, str) else model)
    target = torch.device(device)
    prepare = loaded.preparation
    tower = getattr(loaded.model, "vision_model", loaded.model).to(target)
    if set(prepare(PROBE)) != {"pixel_values"}:
        problem = "reads pictures of any shape (NaFlex), which gives no fixed grid"
        raise InputError.at(loaded.where, problem, fix=f"use a model of fixed size, or {WRAP}")
    half = target.type == "cuda" and precision == "bfloat16"
    late_norm = loaded.settings.get("model_type") in NORMALISED_LATE

    def features(prepared: Sequence[dict[str, np.ndarray]]) -> Tensor:
        pixels = torch.from_numpy(np.stack([arrays["pixel_values"] for arrays in prepared])).to(target)
        with torch.autocast(target.type, torch.bfloat16, enabled=half):
            return picture_grid(tower, pixels, late_norm, loaded.where)

    used = {"precision": "bfloat16" if half else "float32", "processor": prepare.settings}
    prepare_regions = partial(_prepare, prepare, prepare.view)
    regions = RegionTower(loaded.about | used, target, prepare_regions, features, grid)
    regions.notes = loaded.notes
    return regions


def picture_grid(model: Any, pixels: Tensor, late_norm: bool, where: str) -> Tensor:
    """Encode (B, 3, H, W) pixels as (B, rows, columns, F) by a transformers picture tower: its feature map, or its patch
    tokens without the special ones in front, normalised if `late_norm`. InputError: its output is neither."""
    output = model(pixel_values=pixels).last_hidden_state
    if output.ndim == 4:
        return output.permute(0, 2, 3, 1)

    patch = getattr(model.config, "patch_size", None)
    sides = (patch, patch) if isinstance(patch, int) else tuple(patch or ())
    if output.ndim != 3 or len(sides) != 2:
        problem = f"gives shape {tuple(output.shape)}"
        raise InputError.at(where, problem, "patch tokens or a feature map", WRAP)

    rows = pixels.shape[-2] // sides[0]
    columns = pixels.shape[-1] // sides[1]
    special = output.shape[1] - rows * columns
    if special < 0:
        problem = f"gives {output.shape[1]} tokens for {rows} × {columns} patches"
        raise InputError.at(where, problem, "one token per patch", WRAP)

    tokens = model.post_layernorm(output) if late_norm else output
    return tokens[:, special:].unflatten(1, (rows, columns))


def own_regions(name: str, *, grid: int, expected: str = "") -> RegionTower:
    """Load the picture tower of a user's own code, whose `encode_pictures` returns (B, L, F). It defines `grid` = (rows,
    columns) if the L features are not a square, and `view(width, height)` if it sees only part of a picture.
    InputError: as for `OwnTowers`, or the L features are not a grid."""
    towers = OwnTowers(name, expected=expected, texts=False)

    def features(prepared: Sequence[Any]) -> Tensor:
        output = towers.local_features(prepared)
        rows, columns = towers.grid or (isqrt(output.shape[1]),) * 2
        if rows * columns != output.shape[1]:
            problem = f"gives {output.shape[1]} features per picture, not {rows} × {columns}"
            fix = "give the object an attribute grid = (rows, columns)"
            raise InputError.at(f"--tower {name}", problem, "a grid", fix)
        return output.unflatten(1, (rows, columns))

    about = {key: value for key, value in towers.about.items() if key != "prompt"}
    prepare_regions = partial(_prepare, towers.prepare, towers.view)
    return RegionTower(about, towers.device, prepare_regions, features, grid)


class Patches(NamedTuple):
    """The L patches of a picture."""

    features: np.ndarray  # (L, D) float32, in the space of the towers' embeddings; not normalised
    # (L, 4) float32 left, top, right, bottom as shares of the picture's sides; None if they are not a grid
    boxes: np.ndarray | None
    # (L,) float32 attention weights of the patches in the picture's embedding; None if no layer has them
    attention: np.ndarray | None = None


def encode_patches(towers: DualEncoder | OwnTowers, picture: Image.Image) -> Patches:
    """Encode the patches of an upright RGB picture.

    CLIP: in the last layer every patch attends only to itself (attention = identity; its values pass through the rest
    of the layer); the last layer norm and the projection follow: MaskCLIP, Zhou et al. 2022 (arXiv:2112.01071),
    section 3.2. The attention is that of the class token in the last layer, averaged over the heads: Caron et al. 2021
    (DINO), figure 1. SigLIP: its attention-pooling head is applied to each patch alone, and the attention is the
    head's. Own towers: the L features of `encode_pictures`, whose mean is the picture's embedding. InputError: the
    model has another architecture, or accepts pictures of any shape.
    """
    inputs = towers.prepare(picture)
    if isinstance(towers, OwnTowers):
        features = towers.local_features([inputs])[0]
        rows, columns = towers.grid or (isqrt(len(features)),) * 2
        is_grid = rows * columns == len(features)
        view = towers.view(*picture.size)
        return Patches(as_array(features), boxes(view, rows, columns) if is_grid else None)

    where = str(towers.about["model"])
    vision = getattr(towers.model, "vision_model", None)
    side: Any = getattr(getattr(vision, "embeddings", None), "patch_size", None)
    if set(inputs) != {"pixel_values"} or side is None:
        raise InputError.at(where, "gives no fixed grid of patches", "a model of fixed size", JOINT)

    pixels = torch.from_numpy(inputs["pixel_values"][None]).to(towers.device)
    projection = getattr(towers.model, "visual_projection", None)
    with torch.inference_mode():
        joint = joint_patches(vision, projection, pixels, where)

    view = towers.preparation.view(*picture.size)
    return Patches(
        as_array(joint.features), boxes(view, joint.rows, joint.columns), as_array(joint.attention)
    )


class JointPatches(NamedTuple):
    """The patches of a picture in the joint space, (L, D), their attention, (L,), and the L = rows × columns cells."""

    features: Tensor
    attention: Tensor
    rows: int
    columns: int


def joint_patches(vision: Any, projection: nn.Module | None, pixels: Tensor, where: str) -> JointPatches:
    """Encode the patches of (1, 3, H, W) pixels by a vision tower of CLIP, with its projection, or of SigLIP, as
    `encode_patches` does. InputError: the model has another architecture."""
    side = getattr(getattr(vision, "embeddings", None), "patch_size", None)
    if hasattr(vision, "head") and side is not None:
        features, attention = _with_head(vision, pixels)
    elif projection is not None and side is not None:
        features, attention = _with_class_token(vision, projection, pixels)
    else:
        raise InputError.at(where, "does not define how its patches enter the joint space", "", JOINT)
    rows = pixels.shape[-2] // side
    columns = pixels.shape[-1] // side
    if len(features) != rows * columns:
        problem = f"gives {len(features)} patches for {rows} × {columns} cells"
        raise InputError.at(where, problem, "one patch per cell", JOINT)
    return JointPatches(features, attention, rows, columns)


def _with_class_token(vision: Any, projection: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (L, D) features and (L,) attention of a tower that embeds by a class token; recompute its last layer."""
    with _eager(vision):
        output = vision(pixel_values=pixels, output_attentions=True, output_hidden_states=True)
    layer = vision.encoder.layers[-1]
    tokens = output.hidden_states[-2][0]
    tokens = tokens + layer.self_attn.out_proj(layer.self_attn.v_proj(layer.layer_norm1(tokens)))
    tokens = tokens + layer.mlp(layer.layer_norm2(tokens))
    return projection(vision.post_layernorm(tokens[1:])), output.attentions[-1][0, :, 0, 1:].mean(0)


def _with_head(vision: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (L, D) features and (L,) attention of a tower that embeds by an attention-pooling head."""
    tokens = vision(pixel_values=pixels).last_hidden_state
    attention = vision.head.attention(vision.head.probe, tokens, tokens, need_weights=True)[1][0, 0]
    return vision.head(tokens[0][:, None]), attention


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Use eager attention, which can return its weights; the faster kernels cannot."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def as_array(rows: Tensor) -> np.ndarray:
    """Return a tensor as a float32 array on the CPU."""
    return np.asarray(rows.detach().float().cpu().numpy())
