"""Pretrained models of transformers: found on this machine, checked, fingerprinted, loaded from safetensors.

Nothing is downloaded, no code of the model's own is run, and nothing pickled is opened. torch and transformers are
imported when a model is loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coder_core.console.faults import Fault, InputError

TRANSFORMERS, OWN = "transformers", "own"  # values of the key "kind" of `about`
FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
NEEDED = "a folder of save_pretrained, or the name of a downloaded model"
LONGEST_UNKNOWN = 512  # tokens, where neither model nor tokenizer says
PADDED_WHOLE = ("siglip", "siglip2")  # trained on texts padded to their longest length, without a mask
LOWER_CASED = ("GemmaTokenizer", "GemmaTokenizerFast", "Siglip2Tokenizer")  # SigLIP 2 learned small letters


@dataclass(frozen=True)
class Pretrained:
    """A loaded model.

    Args:
        folder: its files.
        place: the flag that names it, for messages.
        settings: of its config.json.
        about: description stored with a run, by which the same model is found again.
        model: of transformers, float32, in evaluation mode.
    """

    folder: Path
    place: str
    settings: dict[str, Any]
    about: dict[str, Any]
    model: Any


def load_pretrained(
    name: str,
    *,
    place: str = "",
    revision: str = "",
    expected: str = "",
    fix: str = "",
    methods: Sequence[str] = (),
) -> Pretrained:
    """Load a model of transformers.

    Args:
        name: a folder, or the name of a downloaded model.
        place: who names the model, for messages; "" is the command line.
        revision: of a name: a branch, tag or commit.
        expected: fingerprint that the model must have; any when "".
        fix: advice where it has another.
        methods: of a dual encoder, which the model must have.

    Raises:
        InputError: not here, unsafe, incomplete, or not the expected one.
    """
    place = place or f"--model {name}"
    folder, commit = find_model(name, revision, place)
    settings = check_folder(folder)
    found = fingerprint(folder)
    if expected and found != expected:
        problem = f"is another model now: its files have the fingerprint {found[:12]}"
        raise InputError(Fault(place, problem, expected[:12], fix or "restore the model"))
    about = {
        "kind": TRANSFORMERS,
        "model": name if commit else str(folder.resolve()),
        "revision": commit,
        "type": str(settings.get("model_type", "")),
        "fingerprint": found,
    }
    return Pretrained(folder, place, settings, about, load_model(folder, place, methods=methods))


def find_model(name: str, revision: str = "", place: str = "") -> tuple[Path, str]:
    """The folder of a model that is on this machine, and its commit ("" for a folder); arguments as above.

    Raises:
        InputError: it is not here; the message holds the command that gets it.
    """
    if Path(name).is_dir():
        return Path(name), ""
    place = place or f"--model {name}"
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, revision=revision or None, local_files_only=True))
    except (LocalEntryNotFoundError, FileNotFoundError):
        raise _not_here(place, name, revision, "is not on this machine") from None
    except (HFValidationError, ValueError, OSError):
        problem = "is neither a folder nor the name of a model"
        raise InputError(Fault(place, problem, NEEDED, "check the path")) from None
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        raise _not_here(place, name, revision, "is here without weights in safetensors")
    return folder, folder.name


def _not_here(place: str, name: str, revision: str, problem: str) -> InputError:
    patterns = " ".join(f'"{pattern}"' for pattern in FILES)
    fix = f"hf download {name}{f' --revision {revision}' if revision else ''} --include {patterns} gets it"
    return InputError(Fault(place, problem, NEEDED, fix))


def read_settings(folder: Path) -> dict[str, Any]:
    """The config.json of a model folder that runs no code of its own.

    Raises:
        InputError: it is missing or damaged, or a settings file names code.
    """
    settings = _read_json(folder / "config.json")
    for file in sorted(folder.glob("*config.json")):
        if "auto_map" in _read_json(file):
            fix = "use a model that transformers knows, or wrap it (docs/training.md)"
            place = f"{file} key auto_map"
            raise InputError(Fault(place, "names code to run", "no code of the model's own", fix))
    return settings


def check_folder(folder: Path, *, pictures: bool = True) -> dict[str, Any]:
    """The config.json of a model folder that can be loaded safely.

    Raises:
        InputError: as for `read_settings`; the weights are missing or pickled, or settings of pictures are missing.
    """
    settings = read_settings(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = ", ".join(file.name for file in sorted(folder.glob("*.bin"))[:3])
        weights = (
            f"its weights only as {pickled}, a pickle, which can run programs" if pickled else "no weights"
        )
        fix = "open it once where you trust it, and save_pretrained(…) it"
        raise InputError(Fault(str(folder), f"has {weights}", "*.safetensors", fix))
    processors = ("preprocessor_config.json", "processor_config.json")
    if pictures and not any((folder / name).is_file() for name in processors):
        fix = "save the image processor there too (processor.save_pretrained)"
        raise InputError(Fault(str(folder), "has no settings of pictures", processors[0], fix))
    return settings


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(Fault(str(file), "is missing", NEEDED, "check the folder")) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(Fault(str(file), f"cannot be read as JSON: {error}", NEEDED)) from None
    if not isinstance(value, dict):
        raise InputError(Fault(str(file), "holds no JSON object", NEEDED))
    return value


def fingerprint(folder: Path) -> str:
    """The sha256 (hex) of a model's weights, settings and tokenizer."""
    total = hashlib.sha256()
    for file in sorted({file for pattern in FILES for file in folder.glob(pattern)}):
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        total.update(f"{file.name}\0{digest}\n".encode())
    return total.hexdigest()


def load_model(folder: Path, place: str, *, methods: Sequence[str] = (), unread: str = "") -> Any:
    """A model of transformers in evaluation mode, from safetensors.

    Args:
        folder: of the model.
        place: who names it, for messages.
        methods: as for `load_pretrained`.
        unread: beginning of the names of weights that may be missing, because nobody reads them.

    Raises:
        InputError: it cannot be loaded, lacks a method, or lacks weights, which would be random.
    """
    import torch
    from transformers import AutoModel

    options = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, loading = _load(AutoModel, folder, place, "", "download it again", dtype=torch.float32, **options)
    if not all(hasattr(model, method) for method in methods):
        problem = f"is a {type(model).__name__}, which has no text encoder and picture encoder of one space"
        raise InputError(Fault(place, problem, "a dual encoder such as CLIP or SigLIP", "name another model"))
    missing = {*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])}
    missing = {name for name in missing if not (unread and name.startswith(unread))}
    if missing:
        count = f"{len(missing)} of the model's weights"
        problem = f"lacks {count}, which would be random; the first: {min(missing)}"
        raise InputError(Fault(place, problem, "all weights", "download it again"))
    return model.eval()


def load_processor(folder: Path, place: str) -> Any:
    """The image processor of a model in its PIL form, which gives the same numbers on every machine.

    Raises:
        InputError: there is none.
    """
    from transformers import AutoImageProcessor

    fix = "save the processor with the model; wrap towers without one (docs/training.md)"
    return _load(AutoImageProcessor, folder, place, "its picture settings ", fix, backend="pil")


def load_tokenizer(folder: Path, place: str) -> Any:
    """The tokenizer of a model.

    Raises:
        InputError: there is none.
    """
    from transformers import AutoTokenizer

    return _load(AutoTokenizer, folder, place, "its tokenizer ", "save the tokenizer with the model")


def _load(kind: Any, folder: Path, place: str, part: str, fix: str, **options: Any) -> Any:
    try:
        with quiet():
            return kind.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **options)
    except Exception as error:  # a damaged file raises anything; transformers names a missing library
        reason = " ".join((str(error).strip() or type(error).__name__).split())[:300]
        raise InputError(Fault(place, f"{part}cannot be loaded: {reason}", NEEDED, fix)) from error


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
