"""Towers in a user's own code: package.module:function returns an object with encode_pictures and encode_texts."""

import hashlib
import importlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from coder_core.console.faults import InputError
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.dual_encoder import PLAIN_PROMPT, check_prompt, checked_unit_rows, fill_prompt
from coder_core.model.towers.pretrained import OWN, WHOLE, View

ALLOWED = "CODER_TOWERS"  # environment variable: comma-separated own towers that a run may import again
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
METHODS = ("encode_pictures", "encode_texts")

_typed: set[str] = set()  # names from this process's command line


def allow(name: str) -> None:
    """Allow runs in this process to import this tower, because a person typed its name."""
    _typed.add(name)


def check_allowed(name: str, where: str) -> None:
    """Raise InputError unless this process's command line or the environment allows runs to import this tower."""
    if name not in _typed and name not in map(str.strip, os.environ.get(ALLOWED, "").split(",")):
        problem = f"is code by the run's author, {name!r:.200}, which is not imported automatically"
        fix = f"if you trust that code, set {ALLOWED}={name} and start again"
        raise InputError.at(where, problem, fix=fix)


def load_own(choice: ModelChoice) -> tuple[Any, dict[str, Any]]:
    """Return the user's object that package.module:function returns, and its description. This runs the user's code.

    The function is called without arguments. InputError: the name has another form, the code fails, or its fingerprint
    is not the expected one.
    """
    name = choice.name
    where = choice.where
    if not NAME.fullmatch(name):
        example = "for example --tower towers:clip"
        raise InputError.at(where, "names no function", "package.module:function", example)

    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        user = getattr(module, function)()
    except Exception as error:  # a user's code may raise anything
        problem = f"cannot be created: {type(error).__name__}: {str(error)[:300]}"
        advice = "start the command in the folder of the module, or set PYTHONPATH"
        raise InputError.at(where, problem, "a function that returns the towers", advice) from error

    fingerprint = str(getattr(user, "fingerprint", ""))
    if not fingerprint and getattr(module, "__file__", None):
        fingerprint = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    if choice.expected and fingerprint != choice.expected:
        problem = f"now has a different fingerprint, {fingerprint[:12]}"
        raise InputError.at(where, problem, choice.expected[:12], choice.fix)

    return user, {"kind": OWN, "tower": name, "fingerprint": fingerprint}


class OwnTowers:
    """A user's towers; see `Towers` and docs/training.md. Importing them runs the user's code; arguments and errors as
    for `load_own` and `DualEncoder`. InputError: a method is missing (`encode_texts` is needed only with `texts`).

    `grid`: (rows, columns) of the local features, or None if the user does not define it. `view`: width and height of a
    picture → the part of it that the picture tower sees.
    """

    def __init__(
        self, name: str, *, prompt: str = PLAIN_PROMPT, expected: str = "", texts: bool = True
    ) -> None:
        check_prompt(prompt)
        where = f"--tower {name}"
        fix = "restore the towers this run was made with"
        self._tower, about = load_own(ModelChoice(name, source=where, expected=expected, fix=fix))
        needed = METHODS[: 1 + texts]
        lacking = [method for method in needed if not callable(getattr(self._tower, method, None))]
        if lacking:
            problem = f"returns a {type(self._tower).__name__} without {' and '.join(lacking)}"
            fix = "write an adapter, as docs/training.md shows"
            raise InputError.at(where, problem, " and ".join(METHODS), fix)

        prepare = getattr(self._tower, "prepare", None)
        self.prepare: Callable[[Image], Any] = prepare if callable(prepare) else _unchanged
        self.grid: tuple[int, int] | None = getattr(self._tower, "grid", None)
        self.view: Callable[[int, int], View] = getattr(self._tower, "view", None) or _whole
        self.device = torch.device("cpu")
        self.prompt = prompt
        self.about: dict[str, Any] = about | {"prompt": prompt}

    def encode_pictures(self, prepared: Sequence[Any]) -> np.ndarray:
        """Encode B prepared pictures as (B, D) float32 unit rows, the normalised means of their local features."""
        return checked_unit_rows(_mean_of_rows(self.local_features(prepared)), "pictures")

    def encode_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """Encode B texts in the prompt as (B, D) float32 unit rows; return 0, as truncations are not known."""
        rows = self._rows(METHODS[1], fill_prompt(self.prompt, texts), "texts")
        return checked_unit_rows(_mean_of_rows(rows), "texts"), 0

    def local_features(self, prepared: Sequence[Any]) -> Tensor:
        """Encode B prepared pictures as (B, L, D); L is 1 if the tower returns one vector per picture."""
        return self._rows(METHODS[0], list(prepared), "pictures")

    def _rows(self, method: str, samples: list[Any], kind: str) -> Tensor:
        with torch.inference_mode():
            output = getattr(self._tower, method)(samples)
            if not isinstance(output, Tensor):
                output = torch.from_numpy(np.asarray(output, dtype=np.float32))
            return local_rows(output, len(samples), kind, f"{method} of {self.about['tower']}").float()


def local_rows(output: Tensor, count: int, kind: str, where: str) -> Tensor:
    """Return the output of a user's encoder for `count` samples, (B, F) or (B, L, F), as (B, L, F). InputError: it
    has another shape."""
    if output.ndim not in (2, 3) or len(output) != count:
        problem = f"returns shape {tuple(output.shape)} for {count} {kind}"
        fix = "docs/training.md, Towers"
        raise InputError.at(where, problem, "(B, L, F) or (B, F)", fix)
    return output if output.ndim == 3 else output[:, None]


def _mean_of_rows(features: Tensor) -> Tensor:
    """Return the mean of each sample's rows, (B, L, D) -> (B, D), without rows of zeros, which are padding."""
    present = (features != 0).any(dim=-1, keepdim=True)
    return features.sum(dim=1) / present.sum(dim=1).clamp_min(1)


def _unchanged(picture: Image) -> Image:
    return picture


def _whole(width: int, height: int) -> View:
    return WHOLE
