"""Towers of a user's own code: package.module:function gives an object with encode_pictures and encode_texts."""

from __future__ import annotations

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

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.dual_encoder import PLAIN_PROMPT, check_prompt, fill_prompt, unit_rows
from coder_core.model.towers.pretrained import OWN

ALLOWED = "CODER_TOWERS"
"""Environment variable: own towers that a run may import again, separated by commas."""
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
METHODS = ("encode_pictures", "encode_texts")


_typed: set[str] = set()  # on this process's command line


def allow(name: str) -> None:
    """Let runs import this tower in this process: a person typed its name."""
    _typed.add(name)


def is_allowed(name: str) -> bool:
    """True if the environment allows runs to import this tower."""
    return name in _typed or name in [entry.strip() for entry in os.environ.get(ALLOWED, "").split(",")]


def load_own(name: str, place: str, expected: str, fix: str) -> tuple[Any, str]:
    """The user's object that package.module:function returns, and its fingerprint. This runs the user's code.

    Args:
        name: package.module:function; the function is called without arguments.
        place: who names it, for messages.
        expected: fingerprint that it must have; any when "".
        fix: advice where it has another.

    Raises:
        InputError: the name is of another form, the code fails, or it is not the expected one.
    """
    if not NAME.fullmatch(name):
        fault = Fault(
            place, "is not of this form", "package.module:function", "for example --tower towers:clip"
        )
        raise InputError(fault)
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        user = getattr(module, function)()
    except Exception as error:  # the user's code raises what it likes
        problem = f"cannot be made: {type(error).__name__}: {str(error)[:300]}"
        advice = "start the command in the folder of the module, or set PYTHONPATH"
        raise InputError(Fault(place, problem, "a function that returns the towers", advice)) from error
    found = str(getattr(user, "fingerprint", ""))
    if not found and getattr(module, "__file__", None):
        found = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    if expected and found != expected:
        problem = f"has another fingerprint now, {found[:12]}"
        raise InputError(Fault(place, problem, expected[:12], fix))
    return user, found


class OwnTowers:
    """A user's towers; see `Towers` and docs/training.md. Importing them runs the user's code.

    Args:
        name, expected: as for `load_own`.
        prompt: of the texts; {} is the caption.
        texts: they need `encode_texts`.

    Raises:
        InputError: as for `load_own`, or a method is missing.
    """

    def __init__(
        self, name: str, *, prompt: str = PLAIN_PROMPT, expected: str = "", texts: bool = True
    ) -> None:
        check_prompt(prompt)
        place = f"--tower {name}"
        self._tower, fingerprint = load_own(
            name, place, expected, "restore the towers this run was made with"
        )
        lacking = [
            method for method in METHODS[: 1 + texts] if not callable(getattr(self._tower, method, None))
        ]
        if lacking:
            problem = f"gives a {type(self._tower).__name__} without {' and '.join(lacking)}"
            raise InputError(
                Fault(place, problem, " and ".join(METHODS), "docs/training.md shows three adapters")
            )
        prepare = getattr(self._tower, "prepare", None)
        self.prepare: Callable[[Image], Any] = prepare if callable(prepare) else _unchanged
        self.device, self.prompt = torch.device("cpu"), prompt
        self.about: dict[str, Any] = {
            "kind": OWN,
            "tower": name,
            "fingerprint": fingerprint,
            "prompt": prompt,
        }

    def encode_pictures(self, prepared: Sequence[Any]) -> np.ndarray:
        """B prepared pictures -> (B, D) float32 unit rows: the mean of their L local features."""
        return self._pooled(METHODS[0], list(prepared), "pictures")

    def encode_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """B texts, put into the prompt -> (B, D) float32 unit rows; 0, for how many are cut is not known."""
        return self._pooled(METHODS[1], fill_prompt(self.prompt, texts), "texts"), 0

    def local_features(self, prepared: Sequence[Any]) -> Tensor:
        """B prepared pictures -> (B, L, D); L is 1 where the tower gives one vector a picture."""
        return self._rows(METHODS[0], list(prepared), "pictures")

    def option(self, name: str) -> Any:
        """An optional attribute of the user's object, or None."""
        return getattr(self._tower, name, None)

    def _pooled(self, method: str, samples: list[Any], what: str) -> np.ndarray:
        return unit_rows(_mean_of_rows(self._rows(method, samples, what)), what)

    def _rows(self, method: str, samples: list[Any], what: str) -> Tensor:
        with torch.inference_mode():
            output = getattr(self._tower, method)(samples)
            rows = (
                output
                if isinstance(output, Tensor)
                else torch.from_numpy(np.asarray(output, dtype=np.float32))
            )
            if rows.ndim not in (2, 3) or len(rows) != len(samples):
                problem = f"gives shape {tuple(rows.shape)} for {len(samples)} {what}"
                raise InputError(Fault(f"{method} of {self.about['tower']}", problem, "(B, L, D) or (B, D)"))
            return rows.float() if rows.ndim == 3 else rows.float()[:, None]


def _mean_of_rows(features: Tensor) -> Tensor:
    """(B, L, D) -> (B, D), rows of zeros left out: they are padding."""
    present = (features != 0).any(dim=-1, keepdim=True)
    return features.sum(dim=1) / present.sum(dim=1).clamp_min(1)


def _unchanged(picture: Image) -> Image:
    return picture
