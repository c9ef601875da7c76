"""Dual encoders of transformers (CLIP, SigLIP, SigLIP 2): found on this machine, checked, loaded from safetensors.

Nothing is downloaded, no code of the model's own is run, and nothing pickled is opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers.find import FILES, NEEDED, find_model
from coder_core.model.towers.towers import PLAIN_PROMPT, TRANSFORMERS, check_prompt, fill_prompt, unit_rows

READ_BYTES = 1 << 22
LONGEST_UNKNOWN = 512  # tokens, where neither model nor tokenizer says
METHODS = ("get_image_features", "get_text_features")
PADDED_WHOLE = ("siglip", "siglip2")  # trained on texts padded to their longest length, without a mask
LOWER_CASED = (
    "GemmaTokenizer",
    "GemmaTokenizerFast",
    "Siglip2Tokenizer",
)  # SigLIP 2 was trained on small letters


def check_folder(folder: Path) -> dict[str, Any]:
    """The settings of a model folder that can be loaded safely.

    Raises:
        InputError: files are missing, the weights are pickled, or it would run code of its own.
    """
    settings = _read_json(folder / "config.json")
    for file in sorted(folder.glob("*config.json")):
        if "auto_map" in _read_json(file):
            fix = "use a model that transformers knows, or wrap it (docs/training.md)"
            raise InputError(
                Fault(f"{file} key auto_map", "names code to run", "no code of the model's own", fix)
            )
    if not any(folder.glob("*.safetensors")):
        pickled = ", ".join(file.name for file in sorted(folder.glob("*.bin"))[:3])
        problem = (
            f"has its weights only as {pickled}, a pickle, which can run programs"
            if pickled
            else "has no weights"
        )
        fix = "open it once where you trust it, and save_pretrained(…) it"
        raise InputError(Fault(str(folder), problem, "*.safetensors", fix))
    if (
        not (folder / "preprocessor_config.json").is_file()
        and not (folder / "processor_config.json").is_file()
    ):
        fix = "save the image processor there too (processor.save_pretrained)"
        raise InputError(Fault(str(folder), "has no settings of pictures", "preprocessor_config.json", fix))
    return settings


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(Fault(str(file), "is missing", NEEDED, "check the folder")) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(Fault(str(file), f"cannot be read as JSON: {error}", NEEDED)) from None
    return value if isinstance(value, dict) else {}


def fingerprint(folder: Path) -> str:
    """The sha256 (hex) of a model's weights, settings and tokenizer."""
    total = hashlib.sha256()
    for file in sorted({file for pattern in FILES for file in folder.glob(pattern)}):
        digest = hashlib.sha256()
        with file.open("rb") as content:
            while piece := content.read(READ_BYTES):
                digest.update(piece)
        total.update(f"{file.name}\0{digest.hexdigest()}\n".encode())
    return total.hexdigest()


@dataclass(frozen=True)
class Preparation:
    """Picture -> name → array of what an image processor makes of it."""

    processor: Any

    def __call__(self, picture: Image) -> dict[str, np.ndarray]:
        made = self.processor(images=picture, return_tensors="np")
        return {name: np.asarray(rows[0]) for name, rows in made.items()}


class DualEncoder:
    """Both towers of a transformers model, in evaluation mode; see `Towers`.

    Args:
        name: a folder, or the name of a downloaded model.
        revision: of a name.
        device: where it computes.
        prompt: of the texts; {} is the caption.
        precision: of a GPU's products: "bfloat16" (autocast) or "float32"; the CPU computes in float32.
        expected: fingerprint that the model must have; any when "".
        place: who names the model, for messages; "" is the command line.

    Raises:
        InputError: not here, unsafe, incomplete, no dual encoder, or not the expected one.
    """

    def __init__(
        self,
        name: str,
        *,
        revision: str = "",
        device: torch.device | str = "cpu",
        prompt: str = PLAIN_PROMPT,
        precision: str = "bfloat16",
        expected: str = "",
        place: str = "",
    ) -> None:
        check_prompt(prompt)
        self.folder, commit = find_model(name, revision, place)
        settings = check_folder(self.folder)
        place = place or f"--model {name}"
        own = fingerprint(self.folder)
        if expected and own != expected:
            problem = f"is another model now: its files have the fingerprint {own[:12]}"
            raise InputError(Fault(place, problem, expected[:12], "restore the model this run was made with"))
        self.device, self.prompt = torch.device(device), prompt
        self.half = self.device.type == "cuda" and precision == "bfloat16"
        with quiet():
            self._model = load_transformers_model(self.folder, place, METHODS).to(self.device)
            processor = load_image_processor(self.folder, place)
            self._tokenizer = load_tokenizer(self.folder, place)
        self.prepare: Callable[[Image], Any] = Preparation(processor)
        self._padded_whole, self._lower = reading_of(settings, self._tokenizer)
        self._longest = longest_text(self._model, self._tokenizer)
        self.about: dict[str, Any] = {
            "kind": TRANSFORMERS,
            "model": name if commit else str(self.folder.resolve()),
            "revision": commit,
            "type": str(settings.get("model_type", "")),
            "fingerprint": own,
            "prompt": prompt,
            "precision": "bfloat16" if self.half else "float32",
            "longest": self._longest,
            "lower_case": self._lower,
            "processor": json.loads(processor.to_json_string()),
        }

    @property
    def model(self) -> Any:
        """The model of transformers."""
        return self._model

    def encode_pictures(self, prepared: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
        """B prepared pictures -> (B, D) float32 unit rows."""
        inputs = {name: torch.from_numpy(np.stack([one[name] for one in prepared])) for name in prepared[0]}
        return self._encode(METHODS[0], inputs, "pictures")

    def encode_texts(self, texts: Sequence[str]) -> tuple[np.ndarray, int]:
        """B texts, put into the prompt -> (B, D) float32 unit rows, and how many were longer than the tower reads."""
        filled = fill_prompt(self.prompt, texts)
        if self._lower:
            filled = [text.lower() for text in filled]
        lengths = [len(ids) for ids in self._tokenizer(filled, verbose=False)["input_ids"]]
        tokens = self._tokenizer(
            filled,
            padding="max_length" if self._padded_whole else "longest",
            truncation=True,
            max_length=self._longest,
            return_tensors="pt",
        )
        inputs = {
            name: rows for name, rows in tokens.items() if not (self._padded_whole and name != "input_ids")
        }
        return self._encode(METHODS[1], inputs, "texts"), sum(length > self._longest for length in lengths)

    def _encode(self, method: str, inputs: dict[str, Tensor], what: str) -> np.ndarray:
        moved = {name: rows.to(self.device, non_blocking=True) for name, rows in inputs.items()}
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            output = getattr(self._model, method)(**moved)
        rows = output if isinstance(output, Tensor) else output.pooler_output
        return unit_rows(rows, what)


def reading_of(settings: dict[str, Any], tokenizer: Any) -> tuple[bool, bool]:
    """True if a model reads texts padded to their longest length without a mask; True if in lower case."""
    padded_whole = settings.get("model_type") in PADDED_WHOLE
    return padded_whole, padded_whole and type(tokenizer).__name__ in LOWER_CASED


def longest_text(model: Any, tokenizer: Any) -> int:
    """Tokens a text tower reads of a text."""
    settings = getattr(model.config, "text_config", model.config)
    positions = getattr(settings, "max_position_embeddings", None)
    limits = [limit for limit in (positions, tokenizer.model_max_length) if isinstance(limit, int)]
    return int(min([limit for limit in limits if 0 < limit < 1 << 20], default=LONGEST_UNKNOWN))


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no advice while transformers loads."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load_transformers_model(folder: Path, place: str, methods: Sequence[str] = ()) -> Any:
    """A model of transformers in evaluation mode, from safetensors.

    Args:
        folder: of the model.
        place: who names it, for messages.
        methods: of a dual encoder, which it must have.

    Raises:
        InputError: it cannot be loaded, is no dual encoder, or lacks weights, which would be random.
    """
    from transformers import AutoModel

    try:
        model, loading = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:  # whatever a damaged file makes safetensors, json or the model's class raise
        reason = (str(error).strip() or type(error).__name__).split("\n", 1)[0][:300]
        raise InputError(Fault(place, f"cannot be loaded: {reason}", NEEDED, "download it again")) from error
    if not all(hasattr(model, method) for method in methods):
        problem = f"is a {type(model).__name__}, which has no text encoder and picture encoder of one space"
        raise InputError(Fault(place, problem, "a dual encoder such as CLIP or SigLIP", "name another model"))
    missing = sorted(loading["missing_keys"]) + sorted(str(key) for key in loading["mismatched_keys"])
    if missing:
        problem = (
            f"lacks {len(missing)} of the model's weights, which would be random; the first: {missing[0]}"
        )
        raise InputError(Fault(place, problem, "all weights", "download it again"))
    return model.eval()


def load_image_processor(folder: Path, place: str) -> Any:
    """The image processor of a model in its PIL form, which gives the same numbers on every machine.

    Raises:
        InputError: there is none.
    """
    from transformers import AutoImageProcessor

    fix = "save the processor with the model; wrap towers without one (docs/training.md)"
    return _load_part(
        AutoImageProcessor,
        folder,
        place,
        "its picture settings",
        "an image processor with a PIL form",
        fix,
        backend="pil",
    )


def load_tokenizer(folder: Path, place: str) -> Any:
    from transformers import AutoTokenizer

    fix = "save the tokenizer with the model"
    return _load_part(AutoTokenizer, folder, place, "its tokenizer", "a tokenizer", fix)


def _load_part(kind: Any, folder: Path, place: str, what: str, expected: str, fix: str, **more: Any) -> Any:
    try:
        return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **more)
    except Exception as error:  # as above; a missing library (sentencepiece) is named by transformers
        reason = " ".join((str(error).strip() or type(error).__name__).split())[:300]
        raise InputError(Fault(place, f"{what} cannot be loaded: {reason}", expected, fix)) from error
