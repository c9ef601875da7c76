"""Find pretrained transformers models on this machine, check and fingerprint them, and load them from safetensors.

This module downloads nothing, runs no code that comes with a model and opens no pickles. It imports torch and
transformers only to load a model.
"""

import hashlib
import json
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from coder_core.console.documents import excerpt
from coder_core.console.faults import InputError
from coder_core.console.plain_files import DOCUMENT, plain_fault
from coder_core.files.sealed import file_sha256

# values of the key "kind" of `about`
TRANSFORMERS = "transformers"
OWN = "own"
FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
NEEDED = "a folder of save_pretrained, or the name of a downloaded model"
ELSEWHERE = (
    "where its main branch has no safetensors, give both commands the --revision of a pull request that has them "
    "(openai/clip-vit-base-patch32: refs/pr/66), or name another model (openai/clip-vit-large-patch14)"
)
MOST_LAYERS = 1_000  # building a model of 300,000 takes minutes
# implementations inside transformers; for any other name it would download a kernel and run it
ATTENTION = ("eager", "sdpa")
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

    folder: Path
    where: str  # the flag that names it, for messages
    settings: dict[str, Any]  # content of its config.json
    about: dict[str, Any]  # description stored with a run, to find the same model again
    model: Any  # the transformers model, float32, in evaluation mode

    @cached_property
    def preparation(self) -> Preparation:
        """Image processor. InputError: the folder has none, or the model rejects the pictures it prepares."""
        preparation = Preparation(load_processor(self.folder, self.where))
        model = getattr(self.model, "vision_model", self.model)
        inputs = preparation(PROBE)
        name = getattr(model, "main_input_name", "")
        if set(inputs) == {name} == {"pixel_values"}:  # not a text model, not NaFlex
            _try_vision(model, inputs["pixel_values"], self.where)
        return preparation

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """Tokenizer. InputError: the folder has none."""
        tokenizer = load_tokenizer(self.folder, self.where)
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
    name: str,
    *,
    where: str = "",
    revision: str = "",
    expected: str = "",
    fix: str = "",
    methods: Sequence[str] = (),
    pictures: bool = True,
    unread: str = "",
) -> Pretrained:
    """Load a model of transformers. InputError: not on this machine, unsafe, incomplete, or not the expected one.

    Args:
        name: a folder, or the name of a downloaded model; its `revision` is a branch, tag or commit.
        where: source of the name, for messages; "" is the flag --model.
        expected: fingerprint that the model must have; "" accepts any. `fix`: advice if it has another.
        methods, pictures: the model must have these methods (of a dual encoder), and an image processor.
        unread: prefix of the names of weights that may be missing, because they are not used.
    """
    where = where or f"--model {name}"
    folder, commit = find_model(name, revision, where)
    settings = check_folder(folder, pictures=pictures)
    actual = fingerprint(folder)
    if expected and actual != expected:
        problem = f"is a different model now: its files have the fingerprint {actual[:12]}"
        raise InputError.at(where, problem, expected[:12], fix or "restore the model")
    about = {"kind": TRANSFORMERS, "model": name if commit else str(folder.resolve()), "revision": commit}
    about |= {"type": str(settings.get("model_type", "")), "fingerprint": actual}
    model = load_model(folder, where, methods=methods, unread=unread)
    return Pretrained(folder, where, settings, about, model)


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


def find_model(name: str, revision: str = "", where: str = "") -> tuple[Path, str]:
    """Return the folder of a model on this machine, and its commit ("" for a folder); arguments as above.
    InputError: it is not on this machine; the message has the command that downloads it."""
    if Path(name).is_dir():
        return _inner_folder(Path(name)), ""
    where = where or f"--model {name}"
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    problem = "is on this machine without weights in safetensors"
    try:
        snapshot = Path(snapshot_download(name, revision=revision or None, local_files_only=True))
        folder = _inner_folder(snapshot)
        if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
            return folder, snapshot.name
    except (LocalEntryNotFoundError, FileNotFoundError):
        problem = "is not on this machine"
    except (HFValidationError, ValueError, OSError):
        problem = "is neither a folder nor the name of a model"
        raise InputError.at(where, problem, NEEDED, "check the path") from None
    patterns = " ".join(f'--include "{pattern}"' for pattern in FILES)  # hf accepts one pattern per flag
    command = f"hf download {name}{f' --revision {revision}' if revision else ''} {patterns}"
    raise InputError.at(where, problem, NEEDED, f"{command} downloads it; {ELSEWHERE}")


def _inner_folder(folder: Path) -> Path:
    """Return the transformers model in a folder by sentence-transformers, such as 0_CLIPModel; otherwise `folder`."""
    inner = sorted(folder.glob("0_*/config.json"))
    return inner[0].parent if inner and not (folder / "config.json").exists() else folder


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the config.json of a model folder, which must not run code of its own. InputError: it is missing or damaged,
    a settings file names code or more than 1,000 layers or is too large, or an entry is a pipe or device, even through
    a link."""
    for file in sorted(folder.iterdir()):
        status = file.stat() if file.exists() else None
        if status and not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise InputError(plain_fault(file, status.st_mode))
        if status and any(map(file.match, FILES[1:])) and status.st_size > DOCUMENT:
            problem = f"has {status.st_size:,} bytes"
            expected = f"at most {DOCUMENT:,}"
            raise InputError.at(file, problem, expected, "download it again")
    settings = _read_json(folder / "config.json")
    _check_settings(settings, folder / "config.json")
    for file in sorted(folder.glob("*config.json")):
        if "auto_map" in _read_json(file):
            fix = "use a model that transformers supports, or wrap it (docs/training.md)"
            where = f"{file} key auto_map"
            raise InputError.at(where, "requires the model's own code", "a model without any", fix)
    return settings


def _check_settings(settings: dict[str, Any], file: Path) -> None:
    """Raise InputError for attention code from elsewhere and for too many layers, at any depth of the settings."""
    for key, value in settings.items():
        where = f"{file} key {key}"
        if key.lstrip("_") == "attn_implementation" and value not in (None, *ATTENTION):
            raise InputError.at(where, f"is {excerpt(value)}", " or ".join(ATTENTION), "remove the key")
        if "layers" in key and isinstance(value, int) and value > MOST_LAYERS:
            raise InputError.at(
                where, f"is {excerpt(value)}", f"at most {MOST_LAYERS:,}", "download it again"
            )
        if isinstance(value, dict):
            _check_settings(value, file)


def check_folder(folder: Path, *, pictures: bool = True) -> dict[str, Any]:
    """Return the config.json of a model folder that can be loaded safely. InputError: as for `read_settings`; the
    weights are missing or pickled, or with `pictures` the image processor is missing."""
    settings = read_settings(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = ", ".join(file.name for file in sorted(folder.glob("*.bin"))[:3])
        problem = f"has its weights only as {pickled}, a pickle, which can run programs"
        fix = "if you trust the model, load it once and save it with save_pretrained(…)"
        raise InputError.at(str(folder), problem if pickled else "has no weights", "*.safetensors", fix)
    processors = ("preprocessor_config.json", "processor_config.json")
    if pictures and not any((folder / name).is_file() for name in processors):
        fix = "save the image processor there too (processor.save_pretrained)"
        raise InputError.at(str(folder), "has no image processor", processors[0], fix)
    return settings


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError.at(str(file), "is missing", NEEDED, "check the folder") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError.at(str(file), f"cannot be read as JSON: {error}", NEEDED) from None
    if not isinstance(value, dict):
        raise InputError.at(str(file), "is not a JSON object", NEEDED)
    return value


def fingerprint(folder: Path) -> str:
    """Return the SHA-256 (hex) of a model's weights, settings and tokenizer."""
    files = sorted({file for pattern in FILES for file in folder.glob(pattern)})
    lines = [f"{file.name}\0{file_sha256(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def load_model(folder: Path, where: str, *, methods: Sequence[str] = (), unread: str = "") -> Any:
    """Load a transformers model from safetensors, in evaluation mode; arguments as for `load_pretrained`. InputError: it
    cannot be loaded, lacks a method, or lacks weights (other than `unread` ones), which would be random."""
    import torch
    from transformers import AutoModel

    options = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, loading = _load(AutoModel, folder, where, "", "download it again", dtype=torch.float32, **options)
    if not all(hasattr(model, method) for method in methods):
        problem = f"is a {type(model).__name__}, which has no joint space of texts and pictures"
        raise InputError.at(where, problem, "a dual encoder such as CLIP or SigLIP", "name another model")
    missing = {*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])}
    missing = {name for name in missing if not (unread and name.startswith(unread))}
    if missing:
        count = f"{len(missing)} of the model's weights"
        problem = f"lacks {count}, which would get random values; the first: {min(missing)}"
        raise InputError.at(where, problem, "all weights", "download it again")
    return model.eval()


def load_processor(folder: Path, where: str) -> Any:
    """Load a model's image processor in its PIL version, which gives the same numbers on every machine. InputError: it
    has none."""
    from transformers import AutoImageProcessor

    fix = "save the processor with the model; wrap towers without one (docs/training.md)"
    return _load(AutoImageProcessor, folder, where, "its picture settings ", fix, backend="pil")


def load_tokenizer(folder: Path, where: str) -> Any:
    """Load a model's tokenizer. InputError: it has none."""
    from transformers import AutoTokenizer

    return _load(AutoTokenizer, folder, where, "its tokenizer ", "save the tokenizer with the model")


def _load(kind: Any, folder: Path, where: str, part: str, fix: str, **options: Any) -> Any:
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
