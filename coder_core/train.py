"""python -m coder_core.train [PRESET] [--key value …]: train, or continue, a run.

Without arguments it trains the demo pair (baseline, then CODER) on built-in pictures; runs that are there already are
continued or left alone.
"""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from coder_core.config.presets import DEMO_PAIR, PRESETS
from coder_core.config.schema import Config
from coder_core.console.display import print_faults, say
from coder_core.console.exit_status import leave
from coder_core.console.faults import InputError
from coder_core.runs.files.status import read_status
from coder_core.runs.load import read_config
from coder_core.training import parallel
from coder_core.training.launch import StoppedError, continue_run, start_run

ROOT = Path("checkpoints")
USAGE = """usage: python -m coder_core.train [PRESET] [--key value …]
       python -m coder_core.train --resume checkpoints/NAME [--threads 4 …]
       torchrun --nproc-per-node 8 -m coder_core.train PRESET …   (several GPUs; several machines: docs/training.md)
"""


@dataclass(frozen=True)
class _Arguments:
    config: Annotated[Config, tyro.conf.arg(name="")]
    root: Path = ROOT
    """Folder of the runs."""


def _say_presets(console: Console) -> None:
    say(console, USAGE)
    table = Table("preset", "what it is", title="Presets; every value of one can be changed", title_justify="left")
    for name, preset in PRESETS.items():
        table.add_row(name, preset.about)
    console.print(table)
    console.print("\nWithout a preset the demo pair is trained. Every value, with the defaults of the preset named:\n")


def _parse(arguments: Sequence[str], default: Config, root: Path) -> _Arguments:
    return tyro.cli(
        tyro.conf.OmitArgPrefixes[_Arguments],
        prog="python -m coder_core.train PRESET",
        description="Train an image-text retrieval model.",
        args=list(arguments),
        default=_Arguments(default, root),
    )


def _train_pair(root: Path, console: Console) -> None:
    for name in DEMO_PAIR:
        folder = root / name
        if not folder.exists() or not any(folder.iterdir()):
            start_run(replace(PRESETS[name].config, name=name), root, console)
            continue
        status = read_status(folder) or {}
        if status.get("state") == "finished":
            say(console, f"{folder} is there and finished; it is left alone.")
        else:
            continue_run(folder, None, console)


def _dispatch(arguments: list[str], console: Console) -> None:
    root = ROOT
    if len(arguments) == 1 and arguments[0].startswith("--root="):
        arguments = ["--root", arguments[0].removeprefix("--root=")]
    if arguments[:1] == ["--root"] and len(arguments) == 2:
        root, arguments = Path(arguments[1]), []
    if not arguments:
        return _train_pair(root, console)
    if arguments[0] == "--resume":
        if len(arguments) < 2:
            raise SystemExit("--resume needs the folder of a run, for example: --resume checkpoints/demo")
        folder = Path(arguments[1])
        stored, _ = read_config(folder)
        asked = _parse(arguments[2:], stored, folder.parent).config if arguments[2:] else None
        continue_run(folder, asked, console)
        return None
    name = arguments[0] if not arguments[0].startswith("-") else ""
    if name and name not in PRESETS:
        raise SystemExit(f"there is no preset {name!r}; there are {', '.join(PRESETS)} (see --help)")
    if {"-h", "--help"} & set(arguments):
        _say_presets(console)
    parsed = _parse(arguments[1:] if name else arguments, PRESETS[name].config if name else Config(), root)
    start_run(replace(parsed.config, name=parsed.config.name or name or "run"), parsed.root, console)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0, 1 for an input that cannot be used, 3 when a signal stopped a saved run, 130 for Ctrl-C outside of one.
    """
    console = Console(stderr=False)
    try:
        _dispatch(list(sys.argv[1:] if arguments is None else arguments), console)
    except InputError as error:
        print_faults(Console(stderr=True), error.faults)
        return 1
    except StoppedError as stopped:
        say(console, str(stopped))
        return 3
    except KeyboardInterrupt:
        say(console, "interrupted before or after training; nothing is lost")
        return 130
    finally:
        parallel.finish()
    return 0


if __name__ == "__main__":
    leave(main)
