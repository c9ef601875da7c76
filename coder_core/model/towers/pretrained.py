"""Load pretrained models of transformers, with their image preparation and tokenizer.

Nothing is downloaded, and no code that comes with a model runs. Torch and transformers are imported only to load one.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.model.towers import open_clip
from coder_core.model.towers.checkpoints import (
    ADAPTER,
    ModelChoice,
    ModelFiles,
    find_files,
    fitted,
    read_weights,
)
from coder_core.model.towers.folders import NEEDED, read_object
from coder_core.ops.shapes import shapes_only

# values of the key "kind" of `about`
TRANSFORMERS = "transformers"
OWN = "own"
LONGEST_UNKNOWN = 512  # tokens, if neither model nor tokenizer has a limit
PADDED_WHOLE = ("siglip", "siglip2")  # trained on texts padded to the maximum length, without a mask
LOWER_CASED = ("GemmaTokenizer", "GemmaTokenizerFast", "Siglip2Tokenizer")  # SigLIP 2 expects lower case
View = tuple[float, float, float, float]
"""Part of a picture that a model sees: left, top, right, bottom as shares of the picture's sides."""
WHOLE: View = (0.0, 0.0, 1.0, 1.0)
PROBE = Image.new("RGB", (64, 64), "grey")  # to try a model, and to measure the shape of its output


@dataclass(frozen=True)
class Preparation:
    """Image preparation by a transformers image processor: picture -> name → array."""

    processor: Any

    def __call__(self, picture: Image.Image) -> dict[str, np.ndarray]:
        arrays = self.processor(images=picture, return_tensors="np")
        return {name: np.asarray(rows[0]) for name, rows in arrays.items()}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings of the image processor."""
        return dict(json.loads(self.processor.to_json_string()))

    def view(self, width: float, height: float) -> View:
        """Return the view of a picture of this size: its centre if the processor crops it, otherwise the whole."""
        crop = self.settings.get("crop_size")
        size = self.settings.get("size") or {}
        if not self.settings.get("do_center_crop") or not isinstance(crop, dict):
            return WHOLE
        if self.settings.get("do_resize"):
            scale = (size.get("shortest_edge") or 0) / min(width, height)
            resized = (width * scale, height * scale)
            width, height = resized if scale else (size.get("width", width), size.get("height", height))
        wide = min(1.0, crop["width"] / width)
        high = min(1.0, crop["height"] / height)
        return (1 - wide) / 2, (1 - high) / 2, (1 + wide) / 2, (1 + high) / 2


@dataclass(frozen=True)
class Tokeniser:
    """Tokeniser by a transformers tokenizer: texts -> the ids of each."""

    tokenizer: Any
    longest: int  # maximum ids of a text, including special ones; longer texts are truncated
    lower_case: bool = False  # convert all texts to lower case
    known: int = 0  # ids below this one have an embedding; 0 if load_tokeniser has compared the sizes
    where: str = ""  # the flag that names the model, for messages

    def __len__(self) -> int:
        return len(self.tokenizer)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        options = {"truncation": True, "max_length": self.longest, "verbose": False}
        ids = list(self.tokenizer(self.cased(texts), **options)["input_ids"])
        self.check(max(map(max, filter(None, ids)), default=0))
        return ids

    def check(self, largest: int) -> None:
        """Raise InputError if the model has no embedding for the largest id."""
        if 0 < self.known <= largest:
            expected = f"ids below the model's {self.known}"
            fix = "use the tokenizer that was saved with this model"
            raise InputError.at(self.where, f"its tokenizer gives the id {largest}", expected, fix)

    def cased(self, texts: Sequence[str]) -> list[str]:
        """Return the texts in the case that the model expects."""
        return [text.lower() for text in texts] if self.lower_case else list(texts)

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Return the words with a part that the tokenizer does not know."""
        return [word for word in words if self.tokenizer.unk_token in self.tokenizer.tokenize(word)]

    def pieces(self, text: str) -> list[str]:
        """Return the piece of the text for each of its ids; "" for special ones."""
        pieces = self.tokenizer.convert_ids_to_tokens(self([text])[0])
        special = self.tokenizer.all_special_tokens
        return ["" if piece in special else piece.removesuffix("</w>") for piece in pieces]


@dataclass(frozen=True)
class Pretrained:
    """A loaded model; its image processor and tokenizer are loaded on first use."""

    files: ModelFiles
    where: str  # the flag that names it, for messages
    settings: dict[str, Any]  # content of its config.json
    about: dict[str, Any]  # description stored with a run, to find the same model again
    model: Any  # the transformers model, float32, in evaluation mode
    notes: tuple[Fault, ...] = ()  # what was guessed or left out

    @cached_property
    def preparation(self) -> Preparation:
        """Image processor. InputError: the folder has none, or the model rejects the pictures it prepares."""
        preparation = Preparation(load_processor(self.files, self.where))
        model = getattr(self.model, "vision_model", self.model)
        inputs = preparation(PROBE)
        name = getattr(model, "main_input_name", "")
        if set(inputs) == {name} == {"pixel_values"}:  # not a text model, not NaFlex
            _try_vision(model, inputs["pixel_values"], self.where)
        return preparation

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """Tokenizer. InputError: the folder has none."""
        tokenizer = load_tokenizer(self.files.tokenizer, self.where)
        lower_case = self.padded_whole and type(tokenizer).__name__ in LOWER_CASED
        settings = getattr(self.model.config, "text_config", self.model.config)
        limits = getattr(settings, "max_position_embeddings", None), tokenizer.model_max_length
        sound = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1 << 20]
        longest = min(sound, default=LONGEST_UNKNOWN)
        known = getattr(settings, "vocab_size", None) or 0
        return Tokeniser(tokenizer, longest, lower_case, known, self.where)

    @property
    def padded_whole(self) -> bool:
        """True if the model expects texts padded to the maximum length, without a mask."""
        return self.settings.get("model_type") in PADDED_WHOLE


def load_pretrained(
    choice: ModelChoice, *, methods: Sequence[str] = (), pictures: bool = True, unread: str = ""
) -> Pretrained:
    """Load a model of transformers, or a checkpoint that becomes one. InputError: it is not on this machine, unsafe,
    incomplete, or not the expected one.

    Args:
        methods, pictures: the model must have these methods (of a dual encoder), and an image processor.
        unread: prefix of the names of weights that may be missing, because they are not used.
    """
    where = choice.where
    files = find_files(choice)
    settings = files.read_settings(where, pictures=pictures)
    actual = files.fingerprint()
    if choice.expected and actual != choice.expected:
        problem = f"is a different model now: its files have the fingerprint {actual[:12]}"
        raise InputError.at(where, problem, choice.expected[:12], choice.fix)

    is_path = Path(choice.name).exists()
    about = {
        "kind": TRANSFORMERS,
        "model": str(files.found.resolve()) if is_path else choice.name,
        "revision": files.commit,
        "type": str(settings.get("model_type", "")),
        "fingerprint": actual,
    }
    if files.base:
        is_folder = Path(files.base).is_dir()
        about["base"] = str(Path(files.base).resolve()) if is_folder else files.base

    model, notes = load_transformer(files, where, methods=methods, unread=unread)
    return Pretrained(files, where, settings, about, model, (*files.notes, *notes))


def _try_vision(model: Any, pixels: np.ndarray, where: str) -> None:
    """Encode one picture of (C, H, W) pixels. InputError: the model rejects its size or number of channels."""
    import torch

    try:
        with torch.no_grad():
            model(pixel_values=torch.from_numpy(pixels)[None].to(next(model.parameters()).device))
    except (ValueError, RuntimeError) as error:  # transformers checks the size, torch the channels
        problem = f"its vision model rejects the pictures that its image processor prepares: {error}"
        fix = "use the image processor saved with this model"
        raise InputError.at(where, problem, "pictures of the model's size", fix) from error


def load_transformer(
    files: ModelFiles, where: str, *, methods: Sequence[str] = (), unread: str = ""
) -> tuple[Any, list[Fault]]:
    """Load a transformers model in evaluation mode, and notes; arguments as for `load_pretrained`. InputError: it
    cannot be loaded, lacks a method, or lacks weights (other than `unread` ones), which would be random."""
    notes: list[Fault] = []
    if files.kind in ("folder", "adapter"):
        model, missing = _load_folder(files.settings, where, unread)
        if missing:  # perhaps another trainer put a prefix before every name
            model, missing, notes = _load_weights(files, where, unread)
    else:
        model, missing, notes = _load_weights(files, where, unread)

    if not all(hasattr(model, method) for method in methods):
        problem = f"is a {type(model).__name__}, which has no joint space of texts and pictures"
        raise InputError.at(where, problem, "a dual encoder such as CLIP or SigLIP", "name another model")

    if missing:
        count = f"{len(missing)} of the model's weights"
        problem = f"lacks {count}, which would get random values; the first: {min(missing)}"
        fix = (
            f"name the model that the weights belong to, not {files.base}"
            if files.base
            else "download it again"
        )
        raise InputError.at(where, problem, "all weights", fix)

    if files.kind == "adapter":
        model = _with_adapter(model, files.weights, where)

    return model.eval(), notes


def _load_folder(folder: Path, where: str, unread: str) -> tuple[Any, set[str]]:
    """Load a folder of transformers; return the model and the names of missing weights."""
    import torch
    from transformers import AutoModel

    options = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, loading = _load(AutoModel, folder, where, "", "download it again", dtype=torch.float32, **options)
    return model, _missing(loading, unread)


def _load_weights(files: ModelFiles, where: str, unread: str) -> tuple[Any, set[str], list[Fault]]:
    """Build the model of a configuration with weights from elsewhere; return the model, the names of missing weights and
    notes. InputError: transformers has no such model, or the weights are not those of one model."""
    import torch
    from transformers import MODEL_MAPPING, AutoConfig

    if files.kind == "open_clip":
        settings = files.open_clip_configuration()
    else:
        settings = _load(AutoConfig, files.settings, where, "its configuration ", "name another base model")
    kind = MODEL_MAPPING.get(type(settings), None)
    if kind is None:
        raise InputError.at(where, f"has a base of type {settings.model_type!r}", "CLIP or SigLIP")
    with shapes_only():
        names = list(kind(settings).state_dict())
    state: dict[str, Tensor] = {}
    notes: list[Fault] = []
    weights = sorted(files.weights.glob("*.safetensors")) if files.weights.is_dir() else [files.weights]
    for file in weights:
        tensors, found = read_weights(file, where)
        state |= tensors
        notes += found
    state, found = fitted(state, names, where)
    options = {"output_loading_info": True, "ignore_mismatched_sizes": True, "dtype": torch.float32}
    model, loading = _load(kind, None, where, "", "", config=settings, state_dict=state, **options)
    return model, _missing(loading, unread), [*notes, *found]


def _missing(loading: Mapping[str, Any], unread: str) -> set[str]:
    """Return the names of weights that a file lacks or has in another shape, except the `unread` ones."""
    missing = {*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])}
    return {name for name in missing if not (unread and name.startswith(unread))}


def _with_adapter(model: Any, folder: Path, where: str) -> Any:
    """Merge a LoRA adapter into a model. InputError: it is of another kind, or does not fit the model."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import safe_open

    settings = read_object(folder / ADAPTER)
    weights = folder / "adapter_model.safetensors"
    if settings.get("peft_type") != "LORA" or settings.get("megatron_config"):
        fix = "merge it where you trained it: merge_and_unload().save_pretrained(FOLDER)"
        raise InputError.at(f"{where} key peft_type", f"is {settings.get('peft_type')!r:.80}", "LORA", fix)
    if not weights.is_file():
        fix = "save it with save_pretrained(…), which writes safetensors"
        raise InputError.at(where, "is an adapter without weights in safetensors", weights.name, fix)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft uses a name that transformers renames
            adapted = PeftModel.from_pretrained(model, str(folder))
        with safe_open(weights, "pt") as tensors:
            given = set(tensors.keys())
        used = set(get_peft_model_state_dict(adapted))
    except Exception as error:  # peft raises what it meets
        reason = " ".join(str(error).split())[:200]
        raise InputError.at(
            where, f"does not fit its base model: {reason}", "the base it was trained on"
        ) from error
    if given != used:
        first = min(given ^ used)
        raise InputError.at(where, f"does not fit its base model, at {first}", "the base it was trained on")
    return adapted.merge_and_unload()


def load_processor(files: ModelFiles, where: str) -> Any:
    """Load a model's image processor in its PIL version, which gives the same numbers on every machine. InputError: it
    has none."""
    from transformers import AutoImageProcessor

    if files.kind == "open_clip":
        file = files.processor / open_clip.SETTINGS
        return open_clip.processor(read_object(file), str(file))
    fix = "save the processor with the model; wrap towers without one (docs/training.md)"
    return _load(AutoImageProcessor, files.processor, where, "its picture settings ", fix, backend="pil")


def load_tokenizer(folder: Path, where: str) -> Any:
    """Load a model's tokenizer. InputError: it has none."""
    from transformers import AutoTokenizer

    fix = "save the tokenizer there too (tokenizer.save_pretrained), or name a model that has it: --base"
    tokenizer = _load(AutoTokenizer, folder, where, "its tokenizer ", fix)
    if set(tokenizer.get_vocab()) <= set(
        tokenizer.all_special_tokens
    ):  # every text would become the same tokens
        raise InputError.at(where, "has no tokenizer", "tokenizer.json", fix)
    return tokenizer


def _load(kind: Any, folder: Path | None, where: str, part: str, fix: str, **options: Any) -> Any:
    try:
        with quiet():
            return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **options)
    except Exception as error:  # a damaged file may raise anything; transformers names a missing library
        reason = " ".join((str(error).strip() or type(error).__name__).split())[:300]
        raise InputError.at(where, f"{part}cannot be loaded: {reason}", NEEDED, fix) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars and advice while transformers loads."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
