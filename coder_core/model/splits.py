"""The splits that a configuration reads: region features of a data set, or its pictures where a tower reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.progress import Progress, named, silent
from coder_core.data.dataset import available_splits, read_split
from coder_core.data.split import Split
from coder_core.demo import DEMO_FOLDER, make_demo
from coder_core.model import parallel
from coder_core.model.run_towers import RunTowers

OPTIONAL = ("dev",)
DEMO = "demo"
CARD = "demo.json"  # in a folder of finished demo data


@dataclass(frozen=True)
class Splits:
    """Splits that were read.

    Args:
        splits: by the names asked for.
        names: of all splits of the data.
        faults: warnings and notes.
        checksums: "train_features", "train_captions" … where reading them gave them; {} otherwise.
    """

    splits: dict[str, Split]
    names: list[str]
    faults: list[Fault]
    checksums: dict[str, str] = field(default_factory=dict)


def data_folder(name: str, progress: Progress = silent) -> Path:
    """Return the folder of a data set; "demo" is made on first use, in .cache/demo or the folder $CODER_DEMO."""
    if not name:
        fix = "name the folder of {split}_ims.npy and {split}_caps.txt"
        raise InputError(Fault("--data", "is empty", "a folder, or demo", fix))
    if name != DEMO:
        return Path(name)
    custom = os.environ.get("CODER_DEMO")
    folder = Path(custom or DEMO_FOLDER)
    if custom and (folder / CARD).is_file():
        return folder  # made beforehand, perhaps of another size
    if parallel.rank() == 0:
        make_demo(folder, progress=progress)
    parallel.barrier()
    return folder


def read_splits(
    config: Config,
    folder: Path,
    towers: RunTowers | None,
    wanted: Sequence[str],
    *,
    progress: Progress = silent,
) -> Splits:
    """Read splits of a data set as the model of a configuration reads them.

    Args:
        config: of the run.
        folder: of the data.
        towers: of the run.
        wanted: names of splits; of several, dev may be missing.
        progress: of checking pictures.

    Raises:
        InputError: the data cannot be used.
    """
    if towers is None or towers.image is None:
        return _with_features(config, folder, wanted)
    from coder_core.data.captioned.checking import read_picture_split
    from coder_core.data.captioned.decoding import usual_workers
    from coder_core.data.captioned.reading import read_captioned

    only = wanted[0] if len(wanted) == 1 else ""
    data = read_captioned(folder, config.data, pictures=config.data.pictures or None, only=only)
    faults = stop_on_errors(data.faults)
    names = [split.name for split in data.splits]
    asked = config.towers.workers
    workers = usual_workers(config.training.device) if asked < 0 else asked
    splits, checksums = dict[str, Split](), dict[str, str]()
    for name in wanted:
        if len(wanted) > 1 and name in OPTIONAL and name not in names:
            continue
        split, sums = read_picture_split(
            data,
            name,
            towers.image.prepare,
            towers.image.local_features,
            towers.image.counts,
            workers=workers,
            skip_broken=config.data.skip_broken,
            progress=named(progress, f"checking the pictures of {name}"),
        )
        splits[name] = split
        faults = faults + split.faults
        checksums |= {f"{split.name}_{part}": checksum for part, checksum in sums.items()}
    return Splits(splits, names, faults, checksums)


def _with_features(config: Config, folder: Path, wanted: Sequence[str]) -> Splits:
    pictures = config.data.pictures or None
    splits = {}
    for name in wanted:
        if len(wanted) == 1 or name not in OPTIONAL or {"dev", "val"} & set(available_splits(folder)):
            splits[name] = read_split(folder, name, pictures=pictures)
    return Splits(
        splits, available_splits(folder), [fault for split in splits.values() for fault in split.faults]
    )
