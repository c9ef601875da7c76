"""Sources of the command look: pictures with or without splits, tables of vectors, and the source of an earlier run."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from coder_core.api import open_run
from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.collection import CaptionedData, CaptionedSplit
from coder_core.data.captioned.reading import read_captioned
from coder_core.files.matrices import list_columns
from coder_core.model.reader import data_folder

PREFERRED = ("dev", "test", "train")


def read_pictures_or_all(
    source: Path, split: str, pictures: Path | None, *, skip_broken: bool
) -> tuple[CaptionedData, bool]:
    """Read the pictures of `source`; if the data has no splits and `split` is empty, as one split, dev, and return True
    as well."""
    folder = data_folder(str(source))
    data = read_captioned(folder, ReadingArguments(skip_broken=skip_broken), pictures=pictures)
    if not data.dealt or split:
        return data, False

    whole = ReadingArguments(skip_broken=skip_broken, dev_share=1.0, test_share=0.0)
    return read_captioned(folder, whole, pictures=pictures), True


def choose_split(data: CaptionedData, name: str) -> CaptionedSplit:
    """Return the named split, or else the first of dev, test and train, or else the first of all."""
    if name:
        return data.split(name)
    by_name = {split.name: split for split in data.splits}
    return next((by_name[usual] for usual in PREFERRED if usual in by_name), data.splits[0])


def has_vectors(table: Path) -> bool:
    """True if a Parquet table has columns of vectors."""
    return bool(list_columns(pq.read_schema(table)))


def check_same_source(manifest: Path, split: CaptionedSplit, model: str) -> None:
    """Raise InputError if a finished analysis, named by its manifest, was made of other captions or by another model."""
    folder = manifest.parents[2]
    run = open_run(folder)
    stored = json.loads((manifest.parent / "towers.json").read_text("utf-8")).get("model", "")
    names = (model, str(Path(model).resolve()))
    differences = []
    if list(run.captions(split.name)) != list(split.captions):
        differences.append("the data have changed")
    if stored not in names:
        differences.append(f"it was embedded with {stored}")
    if differences:
        fix = "give another --name, or remove that folder"
        raise InputError(Fault(str(folder), f"exists, but {' and '.join(differences)}", fix=fix))
