"""Decode every picture once, to check a data set or to build a split for training and evaluation."""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL.Image import Image
from torch import Tensor

from coder_core.console.faults import Fault, InputError, collect, stop_on_errors
from coder_core.console.output import Progress, named, silent
from coder_core.data.captioned.collection import CaptionedData, CaptionedSplit, each_picture
from coder_core.data.captioned.decoding import Pictures
from coder_core.data.captioned.picture_cache import cached_pictures
from coder_core.data.captioned.reading import count_unreadable
from coder_core.data.lines import count_cases, shown
from coder_core.data.pictures import read_picture
from coder_core.data.split import Split, captions_checksum
from coder_core.files.atomic import cache_folder, settled, write_cached

DECODING = "decoding pictures into the cache"
DECODED_SIZE = 64  # pixels of the longer side of a picture that is decoded only to check it
VERSION = 1  # of the stored results


@dataclass(frozen=True)
class PicturePreparation:
    """PicturePreparation of pictures for an image tower."""

    prepare: Callable[[Image], np.ndarray]  # picture → pixels
    local_features: int  # L, the most local features of a picture
    counts: Callable[[Tensor], Tensor] | None  # pictures → (B,) local features of each; None: L
    workers: int  # processes that decode and prepare ahead; 0: this one
    # (height, width, 3) uint8 pixels → the same as `prepare` for a picture of these pixels
    prepare_pixels: Callable[[np.ndarray], np.ndarray]


def read_picture_split(
    data: CaptionedData,
    name: str,
    preparation: PicturePreparation,
    *,
    skip_broken: bool,
    progress: Progress,
    cached_size: int = 0,
) -> tuple[Split, dict[str, str]]:
    """Read a split of pictures for an image tower. Also return the sha256 (hex) of its "features" (picture files) and
    "captions".

    Args:
        skip_broken: leave out pictures that cannot be decoded, with their captions.
        progress: of `decode_pictures`, then of `cached_pictures`.
        cached_size: read the pictures from a cache, scaled down to that many pixels on their shorter side; 0 reads the
            files.

    Raises:
        InputError: the split does not exist, pictures are broken and `skip_broken` is false (up to ten are named), no
            picture can be read, or the cache cannot be made.
    """
    captioned = data.split(name)
    contents, broken = decode_pictures(captioned, progress)
    faults = stop_on_errors(_name_broken(captioned, broken, skip_broken))
    whole = np.ones(len(captioned.rows), dtype=bool)
    whole[list(broken)] = False
    if not whole.any():
        raise InputError.at(captioned.name, "no picture can be read", "at least one", "check the folder")

    captioned = captioned.keep(whole)
    contents = [contents[image] for image in np.flatnonzero(whole)]
    cache = None
    if cached_size:
        watch = named(progress, DECODING)
        cache, notes = cached_pictures(
            captioned,
            contents,
            cached_size,
            preparation.prepare_pixels,
            workers=preparation.workers,
            progress=watch,
        )
        faults += notes

    split = Split(
        name=captioned.name,
        features=np.empty((len(captioned.rows), preparation.local_features, 0), np.float32),
        captions=captioned.captions,
        image_of_text=captioned.image_of_text,
        image_names=captioned.image_names,
        caption_ids=captioned.caption_ids,
        columns=captioned.columns,
        image_groups=captioned.image_groups,
        picture_folder=captioned.positions.folder,
        source=captioned.source,
        faults=faults,
        pictures=Pictures(
            captioned,
            preparation.prepare,
            preparation.local_features,
            preparation.workers,
            preparation.counts,
            cache,
        ),
    )
    digest = hashlib.sha256()
    for content in contents:
        digest.update(bytes.fromhex(content))

    captions = captions_checksum(split.captions, split.image_of_text)
    return split, {"features": digest.hexdigest(), "captions": captions}


def decode_all(
    splits: Sequence[CaptionedSplit], *, skip_broken: bool = False, progress: Progress = silent
) -> list[Fault]:
    """Decode every existing picture of these splits. Report broken ones in an error, or with `skip_broken` a warning,
    and pictures whose files are equal in two splits in a warning: evaluation must not use training samples."""
    faults = []
    owner: dict[str, tuple[str, str]] = {}  # content → split and name of its first picture
    for split in splits:
        present = split.keep(~split.missing())
        contents, broken = decode_pictures(present, named(progress, f"{split.name} pictures"))
        faults += _name_broken(split, broken, skip_broken)
        shared: dict[str, list[str]] = {}
        for content, name in zip(contents, present.image_names, strict=True):
            other, first = owner.setdefault(content, (split.name, name))
            if content and other != split.name and first != name:
                shared.setdefault(other, []).append(f"{shown(name)} is {shown(first)}")
        for other, cases in shared.items():
            fact = "pictures are the same files under other names"
            fix = "remove them from one of the two"
            faults += count_cases(f"{split.name} and {other}", fact, cases, "different pictures", fix)

    return faults


def _name_broken(split: CaptionedSplit, broken: dict[int, str], skip: bool) -> list[Fault]:
    problem = f"of {len(split.rows):,} pictures cannot be decoded"
    return count_unreadable(split.name, problem, [*broken.values()], skip=skip)


def decode_pictures(split: CaptionedSplit, progress: Progress = silent) -> tuple[list[str], dict[int, str]]:
    """Return the sha256 (hex) of the n picture files, and image → why it cannot be decoded. A result without broken
    pictures is kept in $CODER_CACHE and used while the files' names, sizes and times of change are the same."""
    identity = _identity(split)
    cached = cache_folder() / "pictures" / f"{identity}.json"
    if identity and (contents := _read(cached, len(split.rows))) is not None:
        return contents, {}

    contents = list[str]()
    broken = dict[int, str]()
    for image, (digest, reason) in enumerate(each_picture(split, _decode, progress)):
        contents.append(digest)
        if reason:
            broken[image] = f"{split.place(image)}: {reason}"
    if identity and not broken and identity == _identity(split):
        write_cached(cached, json.dumps(contents))
    return contents, broken


def _decode(content: bytes | str) -> tuple[str, str]:
    """Return the sha256 (hex) of a picture file and why it cannot be decoded ("" if it can)."""
    if isinstance(content, str):
        return "", content
    faults: list[Fault] = []
    collect(lambda: read_picture(content, "", size=DECODED_SIZE), faults)
    return hashlib.sha256(content).hexdigest(), faults[0].found if faults else ""


def _identity(split: CaptionedSplit) -> str:
    """Return a key of the files' names, sizes and times of change; "" just after a change."""
    digest = hashlib.sha256(repr(VERSION).encode())
    newest = 0
    for image, row in enumerate(split.rows.tolist()):
        size, changed = split.positions.state(row)
        newest = max(newest, changed)
        digest.update(f"{split.place(image)}\0{size}\0{changed}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest() if settled(newest) else ""


def _read(file: Path, count: int) -> list[str] | None:
    with suppress(OSError, ValueError, TypeError):
        contents = json.loads(file.read_text("ascii"))
        if len(contents) == count and all(len(bytes.fromhex(digest)) == 32 for digest in contents):
            return list(contents)
    return None
