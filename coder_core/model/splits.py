"""Read the splits of a data set for a configuration: region features, or pictures if there is an image tower."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.progress import Progress, named, silent
from coder_core.data.augmentation import exchange_captions
from coder_core.data.dataset import available_splits, read_split
from coder_core.data.split import Split, captions_checksum
from coder_core.demo import DEMO_FOLDER, make_demo
from coder_core.model.run_towers import RunTowers
from coder_core.ops import parallel

OPTIONAL = ("dev",)
DEMO = "demo"
TRAIN = "train"
CARD = "demo.json"  # in a folder of finished demo data


@dataclass(frozen=True)
class Splits:
    """Splits that were read."""

    splits: dict[str, Split]  # by name
    names: list[str]  # of all splits of the data
    faults: list[Fault]  # warnings and notes
    # "train_features", "train_captions" … → checksum, if reading the splits computed them; otherwise {}
    checksums: dict[str, str] = field(default_factory=dict)


def data_folder(name: str, progress: Progress = silent) -> Path:
    """Return the folder of a data set; "demo" is drawn on first use, in .cache/demo or the folder $CODER_DEMO."""
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
    names: Sequence[str],
    *,
    progress: Progress = silent,
) -> Splits:
    """Read splits of a data set for the model of a configuration, applying `wrong_captions` to train. Among several
    names, dev may be missing. `progress` covers checking the pictures. InputError: the data cannot be used."""
    pictures = config.data.pictures or None
    if towers is None or towers.image is None:
        splits = {}
        for name in names:
            if len(names) == 1 or name not in OPTIONAL or {"dev", "val"} & set(available_splits(folder)):
                splits[name] = _with_exchanged(read_split(folder, name, pictures=pictures), config)
        faults = [fault for split in splits.values() for fault in split.faults]
        return Splits(splits, available_splits(folder), faults)
    # Imported only for pictures: they load pyarrow and torch's data loaders.
    from coder_core.data.captioned.checking import PicturePreparation, read_picture_split
    from coder_core.data.captioned.decoding import usual_workers
    from coder_core.data.captioned.reading import read_captioned

    data = read_captioned(folder, config.data, pictures=pictures, only=names[0] if len(names) == 1 else "")
    result = Splits({}, [split.name for split in data.splits], stop_on_errors(data.faults))
    workers = config.towers.workers
    if workers < 0:
        workers = usual_workers(config.training.device)
    tower = towers.image
    preparation = PicturePreparation(tower.prepare, tower.local_features, tower.counts, workers)
    for name in names:
        if len(names) > 1 and name in OPTIONAL and name not in result.names:
            continue
        split, checksums = read_picture_split(
            data,
            name,
            preparation,
            skip_broken=config.data.skip_broken,
            progress=named(progress, f"checking the pictures of {name}"),
        )
        result.splits[name] = split = _with_exchanged(split, config)
        result.faults.extend(split.faults)
        if split.name == TRAIN:
            checksums |= {"captions": captions_checksum(split.captions, split.image_of_text)}
        result.checksums.update({f"{split.name}_{part}": sha for part, sha in checksums.items()})
    return result


def _with_exchanged(split: Split, config: Config) -> Split:
    """Return the train split with the share `wrong_captions` exchanged or left out; return other splits unchanged."""
    share = config.data.wrong_captions
    if split.name != TRAIN or share == 0:
        return split
    rows = exchange_captions(split.image_of_text, share, config.training.seed)
    used = np.arange(split.n_texts)
    done = "exchanged among images"
    if config.data.omit_wrong:
        rows = rows[rows == used]
        done = "left out"
        used = rows
    fact = f"captions of {split.name} {done}: {round(share * split.n_texts):,} of {split.n_texts:,}"
    note = Fault(f"--wrong-captions {share:g}", fact, severity="note")
    return replace(split.of_texts(rows, split.image_of_text[used]), faults=[*split.faults, note])
