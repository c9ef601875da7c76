"""python -m coder_core.train [PRESET] [--key value …]: train, or continue, a run.

Without arguments it trains the demo (a baseline, CODER, and a run with sample weights) on built-in pictures; it
continues or leaves alone the runs that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from coder_core.config.command_line import parse, translate
from coder_core.config.presets import DEMO_RUNS, PRESETS, find_preset
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.runner import asks_for_help, command

ROOT = Path("checkpoints")
USAGE = """usage: python -m coder_core.train [PRESET] [--key value …]
       python -m coder_core.train --resume checkpoints/NAME [--threads 4 …]
       torchrun --nproc-per-node 8 -m coder_core.train PRESET …   (several GPUs; several machines: docs/training.md)
"""


@dataclass(frozen=True)
class TrainArguments:
    """What to train and where the run goes."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    root: Path = ROOT
    """Folder of the runs."""


def read_arguments(arguments: Sequence[str], default: Config, root: Path = ROOT) -> TrainArguments:
    """Read flags on top of a preset's configuration."""
    about = "Train an image-text retrieval model."
    return parse(
        arguments, TrainArguments(default, root), prog="python -m coder_core.train PRESET", description=about
    )


@command
def main(arguments: list[str]) -> int:
    """Train or continue a run."""
    console = open_console()
    arguments, notes = translate(arguments)
    print_faults(open_console(stderr=True), notes)
    job = _job(arguments, console)

    from coder_core.training import parallel

    try:
        job()
    finally:
        parallel.finish()
    return 0


def _job(arguments: list[str], console: Console) -> Callable[[], object]:
    """What the arguments ask for, not yet begun."""
    words = [word for argument in arguments[:2] for word in argument.split("=", 1)]
    if not arguments or (words[0] == "--root" and len(words) == 2 and len(arguments) <= 2):
        return partial(_train_demo, Path(words[1]) if arguments else ROOT, console)
    if words[0] == "--resume":
        if len(words) < 2:
            raise InputError(
                Fault("--resume", "needs the folder of a run", "for example --resume checkpoints/coder-demo")
            )
        return partial(_resume, Path(words[1]), arguments[1 if "=" in arguments[0] else 2 :], console)
    name = "" if words[0].startswith("-") else words[0]
    default = find_preset(name) if name else Config()
    if asks_for_help(arguments):
        _print_presets(console)
    parsed = read_arguments(arguments[1:] if name else arguments, default)
    return partial(
        _start, replace(parsed.config, name=parsed.config.name or name or "run"), parsed.root, console
    )


def _print_presets(console: Console) -> None:
    say(console, USAGE)
    table = Table(
        "preset", "what it is", title="Presets; every value of one can be changed", title_justify="left"
    )
    for name, preset in PRESETS.items():
        table.add_row(name, preset.about)
    console.print(table)
    console.print(
        "\nA model as it is (zero-shot) takes no training: "
        "python -m coder_core.embed pictures DATA --model NAME --name RUN\n"
        "Without a preset the three demo runs are trained. Every value, with the defaults of the preset named:\n"
    )


def _start(config: Config, root: Path, console: Console) -> None:
    from coder_core.training.launch import start_run

    start_run(config, root, console)


def _resume(folder: Path, arguments: Sequence[str], console: Console) -> None:
    if any(argument.split("=")[0] == "--name" for argument in arguments):
        fix = f"leave it out, or start another run with --name and without --resume; {folder} keeps its name"
        raise InputError(
            Fault("--name", "is given with --resume, which continues a run in its folder", fix=fix)
        )

    from coder_core.runs.load import read_config
    from coder_core.training.launch import continue_run

    overrides = read_arguments(arguments, read_config(folder)[0], folder.parent).config if arguments else None
    named = any(argument.split("=")[0] == "--bert" for argument in arguments)
    continue_run(folder, overrides, console, download=named)


def _train_demo(root: Path, console: Console) -> None:
    from coder_core.runs.status import read_status

    for name in DEMO_RUNS:
        folder = root / name
        if not folder.exists() or not any(folder.iterdir()):
            _start(replace(PRESETS[name].config, name=name), root, console)
        elif (read_status(folder) or {}).get("state") == "finished":
            say(console, f"{folder} is there and finished; it is left alone.")
        else:
            _resume(folder, (), console)


if __name__ == "__main__":
    raise SystemExit(main())
