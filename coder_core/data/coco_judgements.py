"""COCO's judgements of which captions fit which images beyond the labels, from the data of the package eccv-caption.

eccv   ECCV Caption (Chun et al. 2022): people checked the nearest pairs of five models
cxc    Crisscrossed Captions (Parekh et al. 2021): pairs that people rated as similar

Both are about the 5,000 test images of Karpathy's split and five captions of each. Images are recognised by the number
in their name, captions by their ids, which Karpathy's JSON and COCO's files hold. Without ids the k-th caption of an
image is the k-th of its ids in ascending order, which is their order in Karpathy's files and in the package's own list
of the test split.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from coder_core.console.faults import Fault, InputError
from coder_core.data.lines import shown

if TYPE_CHECKING:  # NumPy is loaded after --help is answered
    import numpy as np

PACKAGE, DISTRIBUTION = "eccv_caption", "eccv-caption"
COCO_JUDGEMENTS = {"eccv": "ECCV Caption", "cxc": "CxC"}
NAMES = "391895, 000000391895.jpg or val2014/COCO_val2014_000000391895.jpg"
_NUMBER = re.compile(r"(?:COCO_(?:train|val|test)20\d\d_)?(\d{1,12})(?:\.\w+)?")

Ids = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class CocoJudgements:
    """Judged pairs as rows of a split. The labels are among them where the judges confirmed them.

    Args:
        of_texts: (P, 2) int64, the positives of captions as queries: a caption, an image.
        of_images: (P, 2) int64, those of images as queries: a caption, an image. ECCV Caption judged them apart.
        elsewhere: judged pairs with a caption or an image that the split does not have.
        by_ids: captions were recognised by their ids, not by their order.
    """

    of_texts: np.ndarray
    of_images: np.ndarray
    elsewhere: int
    by_ids: bool


def coco_judgements(
    name: str, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None = None
) -> CocoJudgements:
    """The judged pairs of a split of COCO's test images.

    Args:
        name: "eccv" or "cxc".
        image_names: n names or ids with COCO's numbers; folders before a name do not count.
        image_of_text: (m,) the image of every caption; without ids, captions of an image in the order of theirs.
        caption_ids: (m,) numbers of the captions. They count where one of them is COCO's id of a caption of its image:
            a file may number its captions otherwise.

    Raises:
        InputError: the package is missing or incomplete; an image is none of COCO's test images, stands twice, or has
            fewer captions than COCO and these have no ids.
    """
    import numpy as np

    flag = f"--positives {name}"
    folder = package_folder(flag)
    captions_of = _read(folder / "original_image_to_caption.json")
    rows = _image_rows(flag, image_names, captions_of)
    order = np.argsort(image_of_text, kind="stable")
    first = np.searchsorted(image_of_text[order], np.arange(len(image_names) + 1))
    text_rows = _rows_by_id(
        caption_ids, image_of_text, {row: set(captions_of[image]) for image, row in rows.items()}
    )
    by_ids = bool(text_rows)
    for image, row in rows.items() if not by_ids else ():
        own, ids = order[first[row] : first[row + 1]].tolist(), sorted(captions_of[image])
        if len(own) < len(ids):
            fact = f"has {len(own)} captions, COCO {len(ids)}: which of them these are is not known"
            place = f"{flag}: image {row} ({shown(image_names[row])})"
            raise InputError(Fault(place, fact, fix="keep all of its captions"))
        text_rows |= zip(ids, own, strict=False)  # a sixth caption is judged by nobody
    judged = [
        [
            (caption, image)
            for caption, images in _read(folder / f"{name}_caption_to_image.json").items()
            for image in images
        ],
        [
            (caption, image)
            for image, captions in _read(folder / f"{name}_image_to_caption.json").items()
            for caption in captions
        ],
    ]
    of_texts, of_images = (
        np.array(
            [(text_rows[c], rows[i]) for c, i in pairs if c in text_rows and i in rows], np.int64
        ).reshape(-1, 2)
        for pairs in judged
    )
    return CocoJudgements(of_texts, of_images, sum(map(len, judged)) - len(of_texts) - len(of_images), by_ids)


def _rows_by_id(
    caption_ids: np.ndarray | None, image_of_text: np.ndarray, ids_of: Mapping[int, set[int]]
) -> dict[int, int]:
    """COCO's id → row of the captions whose number is one of their image's ids, `ids_of` of every row of an image."""
    if caption_ids is None:
        return {}
    numbered = enumerate(zip(caption_ids.tolist(), image_of_text.tolist(), strict=True))
    return {number: row for row, (number, image) in numbered if number in ids_of[image]}


def package_folder(place: str) -> Path:
    """The folder with the package's data.

    Raises:
        InputError: the package is not installed; `place` is named.
    """
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            Fault(place, f"needs the package {DISTRIBUTION}", fix=f"python -m pip install {DISTRIBUTION}")
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _image_rows(flag: str, image_names: Sequence[str], known: Ids) -> dict[int, int]:
    """COCO's number of an image → its row."""
    rows: dict[int, int] = {}
    for row, name in enumerate(image_names):
        match = _NUMBER.fullmatch(name.rsplit("/", 1)[-1])
        if match is None or int(match[1]) not in known:
            fact = "is not named by COCO's number" if match is None else "is none of COCO's 5,000 test images"
            fix = "evaluate testall of COCO (test: its first 1,000 images), or give a file of positives"
            raise InputError(Fault(f"{flag}: image {row} ({shown(name)})", fact, NAMES, fix))
        if rows.setdefault(int(match[1]), row) != row:
            raise InputError(
                Fault(f"{flag}: image {row} ({shown(name)})", f"is image {rows[int(match[1])]} again")
            )
    return rows


def _read(file: Path) -> dict[int, list[int]]:
    try:
        content = json.loads(file.read_text("ascii"))
        return {int(key): [int(value) for value in values] for key, values in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        fix = f"python -m pip install --force-reinstall {DISTRIBUTION}"
        raise InputError(Fault(str(file), f"cannot be read: {error}", "the package's data", fix)) from None
