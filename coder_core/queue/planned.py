"""A planned run: its settings, the state of its folder, and the commands that are left."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coder_core.config.presets import PRESETS
from coder_core.config.schema import MAY_CHANGE, Config, changed_flags, differences
from coder_core.console.faults import InputError
from coder_core.console.processes import module_command
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import list_splits
from coder_core.runs.load import best_save, read_config
from coder_core.runs.record import read_status

State = Literal["finished", "begun", "new"]
Command = tuple[str, ...]
TRAINED_SPLIT = "dev"  # the trainer itself evaluates this split


@dataclass(frozen=True)
class PlannedRun:
    """A run to train and evaluate, unless that is done already."""

    folder: Path
    config: Config
    preset: str  # the one it starts from
    row: str = ""  # of an ablation
    reads: tuple[Path, ...] = ()  # runs that must finish first
    fit_warmup: bool = False  # the trainer may shorten the warm-up
    rank: str = "auto"  # which queries of a further split are ranked, as in evaluate --rank

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.folder.name


def state_of(folder: Path) -> State:
    """Return the state of a run."""
    if not (folder / "config.toml").is_file():
        return "new"
    return "finished" if (read_status(folder) or {}).get("state") == "finished" else "begun"


def is_evaluated(folder: Path, split: str) -> bool:
    """True if the run's best model has been evaluated on a split."""
    if split not in list_splits(folder):
        return False
    return open_analysis(folder, split).fingerprint == best_save(folder).fingerprint


def check_same_values(folder: Path, config: Config, *, fitted: bool = False) -> None:
    """Refuse (InputError) to continue a run that was started with values other than the planned ones; with `fitted`, the
    warm-up may differ, and a batch that was larger than the train split."""
    if state_of(folder) == "new":
        return

    stored, about = read_config(folder)
    may_differ = set(MAY_CHANGE)
    if config.towers.projection == "none":
        may_differ.add("model.dimension")  # set by the towers
    if fitted:
        may_differ.add("training.warmup_steps")
        batch = config.training.batch_size
        if batch > about.get("train_captions", batch):
            may_differ.add("training.batch_size")

    changes = differences(stored, config)
    unlike = [f"{key} {old!r} (now {new!r})" for key, (old, new) in changes.items() if key not in may_differ]
    if unlike:
        fix = "give the values it was started with, or choose another --name or --root"
        raise InputError.at(folder, f"was started with other values: {', '.join(unlike)}", fix=fix)


def commands(run: PlannedRun, split: str, *, threads: int = 0) -> list[Command]:
    """Return the commands still to run, in order; none if the run is finished and evaluated. With `threads` 0 the
    configuration's number of threads is used."""
    state = state_of(run.folder)
    left = []
    if state == "new":
        left.append(_start(run, threads))
    elif state == "begun" or not is_evaluated(run.folder, TRAINED_SPLIT):
        left.append(_train(["--resume", str(run.folder)], threads))
    if split != TRAINED_SPLIT and not (state == "finished" and is_evaluated(run.folder, split)):
        data = f"--data={run.config.data.data}"
        evaluation = [str(run.folder), f"--split={split}", data, f"--rank={run.rank}"]
        left.append(module_command("coder_core.evaluate", *evaluation))
    return left


def _start(run: PlannedRun, threads: int) -> Command:
    flags = changed_flags(PRESETS[run.preset].config, run.config)
    warmup = f"--warmup-steps={run.config.training.warmup_steps}"
    if warmup not in flags:  # given explicitly, it stays as planned
        flags.insert(0, warmup)
    if threads:
        flags = [flag for flag in flags if not flag.startswith("--threads=")]
    if run.fit_warmup:
        flags.append("--fit-warmup")
    place = [f"--root={run.folder.parent}", f"--name={run.name}"]
    return _train([run.preset, *flags, *place], threads)


def _train(arguments: Sequence[str], threads: int) -> Command:
    shared = [f"--threads={threads}"] if threads else []
    return (*module_command("coder_core.train"), *arguments, *shared)


def gpus() -> list[str]:
    """List the GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return names.split(",")[:count] if names else [str(number) for number in range(count)]
