"""Halves of a pretrained model, as used in runs: picture or text encoders, from transformers or a user's own code."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL.Image import Image, fromarray
from torch import Tensor, nn

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.own import NAME, load_own, local_rows
from coder_core.model.towers.pretrained import PROBE, WHOLE, Pretrained, Tokeniser, load_pretrained
from coder_core.model.towers.quick_preparation import quick_preparation
from coder_core.model.towers.regions import (
    NORMALISED_LATE,
    WRAP,
    JointPatches,
    boxes,
    joint_patches,
    picture_grid,
)
from coder_core.ops import padding_mask

PATCHWORK = {"pixel_values", "pixel_attention_mask", "spatial_shapes"}  # NaFlex inputs of a picture
EXAMPLE = "the section Towers of docs/training.md shows an example"
POOLER = "pooler."  # prefix of BERT weights that many checkpoints lack


@dataclass(frozen=True)
class TowerChoice:
    """Choice of a tower and the form of its features; its model may be a user's package.module:function."""

    model: ModelChoice
    pooled: bool  # one vector per sample, pooled by the model, instead of all its patches or tokens
    projected: bool  # patches and tokens in the model's joint space, if it has one

    @property
    def where(self) -> str:
        """Place of its faults."""
        return self.model.where

    @property
    def is_own(self) -> bool:
        """True if it names a user's function."""
        return bool(NAME.fullmatch(self.model.name)) and not Path(self.model.name).exists()

    def load(self, *, pictures: bool = True) -> Pretrained:
        """Load the whole model from transformers; without `pictures` it may be a text-only model. Errors as for
        `load_pretrained`."""
        unread = "" if pictures or self.pooled else POOLER
        return load_pretrained(self.model, pictures=pictures, unread=unread)


@dataclass(frozen=True)
class ImageHalf:
    """A picture encoder."""

    about: dict[str, Any]  # description stored with a run, to find it again
    module: nn.Module  # (B, 3, H, W), or (B, P, C + 2) of `_patchwork`, and (B,) lengths -> (B, L, F)
    # upright RGB picture -> (3, H, W) or (P, C + 2) float32; called in worker processes
    prepare: Callable[[Image], np.ndarray]
    local_features: int  # L
    size: int  # F
    # B prepared pictures -> (B,) number of local features of each; None: L for all
    counts: Callable[[Tensor], Tensor] | None = None
    # picture -> (L, 4) float32 left, top, right, bottom of the local features as shares of its sides; None
    # if they are not a square grid, or for a user's own tower, whose view is unknown
    boxes_of: Callable[[Image], np.ndarray] | None = None
    notes: tuple[Fault, ...] = ()  # what was guessed or left out when it was loaded
    # (height, width, 3) uint8 pixels -> as `prepare`, up to the rounding of its resizing; None calls `prepare`
    quick: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def prepare_pixels(self) -> Callable[[np.ndarray], np.ndarray]:
        """Preparation of (height, width, 3) uint8 pixels of an upright RGB picture; called in worker processes."""
        return self.quick or partial(_prepare_pixels, self.prepare)

    def lengths(self, prepared: Tensor) -> Tensor:
        """Return (B,) numbers of local features of B prepared pictures."""
        every = torch.full((len(prepared),), self.local_features)
        return every if self.counts is None else self.counts(prepared)

    def boxes(self, picture: Image) -> np.ndarray | None:
        """Return the boxes of the local features, see `boxes_of`."""
        return None if self.boxes_of is None else self.boxes_of(picture)


class OwnTokeniser:
    """Tokeniser by a user's object: its method `tokenise` and, optionally, its attribute `words`, the number of ids."""

    def __init__(self, user: Any) -> None:
        self._tokenise = user.tokenise
        self._words = int(getattr(user, "words", 0)) or 1

    def __len__(self) -> int:
        return self._words

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        return [[int(number) for number in numbers] for numbers in self._tokenise(list(texts))]

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Return []: the user's object does not report unknown words."""
        return []

    def pieces(self, text: str) -> list[str]:
        """Return each id of a text as a string."""
        return [str(number) for number in self([text])[0]]


@dataclass(frozen=True)
class TextHalf:
    """A text encoder."""

    about: dict[str, Any]  # as in `ImageHalf`
    module: nn.Module  # (B, T) ids, (B,) lengths -> (B, T, F), or (B, 1, F) if it pools
    tokenise: Tokeniser | OwnTokeniser  # texts -> the ids of each, truncated to the encoder's limit
    size: int  # F
    notes: tuple[Fault, ...] = ()  # as in `ImageHalf`


class VisionModule(nn.Module):
    """A picture encoder of transformers: (B, 3, H, W), or (B, P, C + 2) of `_patchwork`, and (B,) -> (B, L, F)."""

    def __init__(
        self, model: Any, projection: nn.Module | None, late_norm: bool, choice: TowerChoice
    ) -> None:
        super().__init__()
        self.model = model
        self.projection = projection
        self.late_norm = late_norm
        self.pooled = choice.pooled
        self.where = choice.where

    def forward(self, pixels: Tensor, lengths: Tensor) -> Tensor:
        if pixels.ndim == 3:
            mask = (pixels[..., -1] > 0).long()
            shapes = pixels[:, 0, -2:].long()
            patches = pixels[..., :-2]
            output = self.model(pixel_values=patches, pixel_attention_mask=mask, spatial_shapes=shapes)
            features = _pooled(output, self.where) if self.pooled else output.last_hidden_state
        elif self.pooled:
            features = _pooled(self.model(pixel_values=pixels), self.where)
        else:
            features = picture_grid(self.model, pixels, self.late_norm, self.where).flatten(1, 2)
        return features if self.projection is None else self.projection(features)

    def patches(self, pixels: Tensor) -> JointPatches:
        """Encode the patches of one picture, (1, 3, H, W), of a tower that pools, in the space of its vectors.
        InputError: the model does not define them, or takes pictures of any shape."""
        if pixels.ndim != 4:
            raise InputError.at(self.where, "gives no fixed grid of patches", "a model of fixed size")
        return joint_patches(self.model, self.projection, pixels, self.where)


class Padding(NamedTuple):
    """How a text encoder expects its texts to be padded."""

    pad: int  # id of the padding
    padded_to: (
        int  # length of all texts, which are then used without a mask; 0: the longest of a batch, with a mask
    )
    left: bool  # before the text if all have one length, as some SigLIP 2 tokenizers do


class TextModule(nn.Module):
    """A text encoder of transformers: (B, T) ids, (B,) lengths -> (B, T, F), or (B, 1, F) if it pools."""

    def __init__(
        self, model: Any, projection: nn.Module | None, padding: Padding, choice: TowerChoice
    ) -> None:
        super().__init__()
        self.model = model
        self.projection = projection
        self.pad = padding.pad
        self.padded_to = padding.padded_to
        self.padded_left = padding.left
        self.pooled = choice.pooled
        self.where = choice.where
        self.by_head = choice.projected and not choice.pooled and _head(model) is not None

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
            output = self.model(input_ids=ids.gather(1, self._rotated(lengths)) if self.padded_left else ids)
        else:
            output = self.model(input_ids=ids, attention_mask=(~padded).long())

        if self.pooled:
            features = _pooled(output, self.where)
        else:
            features = output.last_hidden_state
            if self.padded_to and self.padded_left:
                features = features.take_along_dim(self._rotated(-lengths)[..., None], dim=1)
            features = features[:, : words.shape[1]]
            features = self.model.head(features) if self.by_head else features

        return features if self.projection is None else self.projection(features)

    def _rotated(self, steps: Tensor) -> Tensor:
        """Return (B, padded_to) positions rotated by `steps`: a text's length moves its padding to the front."""
        positions = torch.arange(self.padded_to, device=steps.device)
        return (positions + steps[:, None].to(positions)) % self.padded_to


class OwnModule(nn.Module):
    """A user's encoder with its output as (B, L, F), or (B, 1, F) if it pools; `lengths` passes lengths to it."""

    def __init__(self, module: nn.Module, where: str, *, lengths: bool = False) -> None:
        super().__init__()
        self.module = module
        self.where = where
        self.reads_lengths = lengths

    def forward(self, samples: Tensor, lengths: Tensor) -> Tensor:
        features: Tensor = self.module(samples, lengths) if self.reads_lengths else self.module(samples)
        return local_rows(features, len(samples), "samples", self.where)


def _head(model: Any) -> nn.Linear | None:
    """Return SigLIP's projection of texts, a layer inside its text encoder, or None."""
    head = getattr(model, "head", None)
    return head if isinstance(head, nn.Linear) else None


def _pooled(output: Any, where: str) -> Tensor:
    """Return the model's pooled vectors, (B, 1, F). InputError: it has none."""
    rows = getattr(output, "pooler_output", None)
    if rows is None:
        fix = "choose --image-pooling and --text-pooling gpo, mean or max"
        raise InputError.at(where, "has no pooling of its own", "a model that pools", fix)
    return rows.flatten(1)[:, None]


def load_halves(
    image: TowerChoice | None, text: TowerChoice | None
) -> tuple[ImageHalf | None, TextHalf | None]:
    """Load a picture encoder and a text encoder; a transformers model chosen for both is loaded only once.
    InputError: a tower is not on this machine, unsafe, not the expected one, or not an encoder of that kind."""
    loaded = image.load() if image is not None and not image.is_own else None
    image_half = text_half = None
    if image is not None:
        image_half = _own_image_half(image) if loaded is None else _image_half(image, loaded)
    if text is not None and text.is_own:
        text_half = _own_text_half(text)
    elif text is not None:
        is_same = image is not None and image.model.same_as(text.model)
        text_half = _text_half(text, loaded if loaded is not None and is_same else text.load(pictures=False))
    return image_half, text_half


def _image_half(choice: TowerChoice, loaded: Pretrained) -> ImageHalf:
    whole = loaded.model
    preparation = loaded.preparation
    model = getattr(whole, "vision_model", whole)
    if getattr(model, "main_input_name", "") != "pixel_values":
        problem = f"is a {type(whole).__name__}, which does not take pictures"
        raise InputError.at(choice.where, problem, "", WRAP)

    inputs = set(preparation(PROBE))
    if inputs not in ({"pixel_values"}, PATCHWORK):
        problem = f"takes {', '.join(sorted(inputs))} as its input for a picture"
        raise InputError.at(choice.where, problem, "pixels, or patches (NaFlex)", WRAP)

    projection = getattr(whole, "visual_projection", None) if choice.pooled or choice.projected else None
    late_norm = loaded.settings.get("model_type") in NORMALISED_LATE
    module = VisionModule(model, projection, late_norm, choice).eval()
    if inputs == PATCHWORK:
        prepare: Callable[[Image], np.ndarray] = partial(_patchwork, preparation)
        half = replace(_measured(loaded.about, module, prepare), notes=loaded.notes)
        if choice.pooled:
            return half
        return replace(half, counts=_patch_counts, boxes_of=partial(_patchwork_boxes, prepare))

    half = _measured(loaded.about, module, partial(_pixels, preparation))
    half = replace(half, notes=loaded.notes, quick=quick_preparation(preparation))
    side = isqrt(half.local_features)
    if side * side != half.local_features:
        return half

    return replace(half, boxes_of=lambda picture: boxes(preparation.view(*picture.size), side, side))


def _text_half(choice: TowerChoice, loaded: Pretrained) -> TextHalf:
    whole = loaded.model
    tokenise = loaded.tokeniser
    model = getattr(whole, "text_model", whole)
    if getattr(model, "main_input_name", "") != "input_ids":
        raise InputError.at(choice.where, f"is a {type(whole).__name__}, which does not take texts", "", WRAP)

    projection = getattr(whole, "text_projection", None)
    if not isinstance(projection, nn.Module) or not (choice.pooled or choice.projected):
        projection = None

    padding = Padding(
        pad=tokenise.tokenizer.pad_token_id or 0,
        padded_to=tokenise.longest if loaded.padded_whole else 0,
        left=tokenise.tokenizer.padding_side == "left",
    )
    module = TextModule(model, projection, padding, choice).eval()
    about = loaded.about | {"longest": tokenise.longest, "lower_case": tokenise.lower_case}
    return TextHalf(about, module, tokenise, module.size, loaded.notes)


def _load_own(choice: TowerChoice, module: str, method: str, gives: str) -> tuple[Any, dict[str, Any]]:
    """Load a user's object and its description. InputError: it lacks this module or this method."""
    user, description = load_own(choice.model)
    if not isinstance(getattr(user, module, None), nn.Module):
        problem = f"returns a {type(user).__name__} whose {module} is not a torch.nn.Module"
        raise InputError.at(choice.where, problem, f"a module {module}", EXAMPLE)
    if not callable(getattr(user, method, None)):
        raise InputError.at(choice.where, f"has no method {method}", f"{method}{gives}", EXAMPLE)
    return user, description


def _own_image_half(choice: TowerChoice) -> ImageHalf:
    gives = "(picture), which returns arrays of the same shape"
    user, description = _load_own(choice, "image_tower", "prepare", gives)
    module = OwnModule(user.image_tower, choice.where).eval()
    half = _measured(description, module, partial(_pixels, user.prepare))
    grid = getattr(user, "grid", None)
    if grid is None or grid[0] * grid[1] != half.local_features:
        return half
    view = getattr(user, "view", None)
    seen = (lambda width, height: WHOLE) if view is None else view
    return replace(half, boxes_of=lambda picture: boxes(seen(*picture.size), *grid))


def _own_text_half(choice: TowerChoice) -> TextHalf:
    gives = "(texts), which returns a list of ids for each text"
    user, description = _load_own(choice, "text_tower", "tokenise", gives)
    module = OwnModule(user.text_tower, choice.where, lengths=True).eval()
    tokenise = OwnTokeniser(user)
    ids = tokenise(["a"])[0]
    with torch.no_grad():
        size = module(torch.tensor([ids]), torch.tensor([len(ids)])).shape[-1]
    return TextHalf(description, module, tokenise, int(size))


def _prepare_pixels(prepare: Callable[[Image], np.ndarray], pixels: np.ndarray) -> np.ndarray:
    return prepare(fromarray(np.ascontiguousarray(pixels)))


def _pixels(prepare: Callable[[Image], Any], picture: Image) -> np.ndarray:
    """Return the single input array of a tower for a picture."""
    arrays = prepare(picture)
    return np.asarray(arrays["pixel_values"] if isinstance(arrays, dict) else arrays, dtype=np.float32)


def _patchwork(prepare: Callable[[Image], Any], picture: Image) -> np.ndarray:
    """Convert a picture of any shape to (P, C + 2) float32, one patch per row (SigLIP 2 NaFlex). The last two columns
    are the picture's numbers of patch rows and patch columns. Rows of zeros pad to P, the most of any picture."""
    arrays = prepare(picture)
    shape = (np.asarray(arrays["pixel_attention_mask"])[:, None] > 0) * arrays["spatial_shapes"]
    return np.concatenate([arrays["pixel_values"], shape], axis=1, dtype=np.float32)


def _patch_counts(prepared: Tensor) -> Tensor:
    """Return (B,) numbers of patches that are not padding, for (B, P, C + 2) results of `_patchwork`."""
    return (prepared[..., -1] > 0).sum(dim=1)


def _patchwork_boxes(prepare: Callable[[Image], np.ndarray], picture: Image) -> np.ndarray:
    rows, columns = prepare(picture)[0, -2:].astype(int).tolist()
    return boxes(WHOLE, rows, columns)


def _measured(
    description: dict[str, Any], module: nn.Module, prepare: Callable[[Image], np.ndarray]
) -> ImageHalf:
    """Return an image half, with number and size of its local features measured from its output."""
    pixels = torch.from_numpy(prepare(PROBE))[None]
    with torch.no_grad():
        _, local_features, size = module(pixels, torch.ones(1)).shape
    description = description | {"shape": list(pixels.shape[1:])}
    return ImageHalf(description, module, prepare, int(local_features), int(size))


def weights_fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 (hex) of a module's weights."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(f"{name}\0".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()
