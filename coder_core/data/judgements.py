"""Human judgments of which captions fit an image, and probes: captions altered so that they are wrong.

Section 13 of docs/data.md describes the files. ECCV Caption (Chun et al. 2022) and Crisscrossed Captions (Parekh et al.
2021) come with the package eccv-caption and cover the 5,000 test images of Karpathy's split of COCO, with five captions
each. Images are recognised by the number in their name, captions by their ids in Karpathy's JSON or COCO's files.
Without ids, the k-th caption of an image has the k-th of its ids in ascending order, which is their order in Karpathy's
files and in the package's own list of the test split. Probes are SugarCrepe's JSON (Hsieh et al. 2023).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import (
    LONGEST_CAPTION_CHARACTERS,
    numbered_lines,
    parse_json_text,
    plain_file,
    shown,
)
from coder_core.data.qrels import AMBIGUOUS, SampleIds

if TYPE_CHECKING:  # functions import NumPy, so that --help is fast
    import numpy as np

EXPECTED = "caption⇥image as x.jpg#2⇥y.jpg or 412⇥y.jpg, or a line of Flickr8k's expert or crowd annotations"
EXPERT_GRADE = 3.0  # least mean of three grades: 3 is "describes the image with minor errors", 4 without
CROWD_SHARE = 0.5  # a pair fits if more than this share of the judges said yes
PACKAGE = "eccv_caption"
DISTRIBUTION = "eccv-caption"
COCO_JUDGEMENTS = {"eccv": "ECCV Caption", "cxc": "CxC"}
NAMES = "391895, 000000391895.jpg or val2014/COCO_val2014_000000391895.jpg"
KEYS = ("filename", "caption", "negative_caption")  # of a probe
Rows = Mapping[int, list[int]]  # key → the rows that have it
_COCO = "COCO_"  # COCO_val2014_000000085329.jpg is 000000085329.jpg of the 2017 release
_NUMBER = re.compile(rf"(?:{_COCO}(?:train|val|test)20\d\d_)?(\d{{1,12}})(?:\.\w+)?")


class OtherSplitError(InputError):
    """A valid file of positives has no line about the split."""


class Judgements(NamedTuple):
    """Pairs of a split that belong together, including labels."""

    source: str  # the path of the file, or the name of COCO's judgments
    of_texts: np.ndarray  # (P, 2) int64 rows (caption, image): positives of captions as queries
    # (P, 2) int64 rows (caption, image): positives of images as queries; ECCV Caption judged the two separately
    of_images: np.ndarray
    fact: str  # contents of the source, in words
    disagreement: np.ndarray | None = None  # of Flickr8k's experts, see `Positives`; None for COCO


class Positives(NamedTuple):
    """Positives beyond the labels."""

    pairs: np.ndarray  # (P, 2) int64 rows (caption, image) of the split, without the labels
    elsewhere: int  # lines about images, or captions of images, that are not in the split
    missing: list[str]  # captions as the file names them, such as x.jpg#9, whose image of the split has fewer
    rejected: int  # lines whose judges found that caption and image do not belong together
    # (m,) for every caption, the standard deviation of the experts' grades of a pair, averaged over its judged
    # pairs; NaN if no expert judged it
    disagreement: np.ndarray


def read_judgements(
    source: str | Path,
    image_names: Sequence[str],
    image_of_text: np.ndarray,
    caption_ids: np.ndarray | None = None,
) -> Judgements:
    """Read the judged pairs of a split. `source`: "eccv", "cxc", or a file for `read_positives`, to whose pairs the
    labels are added. Other arguments and errors as for `coco_judgements` and `read_positives`."""
    import numpy as np

    if str(source) in COCO_JUDGEMENTS:
        return coco_judgements(str(source), image_names, image_of_text, caption_ids)
    positives = read_positives(Path(source), image_names, image_of_text, caption_ids)
    fact = f"{len(positives.pairs):,} positives beyond the labels"
    if positives.elsewhere:
        fact += f", {positives.elsewhere:,} line{'s' * (positives.elsewhere != 1)} about other splits"
    if missing := positives.missing:
        fact += f", {len(missing):,} about captions that their images do not have (the first: {missing[0]})"
    if positives.rejected:
        fact += f", {positives.rejected:,} pairs that its judges reject"
    pairs = np.concatenate([np.stack([np.arange(len(image_of_text)), image_of_text], 1), positives.pairs])
    return Judgements(str(source), pairs, pairs, fact, positives.disagreement)


def read_positives(
    path: Path, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None = None
) -> Positives:
    """Read a file of positives in one of the layouts in `EXPECTED` for one split; samples are named as in `SampleIds`.
    InputError: a line fits no layout, names a caption by id although the data has no ids, or has a name that several
    captions or images share. OtherSplitError: no line is about this split."""
    import numpy as np

    faults: list[Fault] = []
    ids = SampleIds(image_names, image_of_text, caption_ids)
    pairs = []
    missing = list[str]()
    elsewhere = list[str]()
    rejected = 0
    lines = 0
    deviations: dict[int, list[float]] = {}
    for where, line in numbered_lines(path, "pair", faults):
        lines += 1
        try:
            caption, image, fits, deviation = _judged(line.split("\t"))
        except ValueError:
            faults.append(Fault(where, f"is {shown(line)}", EXPECTED))
            continue
        text_row = ids.text(caption)
        image_row = ids.image(image)
        if caption_ids is None and "#" not in caption:
            fact = f"names caption {caption} by its id, but the data has no caption ids"
            faults.append(Fault(where, fact, fix="name the caption as x.jpg#2"))
        elif AMBIGUOUS in (text_row, image_row):
            fact = f"{shown(caption)} or {shown(image)} is the id of several captions or images"
            faults.append(Fault(where, fact, fix="name images with their folders, captions as x.jpg#2"))
        if text_row is None or image_row is None:
            lacks = text_row is None and ids.image(caption.rpartition("#")[0]) is not None
            (missing if lacks else elsewhere).append(shown(caption))
            continue
        if deviation is not None:
            deviations.setdefault(text_row, []).append(deviation)
        if not fits:
            rejected += 1
        elif image_of_text[text_row] != image_row:
            pairs.append((text_row, image_row))
    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    if lines and len(elsewhere) + len(missing) == lines:
        fact = f"none of its {lines:,} lines is about a caption and an image of this split"
        expected = f"names such as {image_names[0]}#0"
        raise OtherSplitError.at(path, fact, expected, "evaluate the split it is about")
    unique = np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0)
    disagreement = np.full(len(image_of_text), np.nan)
    for text_row, judged in deviations.items():
        disagreement[text_row] = np.mean(judged)
    return Positives(unique, len(elsewhere), missing, rejected, disagreement)


def _judged(cells: list[str]) -> tuple[str, str, bool, float | None]:
    """Parse a line: caption, image, True if they belong together, and the standard deviation of the experts' grades, or
    None without grades. ValueError: the line has another layout."""
    import numpy as np

    caption = cells[1 if len(cells) > 2 else 0]
    if not re.fullmatch(r"(.+#)?\d+", caption):
        raise ValueError(caption)
    if len(cells) == 2:
        return cells[0], cells[1], True, None
    image, _, *grades = cells
    numbers = [float(grade) for grade in grades]
    if len(numbers) == 3 and all(number in (1, 2, 3, 4) for number in numbers):
        return caption, image, sum(numbers) / 3 >= EXPERT_GRADE, float(np.std(numbers))
    if len(numbers) != 3 or not 0 <= numbers[0] <= 1:
        raise ValueError
    return caption, image, numbers[0] > CROWD_SHARE, None


def coco_judgements(
    name: str, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None = None
) -> Judgements:
    """Read the pairs of a split of COCO's test images that "eccv" or "cxc" judged, including labels that its judges
    confirmed. InputError: the package is missing or incomplete; an image is not one of COCO's test images, occurs
    twice, or has fewer captions than in COCO and these have no ids.

    Folders in image names are ignored. `caption_ids` are used if at least one is COCO's id of a caption of its image; a
    file may number its captions differently. Without ids, the captions of an image must be in the order of COCO's ids.
    """
    import numpy as np

    flag = f"--positives {name}"
    folder = package_folder(flag)
    for row, image_name in enumerate(image_names[:1]):
        _image_number(flag, row, image_name)  # before the files, which other data would read in vain
    captions_of = _read_ids(folder / "original_image_to_caption.json")
    rows = _image_rows(flag, image_names, captions_of)
    text_rows: dict[int, int] = {}  # COCO's id → row of the caption
    if caption_ids is not None:
        ids_of = {row: set(captions_of[image]) for image, row in rows.items()}
        numbered = enumerate(zip(caption_ids.tolist(), image_of_text.tolist(), strict=True))
        text_rows = {number: row for row, (number, image) in numbered if number in ids_of[image]}
    fact = "captions are recognised by their COCO ids"
    if not text_rows:
        texts_of = SampleIds(image_names, image_of_text).texts
        text_rows = _rows_by_order(flag, image_names, texts_of, rows, captions_of)
        fact = "the k-th caption of an image is matched with the k-th of its COCO ids in ascending order"
    by_caption = _read_ids(folder / f"{name}_caption_to_image.json")
    by_image = _read_ids(folder / f"{name}_image_to_caption.json")
    caption_pairs = [(caption, image) for caption, images in by_caption.items() for image in images]
    image_pairs = [(caption, image) for image, captions in by_image.items() for caption in captions]

    def known(pairs: list[tuple[int, int]]) -> np.ndarray:
        of_split = [(text_rows[c], rows[i]) for c, i in pairs if c in text_rows and i in rows]
        return np.array(of_split, np.int64).reshape(-1, 2)

    of_texts = known(caption_pairs)
    of_images = known(image_pairs)
    elsewhere = len(caption_pairs) + len(image_pairs) - len(of_texts) - len(of_images)
    fact = f"pairs that count for captions: {len(of_texts):,}, for images: {len(of_images):,}; {fact}"
    fact += f"; judged pairs outside this split: {elsewhere:,}" if elsewhere else ""
    return Judgements(COCO_JUDGEMENTS[name], of_texts, of_images, fact)


def package_folder(where: str) -> Path:
    """Return the folder of the package's data; InputError, located at `where`, if the package is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        fix = f"python -m pip install {DISTRIBUTION}"
        raise InputError.at(where, f"needs the package {DISTRIBUTION}", fix=fix)
    return Path(spec.submodule_search_locations[0]) / "data"


def _rows_by_order(
    flag: str, image_names: Sequence[str], texts_of: Rows, rows: Mapping[int, int], captions_of: Rows
) -> dict[int, int]:
    """Map COCO's caption ids to rows: the k-th caption of an image has the k-th of its ids in ascending order."""
    text_rows: dict[int, int] = {}
    for image, row in rows.items():
        texts = texts_of.get(row, [])
        ids = sorted(captions_of[image])
        if len(texts) < len(ids):
            fact = f"has {len(texts)} captions, but COCO has {len(ids)}; which are missing is unknown"
            where = f"{flag}: image {row} ({shown(image_names[row])})"
            raise InputError.at(where, fact, fix="keep all of its captions")
        text_rows |= zip(ids, texts, strict=False)  # a sixth caption is unjudged
    return text_rows


def _image_rows(flag: str, image_names: Sequence[str], known: Rows) -> dict[int, int]:
    """Map COCO's image numbers to rows."""
    rows: dict[int, int] = {}
    for row, name in enumerate(image_names):
        number = _image_number(flag, row, name)
        if number not in known:
            raise _not_of_coco(flag, row, name, "is not one of COCO's 5,000 test images")
        if rows.setdefault(number, row) != row:
            where = f"{flag}: image {row} ({shown(name)})"
            raise InputError.at(where, f"repeats image {rows[number]}", fix="remove one of the two")
    return rows


def _image_number(flag: str, row: int, name: str) -> int:
    """Return COCO's number in an image name."""
    match = _NUMBER.fullmatch(name.rsplit("/", 1)[-1])
    if match is None:
        raise _not_of_coco(flag, row, name, "has no COCO number in its name")
    return int(match[1])


def _not_of_coco(flag: str, row: int, name: str, fact: str) -> InputError:
    fix = "evaluate testall of COCO (test: its first 1,000 images), or give a file of positives"
    return InputError.at(f"{flag}: image {row} ({shown(name)})", fact, NAMES, fix)


def _read_ids(file: Path) -> dict[int, list[int]]:
    fix = f"python -m pip install --force-reinstall {DISTRIBUTION}"
    try:
        content = json.loads(file.read_bytes())
        return {int(key): [int(value) for value in values] for key, values in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError.at(file, f"cannot be read: {error}", "the package's data", fix) from None


class Probe(NamedTuple):
    """A picture, its caption, and an altered caption that is wrong. kind: of change, the name of the probe's file."""

    kind: str
    picture: str
    caption: str
    negative: str


def read_probes(files: Sequence[Path]) -> list[Probe]:
    """Read all probes of one or several files. InputError: a file is missing or not JSON, or an entry lacks a key, or
    has a value that is not a text or is too long."""
    probes: list[Probe] = []
    for path in files:
        entries = parse_json_text(plain_file(path, []).read_bytes(), path, "a file like SugarCrepe's")
        if isinstance(entries, list):
            entries = {str(number): entry for number, entry in enumerate(entries)}
        if not isinstance(entries, dict) or not entries:
            raise InputError.at(path, "has no entries", f"objects with {', '.join(KEYS)}")
        wrong = []
        for key, entry in entries.items():
            values = [entry.get(name) if isinstance(entry, dict) else None for name in KEYS]
            texts = [value for value in values if isinstance(value, str) and value.strip()]
            if len(texts) == len(KEYS) and max(map(len, texts)) <= LONGEST_CAPTION_CHARACTERS:
                picture, caption, negative = texts
                probes.append(Probe(path.stem, picture, caption, negative))
            else:
                expected = f"texts for {', '.join(KEYS)}"
                wrong.append(Fault(f"{path} entry {key!r:.40}", "is not a probe", expected))
        if wrong:
            raise InputError(wrong[:MOST_FAULTS_SHOWN])

    return probes


def picture_key(name: str) -> str:
    """Return the name that identifies a picture: without folders, ending, and the prefix of COCO's 2014 release.

    >>> picture_key("val2014/COCO_val2014_000000085329.jpg")
    '000000085329'
    """
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return stem.rsplit("_", 1)[-1] if stem.startswith(_COCO) else stem
