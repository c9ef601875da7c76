"""Interface of a pair of towers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from coder_core.console.faults import Fault, InputError

PLAIN_PROMPT = "{}"
TRANSFORMERS, OWN = "transformers", "own"  # values of the key "kind" of `about`


class Towers(Protocol):
    """A picture encoder and a text encoder with one space.

    Attributes:
        about: what a run notes, to find the same towers again: kind, model or tower, fingerprint, prompt, …
        device: where they compute.
        prepare: what the picture tower reads of one upright RGB picture; called in worker processes.
    """

    about: dict[str, Any]
    device: torch.device
    prepare: Callable[[Image], Any]

    def encode_pictures(self, prepared: Sequence[Any]) -> np.ndarray:
        """B prepared pictures -> (B, D) float32 unit rows."""

    def encode_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """B texts, put into the prompt -> (B, D) float32 unit rows, and how many texts were cut."""


def fill_prompt(prompt: str, texts: Sequence[str]) -> list[str]:
    """The texts in the prompt, in the place of its {}."""
    return [prompt.replace("{}", text) for text in texts]


def check_prompt(prompt: str) -> None:
    """Refuse a prompt in which no caption can stand.

    Raises:
        InputError: it does not hold {} exactly once.
    """
    if prompt.count("{}") != 1:
        fault = Fault("--prompt", f"is {prompt!r:.80}", "{} once", 'for example --prompt "a photo of {}"')
        raise InputError(fault)


def unit_rows(rows: Tensor, what: str) -> np.ndarray:
    """(B, D) of any float type -> float32 unit rows.

    Raises:
        InputError: NaN, Inf, or a row of length 0.
    """
    values = rows.detach().float()
    lengths = values.norm(dim=-1, keepdim=True)
    if not bool((lengths.isfinite() & (lengths > 0)).all()):
        problem = f"gives NaN, Inf or a row of zeros for {what}"
        raise InputError(
            Fault("the model", problem, "finite numbers", "check its weights, or use --precision float32")
        )
    return np.asarray((values / lengths).cpu().numpy(), dtype=np.float32)
