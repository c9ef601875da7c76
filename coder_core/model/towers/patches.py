"""The patches of one picture in the joint space of its towers, and how much the picture's embedding reads of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor, nn

from coder_core.console.faults import InputError
from coder_core.model.towers.dual_encoder import DualEncoder
from coder_core.model.towers.own import OwnTowers
from coder_core.model.towers.regions import boxes

FIX = "use CLIP or SigLIP, or wrap the towers (docs/training.md)"


@dataclass(frozen=True)
class Patches:
    """The L patches of a picture.

    Args:
        features: (L, D) float32, in the space of the towers' embeddings; not of length 1.
        boxes: (L, 4) float32 left, top, right, bottom as shares of the picture's sides; None where they are not a grid.
        attention: (L,) float32 weights with which the picture's embedding reads the patches; None where no layer
            has them.
    """

    features: np.ndarray
    boxes: np.ndarray | None
    attention: np.ndarray | None = None


def encode_patches(towers: DualEncoder | OwnTowers, picture: Image) -> Patches:
    """The patches of an upright RGB picture.

    CLIP: the last layer lets every patch read itself alone (attention = identity; its values pass through the rest of
    the layer), then come the last layer norm and the projection: MaskCLIP, Zhou et al. 2022 (arXiv:2112.01071),
    section 3.2. The attention is that of the class token in the last layer, the mean of its heads: Caron et al. 2021
    (DINO), figure 1. SigLIP: its attention-pooling head reads each patch alone, and the attention is that of the head.
    Own towers: the L features of `encode_pictures`, whose mean is their embedding.

    Raises:
        InputError: the model is built otherwise, or reads pictures of any shape.
    """
    inputs = towers.prepare(picture)
    if isinstance(towers, OwnTowers):
        features = towers.local_features([inputs])[0]
        rows, columns = towers.grid or (isqrt(len(features)),) * 2
        is_grid = rows * columns == len(features)
        view = towers.view(*picture.size)
        return Patches(_array(features), boxes(view, rows, columns) if is_grid else None)
    where, vision = str(towers.about["model"]), getattr(towers.model, "vision_model", None)
    side: Any = getattr(getattr(vision, "embeddings", None), "patch_size", None)
    if set(inputs) != {"pixel_values"} or side is None:
        raise InputError.at(where, "gives no fixed grid of patches", "a model of fixed size", FIX)
    pixels = torch.from_numpy(inputs["pixel_values"][None]).to(towers.device)
    projection = getattr(towers.model, "visual_projection", None)
    with torch.inference_mode():
        if hasattr(vision, "head"):
            features, attention = _with_head(vision, pixels)
        elif projection is not None:
            features, attention = _with_class_token(vision, projection, pixels)
        else:
            raise InputError.at(where, "does not say how its patches enter the joint space", "", FIX)
    rows, columns = pixels.shape[-2] // side, pixels.shape[-1] // side
    if len(features) != rows * columns:
        problem = f"gives {len(features)} patches for {rows} × {columns} cells"
        raise InputError.at(where, problem, "a patch a cell", FIX)
    view = towers.preparation.view(*picture.size)
    return Patches(_array(features), boxes(view, rows, columns), _array(attention))


def _with_class_token(vision: Any, projection: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """(L, D) and (L,) of a tower whose embedding is its class token; its last layer is computed once more."""
    with _eager(vision):
        output = vision(pixel_values=pixels, output_attentions=True, output_hidden_states=True)
    layer, tokens = vision.encoder.layers[-1], output.hidden_states[-2][0]
    values = layer.self_attn.v_proj(layer.layer_norm1(tokens))
    tokens = tokens + layer.self_attn.out_proj(values)
    tokens = tokens + layer.mlp(layer.layer_norm2(tokens))
    return projection(vision.post_layernorm(tokens[1:])), output.attentions[-1][0, :, 0, 1:].mean(0)


def _with_head(vision: Any, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """(L, D) and (L,) of a tower whose embedding is what its head reads of the patches."""
    tokens = vision(pixel_values=pixels).last_hidden_state
    attention = vision.head.attention(vision.head.probe, tokens, tokens, need_weights=True)[1][0, 0]
    return vision.head(tokens[0][:, None]), attention


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Attention computed so that its weights are returned; the faster kernels keep them to themselves."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _array(rows: Tensor) -> np.ndarray:
    return np.asarray(rows.detach().float().cpu().numpy())
