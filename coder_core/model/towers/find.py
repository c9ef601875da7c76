"""Find a model of transformers on this machine, without torch and without asking the hub."""

from __future__ import annotations

from pathlib import Path

from coder_core.console.faults import Fault, InputError

FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
NEEDED = "a folder of save_pretrained, or the name of a downloaded model"


def find_model(name: str, revision: str = "", place: str = "") -> tuple[Path, str]:
    """The folder of a model that is on this machine, and its commit ("" for a folder).

    Args:
        name: a folder, or a name of the Hugging Face hub that was downloaded before.
        revision: of a name: a branch, tag or commit.
        place: who names it, for messages; "" is the command line.

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
    wanted = " ".join(f'"{pattern}"' for pattern in FILES)
    fix = f"hf download {name}{f' --revision {revision}' if revision else ''} --include {wanted} gets it"
    return InputError(Fault(place, problem, NEEDED, fix))
