"""The data behind a run: its splits with their pictures, and the report on their content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.pictures import jpeg
from coder_core.api.stored import StoredResult
from coder_core.console.faults import InputError
from coder_core.data.captioned.layouts import holds_pictures_only
from coder_core.data.captioned.positions import Files, ParquetRows, TarMembers
from coder_core.data.captioned.reading import CaptionedSplit, read_captioned
from coder_core.data.content import ContentReport, Finding, cached_report, content_words
from coder_core.data.content.duplicates import plain_words
from coder_core.data.dataset import available_splits, leaves, read_split
from coder_core.data.pictures import picture_path, read_picture
from coder_core.data.split import Split
from coder_core.demo import DEMO_FOLDER

if TYPE_CHECKING:
    from coder_core.api.run import Run

KEY_SHOWN = 24
FIRST = {"train": 0, "dev": 1, "val": 1}


@dataclass
class GuardedFiles(Files):
    """Picture files that may not leave their folder: their names come from a run."""

    def _path(self, image: int) -> Path | None:
        try:
            return picture_path(self.folder, self.names[image]) if self.folder is not None else None
        except InputError:
            return None


def splits_of_run(run: Run) -> list[CaptionedSplit]:
    """The splits a run was evaluated on, train first; and the others of its data, where that still lies where the run
    says and still holds the captions of these."""
    splits = {name: _evaluated(run, name) for name in run.splits}
    return _ordered(({split.name: split for split in _data_splits(run)} | splits).values())


def splits_of_data(splits: Sequence[Split | CaptionedSplit]) -> list[CaptionedSplit]:
    """Splits of region features, or of pictures, as those whose content can be checked."""
    return [split if isinstance(split, CaptionedSplit) else _with_files(split) for split in splits]


def _with_files(split: Split) -> CaptionedSplit:
    names = split.image_names or [f"image {i}" for i in range(split.n_images)]
    positions = GuardedFiles(split.picture_folder, names)
    return CaptionedSplit(
        split.name, names, split.captions, split.image_of_text, positions, np.arange(len(names))
    )


def stored_report(key: str) -> StoredResult[ContentReport]:
    """The report that `python -m coder_core.check_data --content` kept under a `content_key`; its name is the job's."""
    report = cached_report(key)
    return StoredResult("missing" if report is None else "there", f"content-{key[:KEY_SHOWN]}", report)


def finding_table(
    findings: Sequence[Finding], splits: Sequence[CaptionedSplit], *, captions: bool
) -> pd.DataFrame:
    """One row a finding: first (the caption, or the file, of its first sample), what, samples, splits, likeness (%)."""
    by_name = {split.name: split for split in splits}
    firsts = [(by_name[split], row) for split, row in (finding.samples[0] for finding in findings)]
    return pd.DataFrame(
        {
            "first": [split.captions[row] if captions else split.image_names[row] for split, row in firsts],
            "what": [finding.what for finding in findings],
            "samples": [len(finding.samples) for finding in findings],
            "splits": [", ".join(finding.splits) for finding in findings],
            "likeness": [100 * finding.likeness for finding in findings],
        }
    )


def sample_rows(
    findings: Sequence[Finding], splits: Sequence[CaptionedSplit], *, captions: bool
) -> pd.DataFrame:
    """One row a sample of every finding, for a file: group, split, row, file, caption, what, likeness."""
    by_name = {split.name: split for split in splits}
    rows = []
    for group, finding in enumerate(findings):
        for name, row in finding.samples:
            split = by_name[name]
            image = int(split.image_of_text[row]) if captions else row
            caption = split.captions[row] if captions else " | ".join(captions_of(split, row))
            rows.append((group, name, row, split.image_names[image], caption, finding.what, finding.likeness))
    kind = "caption id" if captions else "image id"
    return pd.DataFrame(rows, columns=["group", "split", kind, "file", "caption", "what", "likeness"])


def captions_of(split: CaptionedSplit, image: int) -> list[str]:
    """The captions of an image."""
    return [split.captions[row] for row in np.flatnonzero(split.image_of_text == image).tolist()]


def split_thumbnail(split: CaptionedSplit, image: int, size: int) -> bytes | None:
    """A picture of a split as JPEG bytes; None when it is missing or cannot be read."""
    try:
        return jpeg(read_picture(split.read(image), "the picture", size=size))
    except InputError:
        return None


def caption_table(captions: Sequence[str]) -> pd.DataFrame:
    """One row a caption: caption (its row), words, content (words that describe something)."""
    return pd.DataFrame(
        {
            "caption": np.arange(len(captions)),
            "words": [len(plain_words(caption)) for caption in captions],
            "content": [content_words(caption) for caption in captions],
        }
    )


def _evaluated(run: Run, name: str) -> CaptionedSplit:
    analysis, names = run.analysis(name), list(run.image_names(name))
    folder = analysis.picture_folder
    positions = analysis.packed_pictures or GuardedFiles(Path(folder) if folder else None, names)
    return CaptionedSplit(
        name, names, list(run.captions(name)), run.image_of_text(name), positions, np.arange(len(names))
    )


def _data_splits(run: Run) -> list[CaptionedSplit]:
    """The splits of the data that the run's configuration names, when one of them is what the run was evaluated on."""
    data = run.config.get("data", {})
    named = str(data.get("data", ""))
    path = Path(os.environ.get("CODER_DEMO") or DEMO_FOLDER) if named == "demo" else Path(named)
    pictures = str(data.get("pictures", "")) or None
    try:
        if not named or not path.exists() or leaves(path, path if path.is_dir() else path.parent):
            return []
        if holds_pictures_only(path, None):
            splits = [_guarded(split, path) for split in read_captioned(path, pictures=pictures).splits]
        else:
            read = [
                read_split(path, name, pictures=pictures, check_values=False)
                for name in available_splits(path)
            ]
            splits = splits_of_data(read)
    except (InputError, OSError):
        return []
    shared = [split for split in splits if split.name in run.splits]
    same = bool(shared) and all(split.captions == list(run.captions(split.name)) for split in shared)
    return splits if same else []


def _guarded(split: CaptionedSplit, path: Path) -> CaptionedSplit:
    """The split without links that lead out of its folder of pictures, or out of the data for packed ones."""
    positions = split.positions
    if isinstance(positions, TarMembers | ParquetRows):
        inside = all(
            Path(os.path.realpath(file)).is_relative_to(os.path.realpath(path)) for file in positions.files
        )
        return split if inside else replace(split, positions=GuardedFiles(None, positions.names))
    assert isinstance(positions, Files)
    return replace(split, positions=GuardedFiles(positions.folder, positions.names))


def _ordered(splits: Iterable[CaptionedSplit]) -> list[CaptionedSplit]:
    return sorted(splits, key=lambda split: (FIRST.get(split.name, 2), split.name))
