"""Columns of a data set besides pictures, captions and splits: brand, price, date, tags …, typed, one value per sample.

`column_values` reads them from cells of any table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

Kind = Literal["number", "category", "date", "tags", "text"]

MOST_COLUMNS = 200  # of one modality
LONGEST_TITLE = 100  # characters
LONGEST_TEXT = 10_000  # characters of a value; longer ones are cut
MISSING = -1  # in `Column.values`, of a sample without a label


_WITHOUT: Mapping[Kind, Any] = {"number": np.nan, "date": np.datetime64("NaT"), "category": -1, "text": -1}


class SearchableTexts:
    """Texts without case, in one array of Arrow, so that a million are searched in a twentieth of a second.

    >>> SearchableTexts(["A dog", "a cat"]).containing("DOG")
    array([ True, False])
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import pyarrow as pa  # a quarter of a second

        joined = "".join(f"{text}\0" for text in texts).casefold().encode("utf-8", "surrogatepass")
        ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)
        if len(ends) == len(texts):
            starts = np.concatenate([[0], ends + 1])
            self._texts = pa.LargeStringArray.from_buffers(
                len(texts), pa.py_buffer(starts), pa.py_buffer(joined)
            )
        else:  # a text contains NUL
            self._texts = pa.array([text.casefold() for text in texts], pa.large_string())

    def containing(self, text: str) -> np.ndarray:
        """Return (n,) bool: the texts that contain this one, in any case."""
        import pyarrow.compute as pc

        return np.asarray(
            pc.match_substring(self._texts, text.casefold()).to_numpy(zero_copy_only=False), bool
        )


@dataclass(frozen=True)
class Column:
    """One typed column of n samples.

    Attributes:
        kind: "number", "category", "date", "tags" or "text".
        values: of numbers (n,) float64, NaN without a value. Of dates (n,) datetime64[us] in UTC, NaT without. Of
            categories and texts (n,) int32 rows of `labels`, −1 without. Of tags (t,) int32 rows of `labels`, those of
            all samples one after the other.
        labels: the different texts, none twice; [] of numbers and dates.
        starts: of tags (n + 1,) int64: those of sample i are values[starts[i] : starts[i + 1]]. None of other kinds.
    """

    kind: Kind
    values: np.ndarray
    labels: list[str] = field(default_factory=list)
    starts: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values) if self.starts is None else len(self.starts) - 1

    @property
    def present(self) -> np.ndarray:
        """(n,) bool, True for the samples with a value."""
        if self.starts is not None:
            return np.diff(self.starts) > 0
        if self.kind == "number":
            return ~np.isnan(self.values)
        if self.kind == "date":
            return ~np.isnat(self.values)
        return np.asarray(self.values != MISSING)

    @cached_property
    def sample_of_tag(self) -> np.ndarray:
        """(t,) int64: of a column of tags, the sample of every one of `values`."""
        assert self.starts is not None
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def searchable_labels(self) -> SearchableTexts:
        """The labels, to find those that contain a text."""
        return SearchableTexts(self.labels)

    @cached_property
    def folded_labels(self) -> list[str]:
        """The labels without case, for comparisons."""
        return [label.casefold() for label in self.labels]

    def having(self, labels: Iterable[int]) -> np.ndarray:
        """Return (n,) bool: the samples with one of these labels, rows of `labels`."""
        chosen = np.zeros(len(self.labels) + 1, dtype=bool)
        chosen[list(labels)] = True
        of_values = chosen[self.values]  # −1, without a label, reads the last
        if self.starts is None:
            return np.asarray(of_values)
        mask = np.zeros(len(self), dtype=bool)
        mask[self.sample_of_tag[of_values]] = True
        return mask

    def group_numbers(self) -> np.ndarray:
        """Return (n,) int64, equal for samples with the same value; −1 without a value. ValueError: a column of tags."""
        if self.starts is not None:
            raise ValueError("a sample may have several tags, so they do not group samples")
        numbers = np.unique(self.values, return_inverse=True)[1].astype(np.int64)
        numbers[~self.present] = MISSING
        return numbers

    def take(self, rows: np.ndarray) -> Column:
        """Return the column of the samples `rows`: (n,) bool, or (k,) numbers of samples, −1 for one without a value."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else np.asarray(rows)
        nobody = rows < 0
        if self.starts is None:
            values = self.values[rows]
            if nobody.any():
                values[nobody] = _WITHOUT[self.kind]
            return Column(self.kind, values, self.labels)
        counts = np.diff(self.starts)[rows]
        counts[nobody] = 0
        starts = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        values = self.values[np.repeat(self.starts[rows], counts) + within]
        return Column(self.kind, values, self.labels, starts)

    def cell(self, row: int) -> Any:
        """Return the value of one sample: a float, a text, a list of tags or a datetime; None without one."""
        if self.starts is not None:
            tags = self.values[self.starts[row] : self.starts[row + 1]]
            return [self.labels[tag] for tag in tags.tolist()] or None
        value = self.values[row]
        if self.kind == "number":
            return None if np.isnan(value) else float(value)
        if self.kind == "date":
            return value.item()
        return None if value == MISSING else self.labels[value]

    def series(self) -> pd.Series:
        """Return the n values for a table: numbers, dates, texts, or tags joined by commas; missing without a value."""
        if self.kind in ("number", "date"):
            return pd.Series(self.values)
        if self.starts is not None:
            return pd.Series(
                [", ".join(self.cell(row) or ()) or None for row in range(len(self))], dtype=object
            )
        texts = np.array([*self.labels, None], dtype=object)
        return pd.Series(texts[self.values], dtype=object)


@dataclass(frozen=True)
class SampleColumns:
    """Columns of n images and of m captions, by title; no title is in both."""

    images: Mapping[str, Column] = field(default_factory=dict)
    captions: Mapping[str, Column] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.images or self.captions)

    def take(self, images: np.ndarray, captions: np.ndarray) -> SampleColumns:
        """Return the columns of these images and captions: numbers of samples, or bools for all."""
        of_images = {title: column.take(images) for title, column in self.images.items()}
        of_captions = {title: column.take(captions) for title, column in self.captions.items()}
        return SampleColumns(of_images, of_captions)

    def of_captions(self, image_of_text: np.ndarray) -> dict[str, Column]:
        """Return every column as one of the captions: those of images have the values of each caption's image; texts
        without an image, −1, have none."""
        of_images = {title: column.take(image_of_text) for title, column in self.images.items()}
        return of_images | dict(self.captions)

    def of_image(self, image: int) -> dict[str, Any]:
        """Return the values of an image, by title; those that it lacks are left out."""
        return _present({title: column.cell(image) for title, column in self.images.items()})

    def of_caption(self, caption: int) -> dict[str, Any]:
        """Return the values of a caption itself, by title; those that it lacks are left out."""
        return _present({title: column.cell(caption) for title, column in self.captions.items()})

    def joined(self, others: SampleColumns) -> SampleColumns:
        """Return these columns and `others`, which replace those of the same title."""
        replaced = {*others.images, *others.captions}
        images = {title: column for title, column in self.images.items() if title not in replaced}
        captions = {title: column for title, column in self.captions.items() if title not in replaced}
        return SampleColumns(images | dict(others.images), captions | dict(others.captions))


NO_COLUMNS = SampleColumns()


def _present(cells: dict[str, Any]) -> dict[str, Any]:
    return {title: cell for title, cell in cells.items() if cell is not None}


def describe(columns: Mapping[str, Column]) -> str:
    """Describe columns in words: their titles and kinds."""
    return ", ".join(f"{title} ({column.kind})" for title, column in columns.items())


def first_of_images(codes: np.ndarray, image_of_text: np.ndarray, images: int) -> np.ndarray | None:
    """Return (n,) the value of every image, −1 without one, if no image has captions with different values; else None.
    `codes`: (m,) integers, equal for equal values, −1 without one."""
    rows = np.flatnonzero(codes != MISSING)[::-1]
    first = np.full(images, MISSING, codes.dtype)
    first[image_of_text[rows]] = codes[rows]  # the last assignment, the first caption's, stays
    return first if (codes[rows] == first[image_of_text[rows]]).all() else None
