"""The files a run is created with: `config.toml`, `words.json`, written together or not at all."""

from __future__ import annotations

from pathlib import Path

from coder_core.console.faults import Fault, InputError
from coder_core.runs.files import sealed


def create_run(folder: Path, files: dict[str, bytes | str]) -> Path:
    """Create a run folder holding `files` and their manifest, in one step.

    Raises:
        InputError: something already stands there, or the folder cannot be written.
    """
    folder = Path(folder)
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(_taken(folder))

    def fill(temporary: Path) -> None:
        for name, content in contents.items():
            sealed.write_file(temporary / name, content)

    try:
        return sealed.write_sealed(folder, fill, needed=sum(map(len, contents.values())))
    except sealed.WriteError as error:
        if folder.is_dir() and any(folder.iterdir()):  # somebody else was faster
            raise InputError(_taken(folder)) from error
        raise


def read_run_file(folder: Path, name: str) -> bytes:
    """One of the files a run was created with, verified.

    Raises:
        InputError: not there, cut or damaged, with the file named.
    """
    return sealed.read_checked(Path(folder), name)


def _taken(folder: Path) -> Fault:
    fix = "choose another name, or continue the run that is there"
    return Fault(str(folder), "exists and is not empty", "a free place for a new run", fix)
