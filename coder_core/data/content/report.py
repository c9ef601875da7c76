"""Check the content of all splits of a data set once, and keep the report in the cache under the data's fingerprint.

Every picture is decoded once, to find broken, tiny and blank ones and to compute its perceptual hash.
"""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, named, silent, within
from coder_core.data.captioned.collection import CaptionedSplit, each_picture
from coder_core.data.content.duplicates import CPU, Groups, duplicate_captions, duplicate_pictures
from coder_core.data.pictures import FORMATS, read_picture
from coder_core.files.atomic import cache_folder, write_cached

VERSION = 1  # of the checks
PICTURES_SHARE = 0.9  # of the progress bar
DECODED_SIZE = 256  # pixels of the longer side of the decoded picture that is measured
TINY_SIDE = 16
SMALLEST_SIDE = 64  # pixels of the shorter side; image encoders use 224 or more
BLANK_DEVIATION = 3.0  # standard deviation of the brightness (0 to 255) below which a picture is blank


@dataclass(frozen=True)
class Finding:
    """One problem of some samples."""

    samples: tuple[tuple[str, int], ...]  # (split name, row) of each
    what: str = ""  # the problem, in words; "" for duplicates
    likeness: float = 1.0  # of the least similar pair that joined a group of duplicates; 1: identical

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits of the samples; duplicates in more than one are a leak."""
        return tuple(dict.fromkeys(split for split, _ in self.samples))


@dataclass(frozen=True)
class ContentReport:
    """Faults in the content of a data set."""

    splits: dict[str, tuple[int, int]]  # name → images and captions
    without_pictures: tuple[str, ...]  # splits whose picture files do not exist
    # broken, tiny and blank pictures. duplicate_pictures, duplicate_captions: groups, the largest first.
    pictures: tuple[Finding, ...]
    duplicate_pictures: tuple[Finding, ...]
    duplicate_captions: tuple[Finding, ...]


def tiny_image(picture: Image.Image) -> np.ndarray:
    """Return (768,) float32: the colours at 16 × 16 pixels, mean 0, length 1 (Torralba et al. 2008, section 3)."""
    small = picture.convert("RGB").resize((TINY_SIDE, TINY_SIDE), Image.Resampling.BOX)
    values = np.asarray(small, dtype=np.float32).ravel()
    values = values - values.mean()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-6))


def look_at_pictures(split: CaptionedSplit, progress: Progress) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Decode n pictures in threads: faults ("" if none), (n, 8) hashes and (n, 768) tiny images, see `_look`."""
    problems, hashes, tiny = zip(*each_picture(split, _look, progress), strict=True)
    return list(problems), np.stack(hashes), np.stack(tiny)


def _look(content: bytes | str) -> tuple[str, np.ndarray, np.ndarray]:
    """Return a picture's fault ("" if none), its perceptual hash (pHash) as (8,) uint8, and its tiny image as float16;
    hash and image are zero for a broken or blank picture."""
    from imagehash import phash  # imports SciPy and PyWavelets

    nothing = np.zeros(8, np.uint8), np.zeros(3 * TINY_SIDE**2, np.float16)
    if isinstance(content, str):
        return f"broken: {content}", *nothing
    try:
        picture = read_picture(content, "the picture", size=DECODED_SIZE)
    except InputError as error:
        return f"broken: {error.faults[0].found}", *nothing
    with Image.open(io.BytesIO(content), formats=FORMATS) as opened:  # decoded above; this reads the header
        width, height = opened.size
    deviation = float(np.asarray(picture.convert("L").reduce(max(1, min(picture.size) // 32))).std())
    if deviation < BLANK_DEVIATION:
        return f"blank: the standard deviation of brightness is {deviation:.1f} of 255", *nothing
    problem = f"tiny: {width} × {height} pixels" if min(width, height) < SMALLEST_SIDE else ""
    return problem, np.packbits(phash(picture).hash.ravel()), tiny_image(picture).astype(np.float16)


def has_pictures(split: CaptionedSplit) -> bool:
    """True if the files of a split's first pictures exist."""
    return any(split.positions.state(int(row))[0] for row in split.rows[:20])


def content_key(splits: Sequence[CaptionedSplit]) -> str:
    """Return the sha256 (hex) of all captions, their images, and every picture's name, size and time of change."""
    digest = hashlib.sha256(repr((VERSION, [split.name for split in splits])).encode())
    for split in splits:
        digest.update(np.ascontiguousarray(split.image_of_text, dtype="<i8").tobytes())
        states = [split.positions.state(int(row)) for row in split.rows] if has_pictures(split) else []
        for text in (*split.captions, *split.image_names, repr(states)):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def cached_report(key: str) -> ContentReport | None:
    """Return the cached report of this key; None if it does not exist or is damaged."""
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


def check_content(
    splits: Sequence[CaptionedSplit], *, device: str = CPU, progress: Progress = silent
) -> ContentReport:
    """Check every picture and compare all pictures and captions, or return the report in the cache. Near-duplicates of one
    group are left out. `device`: where all pictures are compared, with the same result. InputError: the report cannot be
    saved."""
    progress(0, 1, "reading the captions")
    key = content_key(splits)
    report = cached_report(key)
    if report is None:
        report = _check(splits, device, progress)
        write_cached(_file(key), json.dumps(asdict(report)))
        if cached_report(key) is None:
            fact = "cannot be written, so the report on the data cannot be saved"
            raise InputError.at(cache_folder(), fact, fix="set CODER_CACHE to a writable folder")
    progress(1, 1, "finished")
    return outside_groups(report, splits)


def outside_groups(report: ContentReport, splits: Sequence[CaptionedSplit]) -> ContentReport:
    """Return the report without the near-duplicates whose samples all show one thing, by the groups of their images."""
    of_images = {split.name: split.image_groups for split in splits if split.image_groups is not None}
    if not of_images:
        return report
    of_captions = {
        split.name: of_images[split.name][split.image_of_text] for split in splits if split.name in of_images
    }

    def different(findings: Sequence[Finding], groups: Mapping[str, np.ndarray]) -> tuple[Finding, ...]:
        return tuple(finding for finding in findings if not _is_one_group(finding, groups))

    pictures = different(report.duplicate_pictures, of_images)
    captions = different(report.duplicate_captions, of_captions)
    return replace(report, duplicate_pictures=pictures, duplicate_captions=captions)


def _is_one_group(finding: Finding, groups: Mapping[str, np.ndarray]) -> bool:
    """True if every sample of a finding is in the same group of several images."""
    known = {int(groups[split][row]) if split in groups else -1 for split, row in finding.samples}
    return len(known) == 1 and min(known) >= 0


def _check(splits: Sequence[CaptionedSplit], device: str, progress: Progress) -> ContentReport:
    pictured = [split for split in splits if has_pictures(split)]
    total = max(1, sum(len(split.rows) for split in pictured))
    done = 0.0
    bad = list[Finding]()
    hashes = []
    tiny = []
    for split in pictured:
        phase = f"checking the pictures of {split.name}"
        end = done + PICTURES_SHARE * len(split.rows) / total
        problems, bits, small = look_at_pictures(split, named(within(progress, done, end), phase))
        bad += [Finding(((split.name, image),), what) for image, what in enumerate(problems) if what]
        hashes.append(bits)
        tiny.append(small)
        done = end

    progress(PICTURES_SHARE, 1, "comparing pictures")
    alike: Groups = []
    if pictured:
        alike = duplicate_pictures(np.concatenate(hashes), np.concatenate(tiny), device)
    progress(0.95, 1, "comparing captions")
    pictures = _located(alike, [(split.name, len(split.rows)) for split in pictured])
    repeated = duplicate_captions([caption for split in splits for caption in split.captions])
    captions = _located(repeated, [(split.name, len(split.captions)) for split in splits])
    counts = {split.name: (len(split.rows), len(split.captions)) for split in splits}
    names = {split.name for split in pictured}
    without = tuple(split.name for split in splits if split.name not in names)
    return ContentReport(counts, without, tuple(bad), pictures, captions)


def _located(groups: Groups, counts: Sequence[tuple[str, int]]) -> tuple[Finding, ...]:
    """Convert rows of the concatenated splits to (split, row)."""
    starts = np.cumsum([0, *(count for _, count in counts)])
    findings = []
    for rows, likeness in groups:
        parts = np.searchsorted(starts, rows, "right") - 1
        samples = tuple((counts[k][0], int(row - starts[k])) for k, row in zip(parts, rows, strict=True))
        findings.append(Finding(samples, likeness=round(likeness, 4)))
    return tuple(findings)


def _file(key: str) -> Path:
    return cache_folder() / "content" / f"{key}.json"
