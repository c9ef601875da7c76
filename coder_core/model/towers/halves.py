"""The halves of a model that a run trains on: a picture encoder, a text encoder, of transformers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor, nn

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.dual_encoder import Preparation
from coder_core.model.towers.pretrained import (
    Pretrained,
    load_pretrained,
    load_processor,
    load_tokenizer,
    longest_text,
    reading_of,
)
from coder_core.model.towers.regions import NORMALISED_LATE, PROBE, WHOLE, CentreCrop, as_grid, boxes
from coder_core.ops import padding_mask

WRAP = "wrap it (docs/training.md, Towers)"
PATCHWORK = {"pixel_values", "pixel_attention_mask", "spatial_shapes"}  # what NaFlex makes of a picture


@dataclass(frozen=True)
class Wanted:
    """Choice of a tower and of its half.

    Args:
        name: folder or name of a model, or package.module:function.
        place: who names it, for messages: "--image-tower NAME".
        pooled: one vector a sample, as the model pools, instead of all its patches or tokens.
        projected: patches and tokens in the model's joint space, where it projects into one.
        revision: of a name.
        expected: fingerprint that it must have; any when "".
    """

    name: str
    place: str
    pooled: bool
    projected: bool
    revision: str = ""
    expected: str = ""


@dataclass(frozen=True)
class ImageHalf:
    """A picture encoder.

    Args:
        about: what a run notes, to find it again.
        module: (B, 3, H, W), or (B, P, C + 2) of `Patchwork`, and (B,) lengths -> (B, L, F).
        prepare: of one upright RGB picture -> (3, H, W), or (P, C + 2), float32, in worker processes.
        local_features: L.
        size: F.
        counts: B prepared pictures -> (B,) how many of the L each has; all when None.
    """

    about: dict[str, Any]
    module: nn.Module
    prepare: Callable[[Image], np.ndarray]
    local_features: int
    size: int
    counts: Callable[[Tensor], Tensor] | None = None

    def lengths(self, prepared: Tensor) -> Tensor:
        """(B,) local features of B prepared pictures."""
        every = torch.full((len(prepared),), self.local_features)
        return every if self.counts is None else self.counts(prepared)

    def boxes(self, picture: Image) -> np.ndarray | None:
        """(L, 4) float32 left, top, right, bottom of the local features as shares of the picture's sides; None where
        they are no square grid, or a user's own tower does not say what it sees."""
        if isinstance(self.prepare, Patchwork):
            rows, columns = self.prepare(picture)[0, -2:].astype(int).tolist()
            return boxes(WHOLE, rows, columns) if self.local_features > 1 else None
        preparation = getattr(self.prepare, "prepare", None)
        side = isqrt(self.local_features)
        if not isinstance(preparation, Preparation) or side * side != self.local_features:
            return None
        view = CentreCrop(json.loads(preparation.processor.to_json_string()))
        return boxes(view(*picture.size), side, side)


@dataclass(frozen=True)
class TextHalf:
    """A text encoder.

    Args:
        about: what a run notes, to find it again.
        module: (B, T) ids, (B,) lengths -> (B, T, F), or (B, 1, F) where it pools.
        tokenise: texts -> the ids of each, cut to what it reads.
        words: number of ids.
        size: F.
        unknown: the words among some that it cannot tell apart.
        pieces: what each id of a text stands for; "" for special ones.
    """

    about: dict[str, Any]
    module: nn.Module
    tokenise: Callable[[Sequence[str]], list[list[int]]]
    words: int
    size: int
    unknown: Callable[[Sequence[str]], list[str]]
    pieces: Callable[[str], list[str]]


class VisionModule(nn.Module):
    """A picture encoder of transformers: (B, 3, H, W), or (B, P, C + 2) of `Patchwork`, and (B,) -> (B, L, F)."""

    def __init__(self, model: Any, projection: nn.Module | None, late_norm: bool, wanted: Wanted) -> None:
        super().__init__()
        self.model, self.projection = model, projection
        self.late_norm, self.pooled, self.place = late_norm, wanted.pooled, wanted.place

    def forward(self, pixels: Tensor, lengths: Tensor) -> Tensor:
        if flexible := pixels.ndim == 3:
            present, grid = (pixels[..., -1] > 0).long(), pixels[:, 0, -2:].long()
            output = self.model(
                pixel_values=pixels[..., :-2], pixel_attention_mask=present, spatial_shapes=grid
            )
        else:
            output = self.model(pixel_values=pixels)
        if self.pooled:
            features = _pooled(output, self.place)[:, None]
        else:
            features = output.last_hidden_state
            if self.late_norm and features.ndim == 3:
                features = self.model.post_layernorm(features)
            if not flexible:
                features = as_grid(features, pixels.shape[-2:], self.model, self.place).flatten(1, 2)
        return features if self.projection is None else self.projection(features)


class TextModule(nn.Module):
    """A text encoder of transformers: (B, T) ids, (B,) lengths -> (B, T, F), or (B, 1, F) where it pools.

    Args:
        model: reads ids.
        projection: into the joint space, or None.
        padded_to: length that all texts are padded to, without a mask; 0 for a mask.
        pad: the id that pads.
        wanted: of it.
        padded_left: the padding to `padded_to` stands before the text, as some tokenizers of SigLIP 2 write it.
    """

    def __init__(
        self,
        model: Any,
        projection: nn.Module | None,
        padded_to: int,
        pad: int,
        wanted: Wanted,
        padded_left: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.projection, self.padded_to, self.pad = model, projection, padded_to, pad
        self.padded_left = padded_left
        self.pooled, self.place = wanted.pooled, wanted.place
        self.by_head = wanted.projected and not wanted.pooled and _head(model) is not None

    @property
    def size(self) -> int:
        """F."""
        head = _head(self.model) if self.pooled or self.by_head else None
        last = self.projection if self.projection is not None else head
        return last.out_features if isinstance(last, nn.Linear) else int(self.model.config.hidden_size)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        padded = padding_mask(lengths, words.shape[1])
        ids = words.masked_fill(padded, self.pad)
        if self.padded_to:
            ids = nn.functional.pad(ids, (0, self.padded_to - ids.shape[1]), value=self.pad)
            output = self.model(input_ids=ids.gather(1, self._turned(lengths)) if self.padded_left else ids)
        else:
            output = self.model(input_ids=ids, attention_mask=(~padded).long())
        if self.pooled:
            features = _pooled(output, self.place)[:, None]
        else:
            features = output.last_hidden_state
            if self.padded_to and self.padded_left:
                features = features.take_along_dim(self._turned(-lengths)[..., None], dim=1)
            features = features[:, : words.shape[1]]
            features = self.model.head(features) if self.by_head else features
        return features if self.projection is None else self.projection(features)

    def _turned(self, steps: Tensor) -> Tensor:
        """(B, padded_to) positions, so many further round: by its length, a text follows its padding instead."""
        places = torch.arange(self.padded_to, device=steps.device)
        return (places + steps[:, None].to(places)) % self.padded_to


def _head(model: Any) -> nn.Linear | None:
    """SigLIP's projection of texts, which stands inside its text encoder."""
    head = getattr(model, "head", None)
    return head if isinstance(head, nn.Linear) else None


def _pooled(output: Any, place: str) -> Tensor:
    rows = getattr(output, "pooler_output", None)
    if rows is None:
        fix = "choose --image-pooling and --text-pooling gpo, mean or max"
        raise InputError(Fault(place, "has no pooling of its own", "a model that pools", fix))
    pooled: Tensor = rows.flatten(1)
    return pooled


def load_image_half(wanted: Wanted, loaded: Pretrained | None = None) -> ImageHalf:
    """A picture encoder.

    Args:
        wanted: which.
        loaded: its model, where the text encoder is of the same.

    Raises:
        InputError: it is not here, unsafe, another than expected, or reads no pictures.
    """
    loaded = loaded or load_model_of(wanted)
    whole = loaded.model
    prepare = Preparation(load_processor(loaded.folder, wanted.place))
    model = getattr(whole, "vision_model", whole)
    if getattr(model, "main_input_name", "") != "pixel_values":
        problem = f"is a {type(whole).__name__}, which reads no pictures"
        raise InputError(Fault(wanted.place, problem, "", WRAP))
    made = set(prepare(PROBE))
    if made not in ({"pixel_values"}, PATCHWORK):
        problem = f"reads {', '.join(sorted(made))} of a picture"
        raise InputError(Fault(wanted.place, problem, "pixels, or patches (NaFlex)", WRAP))
    projection = getattr(whole, "visual_projection", None) if wanted.pooled or wanted.projected else None
    late = loaded.settings.get("model_type") in NORMALISED_LATE
    module = VisionModule(model, projection, late, wanted).eval()
    if made != PATCHWORK:
        return measured(loaded.about, module, Pixels(prepare))
    half = measured(loaded.about, module, Patchwork(prepare))
    return half if wanted.pooled else replace(half, counts=patch_counts)


def load_text_half(wanted: Wanted, loaded: Pretrained | None = None) -> TextHalf:
    """A text encoder; arguments and errors as for `load_image_half`."""
    loaded = loaded or load_model_of(wanted)
    whole = loaded.model
    tokenizer = load_tokenizer(loaded.folder, wanted.place)
    model = getattr(whole, "text_model", whole)
    if getattr(model, "main_input_name", "") != "input_ids":
        problem = f"is a {type(whole).__name__}, which reads no texts"
        raise InputError(Fault(wanted.place, problem, "", WRAP))
    whole_length, lower = reading_of(loaded.settings, tokenizer)
    longest = longest_text(whole, tokenizer)
    projection = getattr(whole, "text_projection", None)
    if not isinstance(projection, nn.Module) or not (wanted.pooled or wanted.projected):
        projection = None
    pad = tokenizer.pad_token_id or 0
    left = tokenizer.padding_side == "left"
    module = TextModule(model, projection, longest if whole_length else 0, pad, wanted, left).eval()
    about = loaded.about | {"longest": longest, "lower_case": lower}

    def tokenise(texts: Sequence[str]) -> list[list[int]]:
        lowered = [text.lower() for text in texts] if lower else list(texts)
        ids: list[list[int]] = tokenizer(lowered, truncation=True, max_length=longest, verbose=False)[
            "input_ids"
        ]
        return ids

    def unknown(words: Sequence[str]) -> list[str]:
        return [word for word in words if tokenizer.unk_token in tokenizer.tokenize(word)]

    def pieces(text: str) -> list[str]:
        special, names = tokenizer.all_special_tokens, tokenizer.convert_ids_to_tokens(tokenise([text])[0])
        return ["" if name in special else name.removesuffix("</w>") for name in names]

    return TextHalf(about, module, tokenise, len(tokenizer), module.size, unknown, pieces)


def load_model_of(wanted: Wanted) -> Pretrained:
    """The whole model of transformers that a half is of; errors as for `load_pretrained`."""
    return load_pretrained(
        wanted.name,
        place=wanted.place,
        revision=wanted.revision,
        expected=wanted.expected,
        fix=restore(wanted),
    )


def restore(wanted: Wanted) -> str:
    """Advice where a model is not the one that a run noted."""
    flag = wanted.place.split(" ")[0]
    return f"restore the model the run was trained with, or name its folder: --resume RUN {flag} FOLDER"


@dataclass(frozen=True)
class Pixels:
    """Picture -> the one array that a tower reads of it."""

    prepare: Callable[[Image], Any]

    def __call__(self, picture: Image) -> np.ndarray:
        made = self.prepare(picture)
        return np.asarray(made["pixel_values"] if isinstance(made, dict) else made, dtype=np.float32)


@dataclass(frozen=True)
class Patchwork:
    """Picture of any shape -> (P, C + 2) float32: a patch a row, which ends with the rows and columns of patches that
    the picture has; rows of zeros pad to the P of the largest picture (SigLIP 2 NaFlex)."""

    prepare: Callable[[Image], Any]

    def __call__(self, picture: Image) -> np.ndarray:
        made = self.prepare(picture)
        present = np.asarray(made["pixel_attention_mask"])[:, None] > 0
        return np.concatenate(
            [made["pixel_values"], present * made["spatial_shapes"]], axis=1, dtype=np.float32
        )


def patch_counts(prepared: Tensor) -> Tensor:
    """(B, P, C + 2) of `Patchwork` -> (B,) patches that are no padding."""
    return (prepared[..., -1] > 0).sum(dim=1)


def measured(about: dict[str, Any], module: nn.Module, prepare: Callable[[Image], np.ndarray]) -> ImageHalf:
    """An image half whose local features and size are those of its output."""
    pixels = torch.from_numpy(prepare(PROBE))[None]
    with torch.no_grad():
        _, local_features, size = module(pixels, torch.ones(1)).shape
    return ImageHalf(
        about | {"shape": list(pixels.shape[1:])}, module, prepare, int(local_features), int(size)
    )


def weights_fingerprint(module: nn.Module) -> str:
    """The sha256 (hex) of a module's weights."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(f"{name}\0".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()
