"""The content of all splits of a data set, checked once and kept in the cache under the data's fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.progress import Progress, named, silent, within
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.content.duplicates import Groups, duplicate_captions, duplicate_pictures
from coder_core.data.content.pictures import look_at_pictures
from coder_core.files.cache import cache_folder, write_cached

VERSION = 1  # of how content is checked
PICTURES_SHARE = 0.9  # of the time


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with some samples.

    Args:
        samples: (split name, row) of each.
        what: is wrong, in words; "" for duplicates.
        likeness: of the least similar pair that was joined, for duplicates: 1 is the same.
    """

    samples: tuple[tuple[str, int], ...]
    what: str = ""
    likeness: float = 1.0

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it lies in; more than one is a leak."""
        return tuple(dict.fromkeys(split for split, _ in self.samples))


@dataclass(frozen=True)
class ContentReport:
    """Faults in the content of a data set.

    Args:
        splits: name → images and captions.
        without_pictures: splits whose pictures are not here.
        pictures: broken, tiny and blank pictures. duplicate_pictures, duplicate_captions: groups, the largest first.
    """

    splits: dict[str, tuple[int, int]]
    without_pictures: tuple[str, ...]
    pictures: tuple[Finding, ...]
    duplicate_pictures: tuple[Finding, ...]
    duplicate_captions: tuple[Finding, ...]


def has_pictures(split: CaptionedSplit) -> bool:
    """True if the files of a split's first pictures exist."""
    return any(split.positions.state(int(row))[0] for row in split.rows[:20])


def content_key(splits: Sequence[CaptionedSplit]) -> str:
    """A sha256 (hex) of all captions with their images, and of the name, size and time of change of every picture."""
    digest = hashlib.sha256(repr((VERSION, [split.name for split in splits])).encode())
    for split in splits:
        digest.update(np.ascontiguousarray(split.image_of_text, dtype="<i8").tobytes())
        states = [split.positions.state(int(row)) for row in split.rows] if has_pictures(split) else []
        for text in (*split.captions, *split.image_names, repr(states)):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def cached_report(key: str) -> ContentReport | None:
    """The report that was kept under this key; None when there is none or it is damaged."""
    try:
        document = json.loads(_file(key).read_text("ascii"))
        lists = ("pictures", "duplicate_pictures", "duplicate_captions")
        findings = {name: tuple(map(_finding, document[name])) for name in lists}
        counts = document["splits"].items()
        splits = {str(name): (int(images), int(texts)) for name, (images, texts) in counts}
        return ContentReport(splits, tuple(map(str, document["without_pictures"])), **findings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _finding(item: Any) -> Finding:
    samples = tuple((str(split), int(row)) for split, row in item["samples"])
    return Finding(samples, str(item["what"]), float(item["likeness"]))


def check_content(splits: Sequence[CaptionedSplit], *, progress: Progress = silent) -> ContentReport:
    """Look at every picture and compare all pictures and captions, or take the report from the cache.

    Args:
        splits: of one data set.
        progress: called with the share done and the present phase.

    Raises:
        InputError: the report cannot be kept.
    """
    progress(0, 1, "reading the captions")
    key = content_key(splits)
    report = cached_report(key)
    if report is None:
        report = _check(splits, progress)
        write_cached(_file(key), json.dumps(asdict(report)))
        if cached_report(key) is None:
            fact = "cannot be written, so the report of the data cannot be kept"
            raise InputError.at(cache_folder(), fact, fix="set CODER_CACHE to a folder that can")
    progress(1, 1, "finished")
    return report


def _check(splits: Sequence[CaptionedSplit], progress: Progress) -> ContentReport:
    pictured = [split for split in splits if has_pictures(split)]
    total, done, facts = max(1, sum(len(split.rows) for split in pictured)), 0.0, []
    for split in pictured:
        phase = f"looking at the pictures of {split.name}"
        end = done + PICTURES_SHARE * len(split.rows) / total
        facts.append(look_at_pictures(split, named(within(progress, done, end), phase)))
        done = end
    progress(PICTURES_SHARE, 1, "comparing pictures")
    alike: Groups = []
    if facts:
        hashes = np.concatenate([seen.hashes for seen in facts])
        alike = duplicate_pictures(hashes, np.concatenate([seen.tiny for seen in facts]))
    progress(0.95, 1, "comparing captions")
    names = [split.name for split in pictured]
    return ContentReport(
        {split.name: (len(split.rows), len(split.captions)) for split in splits},
        tuple(split.name for split in splits if split.name not in names),
        tuple(
            Finding(((split.name, image),), what)
            for split, seen in zip(pictured, facts, strict=True)
            for image, what in sorted(seen.problems.items())
        ),
        _located(alike, [(split.name, len(split.rows)) for split in pictured]),
        _located(
            duplicate_captions([caption for split in splits for caption in split.captions]),
            [(split.name, len(split.captions)) for split in splits],
        ),
    )


def _located(groups: Groups, counts: Sequence[tuple[str, int]]) -> tuple[Finding, ...]:
    """Rows of all splits one after another → split and row."""
    starts = np.cumsum([0, *(count for _, count in counts)])
    findings = []
    for rows, likeness in groups:
        parts = np.searchsorted(starts, rows, "right") - 1
        samples = tuple((counts[k][0], int(row - starts[k])) for k, row in zip(parts, rows, strict=True))
        findings.append(Finding(samples, likeness=round(likeness, 4)))
    return tuple(findings)


def _file(key: str) -> Path:
    return cache_folder() / "content" / f"{key}.json"
