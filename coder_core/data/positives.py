"""Read which captions fit which images beyond the labels.

positives.tsv           caption⇥image, a pair a line: `x.jpg#2⇥y.jpg`, the third caption of x.jpg fits y.jpg;
                        `412⇥y.jpg` names the caption by its id in the data set
ExpertAnnotations.txt   of Flickr8k: image⇥caption⇥three grades from 1 to 4
CrowdFlowerAnnotations.txt   of Flickr8k: image⇥caption⇥share of yes⇥yes⇥no
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.lines import read_lines, shown

EXPECTED = "caption⇥image as x.jpg#2⇥y.jpg or 412⇥y.jpg, or a line of Flickr8k's expert or crowd annotations"
EXPERT_GRADE = 3.0  # mean of three grades: 3 is "describes the image with minor errors", 4 without
CROWD_SHARE = 0.5  # of the judges who said yes, more than this


class OtherSplitError(InputError):
    """A sound file of positives has no line about the split."""


@dataclass(frozen=True)
class Positives:
    """Positives beyond the labels.

    Args:
        pairs: (P, 2) int64, rows of a caption and of an image of the split; the labels are not among them.
        elsewhere: lines about captions or images that are not in the split.
        rejected: lines whose judges say that caption and image do not belong together.
        disagreement: (m,) of every caption, the standard deviation of the experts' grades of a pair, averaged over its
            judged pairs; NaN where no expert judged it.
    """

    pairs: np.ndarray
    elsewhere: int
    rejected: int
    disagreement: np.ndarray

    def with_labels(self, image_of_text: np.ndarray) -> np.ndarray:
        """(P + m, 2) these pairs and the labels."""
        labels = np.stack([np.arange(len(image_of_text)), image_of_text], 1)
        return np.concatenate([labels, self.pairs])


def read_positives(
    path: Path, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None = None
) -> Positives:
    """Read a file of positives for one split.

    Args:
        path: of one of the layouts above.
        image_names: n file names or ids, as the split names its images; folders before a name do not count.
        image_of_text: (m,) the image of every caption; `x.jpg#2` is the third caption of x.jpg in this order.
        caption_ids: (m,) ids of the captions in the data set, where they are known.

    Raises:
        InputError: a line is none of the layouts, or names a caption by an id that the split does not know or that two
            captions have. OtherSplitError: no line is about this split.
    """
    faults: list[Fault] = []
    lines = read_lines(path, "pair", faults)
    rows = {name.rsplit("/", 1)[-1]: row for row, name in enumerate(image_names)}
    captions = _CaptionRows(rows, image_of_text, caption_ids)
    pairs, elsewhere, rejected = [], 0, 0
    deviations: dict[int, list[float]] = {}
    for number, line in enumerate(lines, 1):
        try:
            caption, image, fits, deviation = _judged(line.split("\t"))
            text_row, image_row = captions.row(caption), rows.get(image.rsplit("/", 1)[-1])
        except _IdError as error:
            if len(faults) < MOST_FAULTS_SHOWN:
                faults.append(Fault(f"{path} line {number}", str(error), fix="name the caption as x.jpg#2"))
            continue
        except ValueError:
            if line and len(faults) < MOST_FAULTS_SHOWN:
                faults.append(Fault(f"{path} line {number}", f"is {shown(line)!r}", EXPECTED))
            continue
        if text_row is None or image_row is None:
            elsewhere += 1
            continue
        if deviation is not None:
            deviations.setdefault(text_row, []).append(deviation)
        if not fits:
            rejected += 1
        elif image_of_text[text_row] != image_row:
            pairs.append((text_row, image_row))
    if errors := [fault for fault in faults if fault.severity == "error"]:
        raise InputError(errors)
    if lines and elsewhere == len(lines):
        fact = f"none of its {len(lines):,} lines is about a caption and an image of this split"
        raise OtherSplitError(
            Fault(str(path), fact, f"names such as {image_names[0]}#0", "evaluate the split it is about")
        )
    unique = np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0)
    disagreement = np.full(len(image_of_text), np.nan)
    for text_row, judged in deviations.items():
        disagreement[text_row] = np.mean(judged)
    return Positives(unique, elsewhere, rejected, disagreement)


class _IdError(ValueError):
    """A caption is named by an id that does not tell which it is."""


class _CaptionRows:
    """Rows of a split's captions by the names that a file gives them; arguments as for `read_positives`."""

    def __init__(
        self, images: Mapping[str, int], image_of_text: np.ndarray, caption_ids: np.ndarray | None
    ) -> None:
        self._images, self._known = images, caption_ids is not None
        self._order = np.argsort(image_of_text, kind="stable")
        self._first = np.searchsorted(
            image_of_text[self._order], np.arange(image_of_text.max(initial=-1) + 2)
        )
        self._by_id: dict[int, list[int]] = {}
        for row, number in enumerate([] if caption_ids is None else caption_ids.tolist()):
            self._by_id.setdefault(number, []).append(row)

    def row(self, name: str) -> int | None:
        """Row of the caption `x.jpg#2` or `412`; None where the split does not have it, ValueError for another name."""
        owner, mark, digits = name.rpartition("#")
        number = int(digits)
        if number < 0 or bool(owner) != bool(mark):
            raise ValueError(name)
        if not mark:
            own = self._by_id.get(number, [])
            if not self._known:
                raise _IdError(f"names caption {number} by its id, and no ids of captions are known")
            if len(own) > 1:
                raise _IdError(f"names caption {number}, and rows {own[0]} and {own[1]} have this id")
            return own[0] if own else None
        image = self._images.get(owner.rsplit("/", 1)[-1])
        if image is None or self._first[image] + number >= self._first[image + 1]:
            return None
        return int(self._order[self._first[image] + number])


def _judged(cells: list[str]) -> tuple[str, str, bool, float | None]:
    """Caption, image, whether they belong together, and the standard deviation of experts' grades; ValueError for a
    line of another layout."""
    if len(cells) == 2:
        return cells[0], cells[1], True, None
    if len(cells) != 5:
        raise ValueError
    image, caption = cells[:2]
    numbers = [float(cell) for cell in cells[2:]]
    if all(number in (1, 2, 3, 4) for number in numbers):
        return caption, image, sum(numbers) / 3 >= EXPERT_GRADE, float(np.std(numbers))
    if not 0 <= numbers[0] <= 1:
        raise ValueError
    return caption, image, numbers[0] > CROWD_SHARE, None
