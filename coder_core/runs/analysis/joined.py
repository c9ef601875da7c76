"""Columns of a table that are joined to a finished run: `columns/<split>/`, beside the analysis, which stays as it is."""

import hashlib
from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.data.joined_columns import read_table_columns
from coder_core.files import atomic, sealed
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.columns import column_files, read_columns
from coder_core.runs.analysis.read import Analysis, open_analysis

FOLDER = "columns"  # of a run


def join_columns(run_folder: Path, split: str, file: Path) -> list[Fault]:
    """Join the columns of a table to a split of a finished run, and return notes. Columns that were joined earlier stay,
    except those with the same titles. InputError: as for `read_table_columns`, or the run lacks the split."""
    analysis = open_analysis(run_folder, split)
    owner = np.asarray(analysis.image_of_text)
    columns, faults = read_table_columns(file, analysis.image_names, owner, analysis.caption_ids)
    earlier = collect(lambda: joined_columns(run_folder, analysis), []) or NO_COLUMNS
    files: dict[str, sealed.Content] = {**column_files(earlier.joined(columns))}
    about = {"kind": FOLDER, "samples": _digest(analysis)}
    sealed.write_sealed(tables.split_folder(run_folder, split, FOLDER), files, about=about, replace=True)
    return faults


def joined_columns(run_folder: Path, analysis: Analysis) -> SampleColumns:
    """Read the columns that were joined to a split; none if there are none. InputError: damage, or the split was
    evaluated on other samples since."""
    folder = tables.split_folder(run_folder, analysis.split, FOLDER)
    if not atomic.locate(folder).is_dir():
        return NO_COLUMNS
    stored = sealed.SealedFolder(folder)
    if stored.manifest.get("samples") != _digest(analysis):
        fix = "join the table again: evaluate RUN --columns FILE"
        raise InputError.at(stored.path, "belongs to other samples than the analysis", fix=fix)
    return read_columns(stored, analysis.n_images, analysis.n_texts)


def _digest(analysis: Analysis) -> str:
    """Return the sha256 (hex) of the samples of a split, which shows whether joined columns belong to them."""
    digest = hashlib.sha256()
    for text in (*analysis.image_names, "", *analysis.captions):
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()
