"""Row × seed -> an ordinary run folder: which are finished, which go on, which are still to begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from coder_core.ablation.rows import AblationTable, Row
from coder_core.ablation.values import as_flags, row_config
from coder_core.config.checks import problems
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.write import list_splits
from coder_core.runs.files.status import read_status
from coder_core.runs.load import best_save, read_config
from coder_core.training.launch import MAY_CHANGE, differences

State = Literal["finished", "begun", "new"]
TRAINED_SPLIT = "dev"  # the trainer evaluates it itself


@dataclass(frozen=True)
class PlannedRun:
    """One row with one seed.

    Args:
        row: of the table.
        seed: of the run.
        folder: of the run.
        preset: it starts from.
        config: every value.
    """

    row: Row
    seed: int
    folder: Path
    preset: str
    config: Config


def run_name(row: Row, seed: int) -> str:
    """Of the run folder."""
    return f"{row.name}-s{seed}"


def plan(
    table: AblationTable, rows: Iterable[Row], seeds: Sequence[int], *, preset: str, overrides: Mapping[str, Any],
    root: Path,
) -> list[PlannedRun]:  # fmt: skip
    """All runs of the rows, seed by seed, so that a whole table stands early.

    Raises:
        InputError: a row cannot be built from the preset, has impossible values, or `root` holds its run with others.
    """
    found = []
    for seed in seeds:
        for row in rows:
            name = run_name(row, seed)
            start, config = row_config(table, row, preset, overrides, name=name, seed=seed)
            stop_on_errors(problems(config))
            found.append(PlannedRun(row, seed, root / name, start, config))
    for planned in found:
        _check_same(planned)
    return found


def _check_same(planned: PlannedRun) -> None:
    """A run that is there must be the one that is asked for."""
    if not (planned.folder / "config.toml").is_file():
        return
    stored, _ = read_config(planned.folder)
    changed = {
        key: values for key, values in differences(stored, planned.config).items() if key not in MAY_CHANGE
    }  # fmt: skip
    if changed:
        told = ", ".join(f"{key} {was!r} (now {now!r})" for key, (was, now) in changed.items())
        fix = "give the values it was begun with, or choose another --root"
        raise InputError(Fault(str(planned.folder), f"is a run with other values: {told}", fix=fix))


def state_of(folder: Path) -> State:
    """How far a run is."""
    if not (folder / "config.toml").is_file():
        return "new"
    status = read_status(folder) or {}
    return "finished" if status.get("state") == "finished" else "begun"


def is_evaluated(folder: Path, split: str) -> bool:
    """Whether the run's best model has been evaluated on a split."""
    return split in list_splits(folder) and open_analysis(folder, split).fingerprint == best_save(folder).fingerprint


def commands(planned: PlannedRun, split: str, *, threads: int = 0) -> list[list[str]]:
    """What is still to be run for it, in this order; nothing when it is finished and evaluated.

    Args:
        planned: the run.
        split: to evaluate.
        threads: CPU threads of the run; 0 leaves what the configuration says.
    """
    python = [sys.executable, "-P", "-u", "-m"]
    folder, state = planned.folder, state_of(planned.folder)
    found = []
    shared = [f"--threads={threads}"] if threads else []
    if state == "new":
        flags = [flag for flag in as_flags(planned.config, planned.preset) if not (threads and "--threads" in flag)]
        place = [f"--root={folder.parent}", f"--name={folder.name}"]
        found.append([*python, "coder_core.train", planned.preset, *flags, *shared, *place])
    elif state == "begun" or not is_evaluated(folder, TRAINED_SPLIT):
        found.append([*python, "coder_core.train", "--resume", str(folder), *shared])
    if split != TRAINED_SPLIT and not (state == "finished" and is_evaluated(folder, split)):
        data = f"--data={planned.config.data.data}"
        found.append([*python, "coder_core.evaluate", str(folder), f"--split={split}", data])
    return found


def processors() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return named.split(",")[:count] if named else [str(i) for i in range(count)]
