"""Find folders of pretrained models on this machine, check their settings, and fingerprint them.

Nothing is downloaded, no code that comes with a model runs, and nothing is unpickled.
"""

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

from coder_core.console.faults import InputError
from coder_core.console.plain_files import DOCUMENT, excerpt, plain_fault
from coder_core.files.sealed import file_sha256

FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
NEEDED = "a folder of save_pretrained, or the name of a downloaded model"
ELSEWHERE = (
    "where its main branch has no safetensors, give both commands the --revision of a pull request that has them "
    "(openai/clip-vit-base-patch32: refs/pr/66), or name another model (openai/clip-vit-large-patch14)"
)
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
TOKENIZERS = ("tokenizer.json", "vocab.*", "*.model", "*.tiktoken")
MOST_LAYERS = 1_000  # building a model of 300,000 takes minutes
# implementations inside transformers; for any other name it would download a kernel and run it
ATTENTION = ("eager", "sdpa")


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
    check_files(folder)
    settings = read_object(folder / "config.json")
    _check_settings(settings, folder / "config.json")
    return settings


def check_files(folder: Path) -> None:
    """Raise InputError if a settings file in a model's folder names code or is too large, or if an entry is a pipe or a
    device, even through a link."""
    for file in sorted(folder.iterdir()):
        status = file.stat() if file.exists() else None
        if status and not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise InputError(plain_fault(file, status.st_mode))
        if status and any(map(file.match, FILES[1:])) and status.st_size > DOCUMENT:
            problem = f"has {status.st_size:,} bytes"
            expected = f"at most {DOCUMENT:,}"
            raise InputError.at(file, problem, expected, "download it again")
    for file in sorted(folder.glob("*config.json")):
        if "auto_map" in read_object(file):
            fix = "use a model that transformers supports, or wrap it (docs/training.md)"
            where = f"{file} key auto_map"
            raise InputError.at(where, "requires the model's own code", "a model without any", fix)


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


def check_model_folder(folder: Path, *, pictures: bool = True) -> dict[str, Any]:
    """Return the config.json of a model folder that can be loaded safely. InputError: as for `read_settings`; the
    weights are missing or pickled, or with `pictures` the image processor is missing."""
    settings = read_settings(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(folder.glob("*.bin"))
        if not pickled:
            raise InputError.at(folder, "has no weights", "*.safetensors", "download it again")
        names = ", ".join(file.name for file in pickled[:3])
        problem = f"has its weights only as {names}, a pickle, which can run programs"
        fix = "if you trust the model, load it once and save it with save_pretrained(…)"
        if len(pickled) == 1:
            fix = f"name the file itself, {pickled[0]}, which is read without running any"
        raise InputError.at(folder, problem, "*.safetensors", fix)
    if pictures and not has_processor(folder):
        fix = "save the image processor there too (processor.save_pretrained)"
        raise InputError.at(str(folder), "has no image processor", PROCESSORS[0], fix)
    return settings


def has_processor(folder: Path) -> bool:
    """Return True if a model's folder has the settings of an image processor."""
    return any((folder / name).is_file() for name in PROCESSORS)


def has_tokenizer(folder: Path) -> bool:
    """Return True if a model's folder has a file with the words of a tokenizer."""
    return any(file.is_file() for pattern in TOKENIZERS for file in folder.glob(pattern))


def read_object(file: Path) -> dict[str, Any]:
    """Read a JSON object of a model. InputError: the file is missing or has another form."""
    try:
        value = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError.at(str(file), "is missing", NEEDED, "check the folder") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError.at(str(file), f"cannot be read as JSON: {error}", NEEDED) from None
    if not isinstance(value, dict):
        raise InputError.at(str(file), "is not a JSON object", NEEDED)
    return value


def model_fingerprint(folder: Path) -> str:
    """Return the SHA-256 (hex) of a model's weights, settings and tokenizer."""
    files = sorted({file for pattern in FILES for file in folder.glob(pattern)})
    lines = [f"{file.name}\0{file_sha256(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
