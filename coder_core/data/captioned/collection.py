"""Pictures with captions as they were read: a split, all splits of a data set, and a look at every picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress
from coder_core.data.captioned.positions import Positions
from coder_core.data.captioned.splits import split_name
from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.data.search_log import SearchLog, read_search_log

Result = TypeVar("Result")

THREADS = 4  # for decoding pictures
PIECE = 64  # pictures read at a time, before they are decoded


@dataclass(frozen=True)
class CaptionedSplit:
    """One split: n pictures, which are not copied, and m captions."""

    name: str  # "train", "dev", "test", …
    image_names: list[str]  # n names: paths relative to `positions.folder`, or names inside packed files
    captions: list[str]  # m strings
    image_of_text: np.ndarray  # (m,) int64, the image of every caption
    positions: Positions  # of the pictures of all splits
    rows: np.ndarray  # (n,) int64, the numbers of this split's pictures in `positions`
    source: dict[str, str] = field(default_factory=dict)  # what was read from where
    caption_ids: np.ndarray | None = None  # (m,) int64, the number of every caption in its data set, or None
    columns: SampleColumns = NO_COLUMNS  # what the data says besides
    # (n,) int64, equal for images that show the same thing, below 0 for groups of one image; None without groups
    image_groups: np.ndarray | None = None
    search_log: SearchLog | None = None  # whose queries the captions are, or None

    def read(self, image: int) -> bytes:
        """Return the content of a picture's file."""
        return self.positions.read(int(self.rows[image]))

    def place(self, image: int) -> str:
        """Return the location of a picture, for messages."""
        return self.positions.place(int(self.rows[image]))

    def missing(self) -> np.ndarray:
        """Return (n,) bool, True for pictures whose files are missing."""
        return np.isin(self.rows, self.positions.missing(self.rows.tolist()))

    def keep(self, images: np.ndarray) -> CaptionedSplit:
        """Return the split of the images for which `images` (n,) is true, with their captions."""
        if images.all():
            return self

        number = np.cumsum(images) - 1  # of every kept image
        texts = np.flatnonzero(images[self.image_of_text])
        names = [self.image_names[image] for image in np.flatnonzero(images)]
        captions = [self.captions[text] for text in texts]
        ids = None if self.caption_ids is None else self.caption_ids[texts]
        return replace(
            self,
            image_names=names,
            captions=captions,
            image_of_text=number[self.image_of_text[texts]],
            rows=self.rows[images],
            caption_ids=ids,
            columns=self.columns.take(images, texts),
            image_groups=None if self.image_groups is None else self.image_groups[images],
            search_log=None if self.search_log is None else self.search_log.keep(images),
        )


def with_queries(
    splits: Sequence[CaptionedSplit], name: str, queries: Path, qrels: Path
) -> tuple[CaptionedSplit, list[Fault]]:
    """Return a split of this name with the pictures of all splits, each once, and the queries of a search log as its
    captions, and notes on the log. InputError: as for `read_search_log`."""
    names = [name for split in splits for name in split.image_names]
    log, notes = read_search_log(queries, qrels, names)
    groups = [split.image_groups for split in splits]
    known = [of_split for of_split in groups if of_split is not None]
    columns = {title: column for title, column in splits[0].columns.images.items() if len(splits) == 1}
    source = {**splits[0].source, "queries": str(queries), "judgements": str(qrels)}
    split = CaptionedSplit(
        name=name,
        image_names=names,
        captions=log.texts,
        image_of_text=log.image_of_text,
        positions=splits[0].positions,
        rows=np.concatenate([split.rows for split in splits]),
        source=source,
        columns=SampleColumns(columns),
        image_groups=np.concatenate(known) if len(known) == len(splits) else None,
        search_log=log,
    )
    return split, notes


@dataclass(frozen=True)
class CaptionedData:
    """All splits of a data set, train first, with its faults: notes and warnings, and errors of pictures."""

    path: Path
    layout: str
    splits: list[CaptionedSplit]
    faults: list[Fault]
    dealt: bool = False  # True if a hash assigned pictures to splits, because the data name none

    def split(self, name: str) -> CaptionedSplit:
        """Return the split of this name; "val" is "dev". InputError if it does not exist."""
        for split in self.splits:
            if split.name == split_name(name):
                return split
        expected = f"one of {', '.join(split.name for split in self.splits)}"
        raise InputError.at(self.path, f'there is no split "{name}"', expected, "choose one of these")


def each_picture(
    split: CaptionedSplit, look: Callable[[bytes | str], Result], progress: Progress
) -> Iterator[Result]:
    """Yield the result of `look` for every picture, in order; threads call it with the file's bytes, or with the reason
    (a string) why it cannot be read."""

    def read(image: int) -> bytes | str:
        try:
            return split.read(image)
        except InputError as error:
            return error.faults[0].found

    count = len(split.rows)
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, count, PIECE):
            images = range(start, min(start + PIECE, count))
            yield from pool.map(look, [read(image) for image in images])  # packed files are read in order
            progress(images.stop, count)
