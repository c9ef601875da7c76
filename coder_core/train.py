"""python -m coder_core.train [PRESET] [--key value …]: train, or continue, a run.

Without arguments it trains the demo (a baseline, CODER, and a run with sample weights) on built-in pictures; it
continues unfinished runs and leaves finished ones alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from coder_core.config.presets import DEMO_RUNS, PRESETS, find_preset
from coder_core.config.schema import Config, named_settings, parse, replaced
from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.runner import asks_for_help, command

ROOT = Path("checkpoints")
USAGE = """usage: python -m coder_core.train [PRESET] [--key value …]
       python -m coder_core.train --resume checkpoints/NAME [--threads 4 …]
       torchrun --nproc-per-node 8 -m coder_core.train PRESET …   (several GPUs; several machines: docs/training.md)
"""
AFTER_PRESETS = """
A model as it is (zero-shot) needs no training: python -m coder_core.embed pictures DATA --model NAME --name RUN
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
    prog = "python -m coder_core.train"
    return parse(arguments, TrainArguments(default), prog=prog, description=description)


@command
def main(arguments: list[str]) -> int:
    """Train or continue a run; with --clean, repeating the command continues it too."""
    console = open_console()
    parsed = read_arguments([word for word in arguments if not asks_for_help([word])], Config())
    default = find_preset(parsed.preset) if parsed.preset else Config()
    if asks_for_help(arguments):
        _print_presets(console)
        read_arguments(["--help"], default)

    from coder_core.ops import parallel

    named = {setting.key: setting.of(parsed.config) for setting in named_settings(arguments)}
    try:
        if parsed.resume is not None:
            conflicts = {"--name": parsed.config.name, "PRESET": parsed.preset}
            problem = "is given with --resume, which continues a run in its folder"
            fix = f"leave it out, or start another run without --resume; {parsed.resume} keeps its name and values"
            stop_on_errors(Fault(flag, problem, fix=fix) for flag, value in conflicts.items() if value)
            _resume(parsed.resume, named, console, parsed.progress)
        elif parsed.preset or named or parsed.config.name:
            name = parsed.config.name or parsed.preset or "run"
            config = replace(replaced(default, named), name=name)
            folder = parsed.root / name
            if config.cleaning.clean and (folder / "config.toml").is_file():
                values = {key: value for key, value in named.items() if key != "reviews"}
                _resume(folder, values, console, parsed.progress, config)
            else:
                fit = parsed.fit_warmup or "warmup_steps" not in named
                _start(config, parsed.root, console, fit_warmup=fit, progress_file=parsed.progress)
        else:
            _train_demo(parsed.root, console, parsed.progress)
    finally:
        parallel.finish()
    return 0


def _print_presets(console: Console) -> None:
    say(console, USAGE)
    table = Table("preset", "trains", title="Presets; flags change any of their values", title_justify="left")
    for name, preset in PRESETS.items():
        table.add_row(name, preset.about)
    console.print(table)
    console.print(AFTER_PRESETS)


def _start(config: Config, root: Path, console: Console, **options: Any) -> None:
    from coder_core.training.launch import start_run

    if config.cleaning.clean:
        from coder_core.cleaning import without_wrong_pairs

        config = without_wrong_pairs(config, root, console, options["progress_file"])
    start_run(config, root, console, **options)


def _resume(
    folder: Path,
    named: Mapping[str, Any],
    console: Console,
    progress: Path | None,
    asked: Config | None = None,
) -> None:
    """Continue a run with the values given on the command line. InputError: it did not begin with those of `asked`."""
    from coder_core.queue.planned import check_same_values
    from coder_core.runs.load import read_config
    from coder_core.training.launch import continue_run

    stored = read_config(folder)[0]
    if asked is not None:
        check_same_values(folder, asked, fitted="warmup_steps" not in named)
    overrides = replaced(stored, named) if named else None
    continue_run(folder, overrides, console, download="bert" in named, progress_file=progress)


def _train_demo(root: Path, console: Console, progress: Path | None) -> None:
    from coder_core.runs.status import read_status

    for name in DEMO_RUNS:
        folder = root / name
        if not folder.exists() or not any(folder.iterdir()):
            _start(replace(PRESETS[name].config, name=name), root, console, progress_file=progress)
        elif (read_status(folder) or {}).get("state") == "finished":
            say(console, f"{folder} is finished; nothing to do.")
        else:
            _resume(folder, {}, console, progress)


if __name__ == "__main__":
    raise SystemExit(main())
