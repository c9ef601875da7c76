"""Columns of a table of one's own (--columns FILE), joined to the samples of a split by a picture's name or a caption's
id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.captioned.records import unread_columns
from coder_core.data.captioned.tables import SHEETS, SUFFIXES, TEXT, Row, open_table, sheet_to_csv
from coder_core.data.column_values import RawColumns
from coder_core.data.columns import SampleColumns
from coder_core.data.lines import count_cases, shown
from coder_core.data.pictures import ENDINGS
from coder_core.data.qrels import AMBIGUOUS, SampleIds, Side

ROWS_TRIED = 2_000  # spread over the table, to find the column of names


class UnrelatedTableError(InputError):
    """A table has no row about a split."""


class _Samples:
    """Images and captions of a split by what a table calls them; images also by their names without the ending."""

    def __init__(
        self, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None
    ) -> None:
        self._ids = SampleIds(image_names, image_of_text, caption_ids)
        self._by_stem: dict[str, int] = {}
        for image, name in enumerate(image_names):
            stem = _stem(name)
            self._by_stem[stem] = AMBIGUOUS if stem in self._by_stem else image

    def find(self, value: Any) -> tuple[Side, int] | None:
        """Return the side and the row of a sample; None if the split does not have it, or two samples are called so."""
        if not isinstance(value, str | int) or isinstance(value, bool):
            return None
        name = str(value).strip().replace("\\", "/")
        found = self._ids.find(name) or ("image", self._by_stem.get(_stem(name), AMBIGUOUS))
        return None if found[1] == AMBIGUOUS else found


def _stem(name: str) -> str:
    """Return a picture's name without folders and ending."""
    base = name.rpartition("/")[2]
    stem, dot, ending = base.rpartition(".")
    return stem if f"{dot}{ending}".lower() in ENDINGS else base


def read_table_columns(
    file: Path, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None = None
) -> tuple[SampleColumns, list[Fault]]:
    """Read the columns of a table whose rows are about pictures or captions of a split, and notes on what was joined.
    The column with the most names of pictures, or ids of captions, says which sample a row is about; rows about other
    samples are left out. InputError: it is not a table, is damaged, or no row is about this split.

    image_of_text: (m,) the image of every caption. caption_ids: (m,) numbers of the captions, if known.
    """
    if not file.is_file() or file.suffix not in (*SUFFIXES, TEXT):
        expected = f"a table: {', '.join((*SUFFIXES, TEXT))}"
        fix = sheet_to_csv(str(file)) if file.suffix.lower() in SHEETS else "check the path"
        raise InputError.at(f"--columns {file}", "is not a table", expected, fix)
    faults: list[Fault] = []
    table = open_table(file, titled=True)
    rows = list(table.rows(faults, ()))
    stop_on_errors(faults)
    samples = _Samples(image_names, image_of_text, caption_ids)
    key = _key_column([row for _, row in rows], samples)
    if not key:
        names = f"names such as {shown(image_names[0])}" if image_names else "names of pictures"
        example = f"a column of {names}, or of ids of captions"
        fact = "has no row about a picture or a caption of this split"
        raise UnrelatedTableError([Fault(str(file), fact, example)])

    row_of: dict[Side, dict[int, Row]] = {"image": {}, "text": {}}
    repeated = []
    elsewhere = 0
    for where, row in rows:
        found = samples.find(row.get(key))
        if found is None:
            elsewhere += 1
        elif row_of[found[0]].setdefault(found[1], row) is not row:
            repeated.append(f"{where}, {shown(str(row[key]))}")
    counts = {"image": len(image_names), "text": len(image_of_text)}
    columns = SampleColumns()
    for side, of_side in row_of.items():
        if of_side:
            owner = np.arange(len(image_names)) if side == "image" else image_of_text
            raw = _raw_columns(of_side, counts[side], key)
            columns_of_side, notes = raw.typed(owner, len(image_names), str(file))
            columns = columns.joined(columns_of_side)
            faults += notes
    faults += unread_columns(table.unread, file)
    what = [
        f"{len(row_of[side]):,} of {counts[side]:,} {name}" for side, name in _NAMES.items() if row_of[side]
    ]
    fact = f"joined by the column {shown(key)} to {' and '.join(what)}"
    fact += f"; {elsewhere:,} rows are about other samples" * bool(elsewhere)
    faults.append(Fault(str(file), fact, severity="note"))
    faults += count_cases(
        file, "rows repeat a sample, whose first row counts", repeated, "one row per sample"
    )
    return columns, faults


_NAMES: dict[Side, str] = {"image": "pictures", "text": "captions"}


def join_to_splits(
    file: Path, splits: Mapping[str, tuple[Sequence[str], np.ndarray, np.ndarray | None]]
) -> dict[str, tuple[SampleColumns, list[Fault]]]:
    """Read the columns of a table for several splits, given by name → names of images, image of every caption, numbers of
    the captions. Return split → its columns and notes, for the splits that the table has rows about. InputError: as for
    `read_table_columns`, or the table has no row about any of them."""
    found: dict[str, tuple[SampleColumns, list[Fault]]] = {}
    unrelated: list[InputError] = []
    for name, (image_names, image_of_text, caption_ids) in splits.items():
        try:
            found[name] = read_table_columns(file, image_names, image_of_text, caption_ids)
        except UnrelatedTableError as error:
            unrelated.append(error)
    if not found and unrelated:
        raise unrelated[0]
    return found


def _key_column(rows: Sequence[Row], samples: _Samples) -> str:
    """Return the title of the column that names the most samples; "" if none does."""
    step = max(1, len(rows) // ROWS_TRIED)
    for tried in (rows[::step], rows):
        titles = dict.fromkeys(title for row in tried for title in row)
        matches = {title: sum(samples.find(row.get(title)) is not None for row in tried) for title in titles}
        best = max(matches, key=lambda title: matches[title], default="")
        if best and matches[best]:
            return best
    return ""


def _raw_columns(row_of: Mapping[int, Row], count: int, key: str) -> RawColumns:
    """Return the columns of `count` samples, of which some have a row; without the column `key`, which names them."""
    raw = RawColumns()
    for sample in range(count):
        row = row_of.get(sample, {})
        raw.add({title: value for title, value in row.items() if title != key})
    return raw
