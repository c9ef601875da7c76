"""coder-lab train [PRESET] [--key value …]: train, or continue, a run.

Without arguments it trains the demo (a baseline, CODER, and a run with sample weights) on built-in pictures; it
continues unfinished runs and leaves finished ones alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from coder_core.config.presets import PRESETS, find_preset
from coder_core.config.schema import Config, named_settings, parse, replaced
from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.runner import asks_for_help, command

ROOT = Path("checkpoints")
USAGE = """usage: coder-lab train [PRESET] [--key value …]
       coder-lab train --resume checkpoints/NAME [--threads 4 …]
       torchrun --nproc-per-node 8 -m coder_core.train PRESET …   (several GPUs; several machines: docs/training.md)
"""
AFTER_PRESETS = """
A model as it is (zero-shot) needs no training: coder-lab embed pictures DATA --model NAME --name RUN
Without any argument, the three demo runs are trained. All flags, with the defaults of the named preset:
"""


@dataclass(frozen=True)
class TrainArguments:
    """Choose the training and the folder of the run."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    root: Path = ROOT  # Folder of the runs.
    resume: Path | None = None  # Folder of a run to continue.
    fit_warmup: bool = False  # Shorten a warm-up too long for the run even if it is given.
    progress: Path | None = None  # Write progress of the preparation into this file (JSON).
    preset: tyro.conf.Positional[str] = ""  # Configuration to start from.


def read_arguments(arguments: Sequence[str], default: Config) -> TrainArguments:
    """Read flags, with a preset's configuration as defaults."""
    description = "Train an image-text retrieval model."
    prog = "coder-lab train"
    return parse(arguments, TrainArguments(default), prog=prog, description=description)


@command
def main(arguments: list[str]) -> int:
    """Train or continue a run; with --clean, repeating the command continues it too."""
    console = open_console()
    without_help = [word for word in arguments if not asks_for_help([word])]
    parsed = read_arguments(without_help, Config()) if without_help else TrainArguments(Config())
    default = find_preset(parsed.preset) if parsed.preset else Config()
    if asks_for_help(arguments):
        _print_presets(console)
        read_arguments(["--help"], default)
    if parsed.resume is not None:
        _check_resume(parsed)

    from coder_core.ops import parallel
    from coder_core.train_runs import Training

    named = {setting.key: setting.of(parsed.config) for setting in named_settings(arguments)}
    training = Training(console, parsed.progress)
    try:
        if parsed.resume is not None:
            training.resume(parsed.resume, named)
        elif parsed.preset or named or parsed.config.name:
            name = parsed.config.name or parsed.preset or "run"
            config = replace(replaced(default, named), name=name)
            folder = parsed.root / name
            if config.cleaning.clean and (folder / "config.toml").is_file():
                values = {key: value for key, value in named.items() if key != "reviews"}
                training.resume(folder, values, config)
            else:
                fit = parsed.fit_warmup or "warmup_steps" not in named
                training.start(config, parsed.root, fit_warmup=fit)
        else:
            training.train_demo(parsed.root)
    finally:
        parallel.finish()
    return 0


def _check_resume(parsed: TrainArguments) -> None:
    """Raise InputError if a name or a preset is given for a run that has both."""
    given = {"--name": parsed.config.name, "PRESET": parsed.preset}
    problem = "is given with --resume, which continues a run in its folder"
    fix = "drop it: a resumed run keeps its name and settings. To change them, start a new run"
    stop_on_errors(Fault(flag, problem, fix=fix) for flag, value in given.items() if value)


def _print_presets(console: Console) -> None:
    say(console, USAGE)
    table = Table("preset", "trains", title="Presets; flags change any of their values", title_justify="left")
    for name, preset in PRESETS.items():
        table.add_row(name, preset.about)
    console.print(table)
    console.print(AFTER_PRESETS)


if __name__ == "__main__":
    raise SystemExit(main())
