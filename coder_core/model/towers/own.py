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
from coder_core.model.towers.towers import OWN, PLAIN_PROMPT, check_prompt, fill_prompt, unit_rows

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


def make_own(name: str, place: str) -> tuple[Any, Any]:
    """The user's object that package.module:function returns, and its module. This runs the user's code.

    Raises:
        InputError: the name is of another form, or the code fails.
    """
    if not NAME.fullmatch(name):
        fault = Fault(
            place, "is not of this form", "package.module:function", "for example --tower towers:clip"
        )
        raise InputError(fault)
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        return getattr(module, function)(), module
    except Exception as error:  # the user's code raises what it likes
        problem = f"cannot be made: {type(error).__name__}: {str(error)[:300]}"
        fix = "start the command in the folder of the module, or set PYTHONPATH"
        raise InputError(Fault(place, problem, "a function that returns the towers", fix)) from error


class OwnTowers:
    """A user's towers; see `Towers` and docs/training.md. Importing them runs the user's code.

    Args:
        name: package.module:function; the function is called without arguments.
        prompt: of the texts; {} is the caption.
        expected: fingerprint that the towers must have; any when "".
        texts: whether they need `encode_texts`.

    Raises:
        InputError: it cannot be imported, lacks a method, or is not the expected one.
    """

    def __init__(
        self, name: str, *, prompt: str = PLAIN_PROMPT, expected: str = "", texts: bool = True
    ) -> None:
        check_prompt(prompt)
        place = f"--tower {name}"
        self._tower, module = make_own(name, place)
        lacking = [
            method for method in METHODS[: 1 + texts] if not callable(getattr(self._tower, method, None))
        ]
        if lacking:
            problem = f"gives a {type(self._tower).__name__} without {' and '.join(lacking)}"
            raise InputError(
                Fault(place, problem, " and ".join(METHODS), "docs/training.md shows three adapters")
            )
        own = str(getattr(self._tower, "fingerprint", "")) or file_fingerprint(module)
        if expected and own != expected:
            problem = f"has another fingerprint now, {own[:12]}"
            raise InputError(
                Fault(place, problem, expected[:12], "restore the towers this run was made with")
            )
        prepare = getattr(self._tower, "prepare", None)
        self.prepare: Callable[[Image], Any] = prepare if callable(prepare) else _unchanged
        self.device, self.prompt = torch.device("cpu"), prompt
        self.about: dict[str, Any] = {"kind": OWN, "tower": name, "fingerprint": own, "prompt": prompt}

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


def file_fingerprint(module: Any) -> str:
    """The sha256 of a module's file."""
    file = getattr(module, "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
