"""Read embeddings of any model: two .npy files and their captions, checked, as float32 unit rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError, collect, stop_on_errors
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.features import FeatureFile, FeatureRows, open_features
from coder_core.data.lines import check_name, follow_link, read_lines, shorten
from coder_core.data.pictures import check_pictures
from coder_core.data.precomp import pair

ROWS_NAMED = 10
PIECE_BYTES = 64 * 2**20
UNIT = 1e-6  # a row whose length is this close to 1 is left as it is
COLLAPSED = 0.99  # mean cosine between two rows of one modality: nearly all of them point the same way


@dataclass(frozen=True)
class Embeddings:
    """Images and captions in one space.

    Args:
        images: (n, D) float32 unit rows.
        texts: (m, D) float32 unit rows.
        captions: m strings.
        image_of_text: (m,) int64, the image of every caption.
        image_names: n ids, or None.
        picture_folder: where the ids are files, or None.
        pictures: that were embedded, or None.
        source: what was read from where.
        faults: warnings and notes; every coercion is one of them.
        queries: (q, D) float32 unit rows of texts that are no captions, or None; query_texts: those q texts.
    """

    images: np.ndarray
    texts: np.ndarray
    captions: list[str]
    image_of_text: np.ndarray
    image_names: list[str] | None = None
    picture_folder: Path | None = None
    source: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    queries: np.ndarray | None = None
    query_texts: list[str] = field(default_factory=list)
    pictures: CaptionedSplit | None = None


def read_embeddings(
    images: str | Path,
    texts: str | Path,
    captions: str | Path,
    *,
    ids: str | Path | None = None,
    pictures: str | Path | None = None,
    queries: str | Path | None = None,
    query_texts: str | Path | None = None,
) -> Embeddings:
    """Read and check the embeddings of a split, whatever model they come from.

    Args:
        images: .npy of (n, D) floats; a file with one row a caption, repeated, is understood.
        texts: .npy of (m, D) floats, one row a caption.
        captions: m lines.
        ids: one id an image or one a caption, as in the precomp layout; names the pictures.
        pictures: folder in which the ids are files.
        queries: .npy of (q, D) floats, texts that are no captions. query_texts: those texts, q lines, all different.

    Raises:
        InputError: the files cannot be used together; up to 20 faults, each with its file, rows and how to fix it.
    """
    faults: list[Fault] = []
    image_file = collect(lambda: open_matrix(images, faults), faults)
    text_file = collect(lambda: open_matrix(texts, faults), faults)
    lines = collect(lambda: read_lines(Path(captions), "caption", faults), faults)
    names = collect(lambda: read_lines(Path(ids), "id", faults), faults) if ids is not None else None
    if image_file is not None and text_file is not None:
        faults += check_widths(image_file, text_file)
    if text_file is not None and lines and len(lines) != text_file.shape[0]:
        problem = f"{text_file.shape[0]:,} rows for the {len(lines):,} captions of {captions}"
        fix = "look for a missing or doubled line, or write the embeddings of these captions"
        faults.append(Fault(str(texts), problem, "one row a caption, in the same order", fix))
    query_file, query_lines = _queries(queries, query_texts, image_file, faults)
    stop_on_errors(faults)
    assert image_file is not None
    assert text_file is not None
    assert lines is not None
    ids_file, captions_file = Path(ids) if ids is not None else Path(), Path(captions)
    pairing = pair(image_file.map(), len(lines), names, Path(images), captions_file, ids_file, faults)
    values = [
        collect(lambda: unit_rows(image_file, "images", pairing.stride, faults), faults),
        collect(lambda: unit_rows(text_file, "captions", 1, faults), faults),
    ]
    asked = (
        collect(lambda: unit_rows(query_file, "queries", 1, faults), faults)
        if query_file is not None
        else None
    )
    folder = Path(pictures) if pictures is not None else None
    faults += check_picture_names(folder, pairing.names)
    remarks = stop_on_errors(faults)
    v, w = (value for value in values if value is not None)
    source = {"images": str(images), "texts": str(texts), "captions": str(captions)}
    source |= {"ids": str(ids)} if ids is not None else {}
    source |= {"queries": str(queries), "query texts": str(query_texts)} if query_lines else {}
    return Embeddings(
        v,
        w,
        shorten(lines, str(captions), remarks),
        pairing.image_of_text.astype(np.int64),
        pairing.names,
        folder,
        source | {"captions belong to images": pairing.how},
        remarks,
        asked,
        query_lines,
    )


def _queries(
    queries: str | Path | None, texts: str | Path | None, images: FeatureFile | None, faults: list[Fault]
) -> tuple[FeatureFile | None, list[str]]:
    """The file of the saved queries and their texts, (None, []) without; what is wrong with them is added."""
    if (queries is None) != (texts is None):
        given, missing = ("--queries", "--query-texts") if texts is None else ("--query-texts", "--queries")
        faults.append(Fault(missing, f"is missing beside {given}", "embeddings of queries and their texts"))
    if queries is None or texts is None:
        return None, []
    file = collect(lambda: open_matrix(queries, faults), faults)
    lines = collect(lambda: read_lines(Path(texts), "query", faults), faults) or []
    if file is not None and images is not None and file.shape[1] != images.shape[1]:
        widths = f"{file.shape[1]:,} numbers a query, {images.shape[1]:,} an image"
        fix = "embed the queries with the text encoder of these captions"
        faults.append(Fault(str(queries), widths, "the same width in both", fix))
    if file is not None and lines and len(lines) != file.shape[0]:
        problem = f"{file.shape[0]:,} rows for the {len(lines):,} queries of {texts}"
        faults.append(Fault(str(queries), problem, "one row a query, in the same order"))
    first: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if (before := first.setdefault(line.strip(), number)) != number:
            faults.append(
                Fault(f"{texts} line {number}", f"is the query of line {before} again", "every query once")
            )
            break
    return file, [line.strip() for line in lines]


def open_matrix(path: str | Path, faults: list[Fault]) -> FeatureFile:
    """A matrix of floats; the header is compared with the size before anything is read."""
    follow_link(Path(path), faults)
    file = open_features(Path(path), [])  # its notes speak of image features
    if len(file.shape) != 2:
        fix = "pool the regions or words first: an embedding is one row an image or caption"
        raise InputError.at(path, f"shape {file.shape}", "(rows, width)", fix)
    if file.dtype != np.float32:
        order = "" if file.dtype.isnative else "big-endian "
        text = f"{order}float{8 * file.dtype.itemsize}; converted to float32"
        faults.append(Fault(str(path), text, severity="note"))
    return file


def check_widths(images: FeatureFile, texts: FeatureFile) -> list[Fault]:
    if images.shape[1] == texts.shape[1]:
        return []
    widths = f"{images.shape[1]:,} numbers an image, {texts.shape[1]:,} a caption"
    fix = "use the projected embeddings of both encoders, the ones whose inner product is the score"
    return [Fault(f"{images.path.name} and {texts.path.name}", widths, "the same width in both", fix)]


def unit_rows(file: FeatureFile, what: str, stride: int, faults: list[Fault]) -> np.ndarray:
    """Every stride-th row as float32 of length 1, read in pieces; coercions are noted.

    Raises:
        InputError: NaN, Inf, or rows that are zero and have no direction.
    """
    numbers = np.arange(0, file.shape[0], stride)
    rows = np.empty((len(numbers), file.shape[1]), np.float32)
    lengths = np.empty(len(numbers))
    piece = max(1, PIECE_BYTES // (8 * file.shape[1]))
    reader = FeatureRows(file.map())
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(numbers), piece):
            part = slice(start, start + piece)
            values = np.asarray(reader.gather(numbers[part], np.zeros_like(numbers[part])), np.float64)
            lengths[part] = np.linalg.norm(values, axis=1)
            away = np.abs(lengths[part] - 1.0) > UNIT
            values[away] /= np.where(lengths[part] > 0, lengths[part], 1.0)[away, None]
            rows[part] = values
    errors = []
    for bad, problem, expected in (
        (~np.isfinite(lengths), "hold NaN, Inf or numbers too large", "finite numbers"),
        (lengths == 0, "are zero in every number and have no direction", "a vector of some length"),
    ):
        if bad.any():
            first = ", ".join(map(str, numbers[bad][:ROWS_NAMED].tolist()))
            text = f"{int(bad.sum()):,} rows {problem}; the first, counted from 0: {first}"
            errors.append(Fault(str(file.path), text, expected, f"embed these {what} again"))
    stop_on_errors(errors)
    if (np.abs(lengths - 1.0) > UNIT).any():
        text = f"rows of length {lengths.min():.4g} to {lengths.max():.4g}, divided by it: scores are cosines"
        faults.append(Fault(str(file.path), text, severity="note"))
    faults += _collapsed(rows, file, what)
    return rows


def _collapsed(rows: np.ndarray, file: FeatureFile, what: str) -> list[Fault]:
    """A warning when nearly all rows are the same. The mean cosine of two rows follows from the length of their sum."""
    count = len(rows)
    if count < 2:
        return []
    total = rows.sum(0, dtype=np.float64)
    cosine = (float(total @ total) - count) / (count * (count - 1))
    if cosine < COLLAPSED:
        return []
    problem = f"collapsed: the mean cosine between two {what} is {cosine:.4f}, nearly all of them point the same way"
    fix = "check which layer they come from; ranks among equal scores say little"
    return [Fault(str(file.path), problem, f"below {COLLAPSED}", fix, severity="warning")]


def check_picture_names(folder: Path | None, names: list[str] | None) -> list[Fault]:
    if folder is None:
        return check_pictures(None, names, asked=False)
    if faults := check_name(folder):
        return faults
    if not folder.is_dir():
        return [
            Fault(f"--pictures {folder}", "there is no such folder", "the folder of the pictures", "check it")
        ]
    if names is None:
        problem = "no ids name the picture files, so none can be shown"
        return [Fault(f"--pictures {folder}", problem, "--ids with the file names", severity="warning")]
    return check_pictures(folder, names, asked=True)
