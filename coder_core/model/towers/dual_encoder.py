"""A picture encoder and a text encoder with a joint space: the interface, and any dual encoder of transformers."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from coder_core.console.faults import InputError
from coder_core.model.towers.checkpoints import ModelChoice
from coder_core.model.towers.pretrained import load_pretrained

PLAIN_PROMPT = "{}"
METHODS = ("get_image_features", "get_text_features")


class Towers(Protocol):
    """A picture encoder and a text encoder with a joint space."""

    # stored with a run, to find the same towers again: kind, model or tower, fingerprint …
    about: dict[str, Any]
    device: torch.device  # on which they compute
    # upright RGB picture → input of the picture tower; called in worker processes
    prepare: Callable[[Image], Any]

    def encode_pictures(self, prepared: Sequence[Any]) -> np.ndarray:
        """Encode B prepared pictures as (B, D) float32 unit rows."""

    def encode_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """Encode B texts in the prompt as (B, D) float32 unit rows; also return how many texts were truncated."""


class DualEncoder:
    """Both towers of a transformers model (CLIP, SigLIP, SigLIP 2), in evaluation mode; see `Towers`. Errors are those of
    `load_pretrained`; InputError also if the model is not a dual encoder.

    `prompt`: template of the texts, with {} for the caption. `precision`: of products on a GPU, "bfloat16" (autocast) or
    "float32"; a CPU always uses float32.
    """

    def __init__(
        self,
        model: str | ModelChoice,
        *,
        device: torch.device | str = "cpu",
        prompt: str = PLAIN_PROMPT,
        precision: str = "bfloat16",
    ) -> None:
        check_prompt(prompt)
        choice = ModelChoice(model) if isinstance(model, str) else model

        loaded = load_pretrained(choice, methods=METHODS)
        self.notes = loaded.notes
        self.device = torch.device(device)
        self.prompt = prompt
        self.half = self.device.type == "cuda" and precision == "bfloat16"

        self.model = loaded.model.to(self.device)
        self.preparation = loaded.preparation
        self.prepare: Callable[[Image], Any] = loaded.preparation
        self._tokeniser = loaded.tokeniser
        self._padded_whole = loaded.padded_whole

        self.about: dict[str, Any] = loaded.about | {
            "prompt": prompt,
            "precision": "bfloat16" if self.half else "float32",
            "longest": self._tokeniser.longest,
            "lower_case": self._tokeniser.lower_case,
            "processor": loaded.preparation.settings,
        }

    def encode_pictures(self, prepared: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
        """Encode B prepared pictures as (B, D) float32 unit rows."""
        stacks = {name: np.stack([arrays[name] for arrays in prepared]) for name in prepared[0]}
        inputs = {name: torch.from_numpy(stack) for name, stack in stacks.items()}
        return self._encode(METHODS[0], inputs, "pictures")

    def encode_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """Encode B texts in the prompt as (B, D) float32 unit rows; also return how many were truncated."""
        texts = self._tokeniser.cased(fill_prompt(self.prompt, texts))
        longest = self._tokeniser.longest
        tokenizer = self._tokeniser.tokenizer
        lengths = [len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]]
        padding = "max_length" if self._padded_whole else "longest"
        tokens = tokenizer(texts, padding=padding, truncation=True, max_length=longest, return_tensors="pt")
        self._tokeniser.check(int(tokens["input_ids"].max()))
        inputs = {"input_ids": tokens["input_ids"]} if self._padded_whole else dict(tokens)
        return self._encode(METHODS[1], inputs, "texts"), sum(length > longest for length in lengths)

    def _encode(self, method: str, inputs: dict[str, Tensor], samples: str) -> np.ndarray:
        inputs = {name: rows.to(self.device, non_blocking=True) for name, rows in inputs.items()}
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            output = getattr(self.model, method)(**inputs)
        return checked_unit_rows(output if isinstance(output, Tensor) else output.pooler_output, samples)


def fill_prompt(prompt: str, texts: Sequence[str]) -> list[str]:
    """Put each text into the prompt in place of {}."""
    return [prompt.replace("{}", text) for text in texts]


def check_prompt(prompt: str) -> None:
    """Raise InputError if a prompt does not contain exactly one {} for the caption."""
    if prompt.count("{}") != 1:
        fix = 'for example --prompt "a photo of {}"'
        raise InputError.at("--prompt", f"is {prompt!r:.80}", "{} once", fix)


def checked_unit_rows(rows: Tensor, samples: str) -> np.ndarray:
    """Normalise (B, D) rows of any float type to float32 unit rows. InputError: NaN, Inf, or a row of length 0."""
    values = rows.detach().float()
    lengths = values.norm(dim=-1, keepdim=True)
    if not bool((lengths.isfinite() & (lengths > 0)).all()):
        problem = f"gives NaN, Inf or a row of zeros for {samples}"
        fix = "check its weights, or use --precision float32"
        raise InputError.at("the model", problem, "finite numbers", fix)
    return np.asarray((values / lengths).cpu().numpy(), dtype=np.float32)
