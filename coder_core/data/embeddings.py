"""Read and check embeddings of any model as float32 unit rows: two matrices and their captions, or the output of
clip-retrieval (img_emb/img_emb_0.npy, text_emb/text_emb_0.npy, metadata/metadata_0.parquet)."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, collect, stop_on_errors
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.positions import open_parquet, parquet_rows
from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.data.dataset import MOST_REPEATS, Pairing, PairingFiles, number_names, pair
from coder_core.data.features import FeatureFile, describe_floats, open_features
from coder_core.data.lines import (
    FROM_ZERO,
    Once,
    check_name,
    check_texts,
    count_cases,
    follow_link,
    read_lines,
    shorten,
    shown,
)
from coder_core.data.pictures import check_pictures
from coder_core.data.search_log import SearchLog
from coder_core.data.unit_rows import first_equal_rows, unit_array
from coder_core.files.matrices import MatrixFile, is_matrix, read_matrix

Matrix = FeatureFile | MatrixFile  # in a .npy, or read from another file
PARTS = ("img_emb", "text_emb", "metadata")  # folders of clip-retrieval
PARTS_EXPECTED = "img_emb/img_emb_0.npy, text_emb/text_emb_0.npy and metadata/metadata_0.parquet"
COLUMNS = ("image_path", "caption")
SAME = 0.999  # least cosine between two rows of the same picture
# Image rows count as stored once per caption if at least this share of rows equals the row before, …
REPEATED = 0.1
IN_A_ROW = 0.9  # … and so does at least this share of all rows that equal an earlier one
MORE_THAN_CHANCE = 6  # neighbours must be nearly equal this many times as often as rows that are far apart
ONCE_PER_IMAGE = "give each image one row, or name every row's image (import: --ids; log_split: pictures)"
FEWEST_ALIKE = 5  # captions that share an embedding with a different one, from which a warning is due
SHARE_ALIKE = 0.05  # of all captions, likewise
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of images and captions in one space."""

    images: np.ndarray  # (n, D) float32 unit rows
    texts: np.ndarray  # (m, D) float32 unit rows
    captions: list[str]  # m strings
    image_of_text: np.ndarray  # (m,) int64, the image of every caption
    image_names: list[str] | None = None  # n ids, or None
    picture_folder: Path | None = None  # in which the ids are file names, or None
    source: dict[str, str] = field(default_factory=dict)  # what was read from where
    faults: list[Fault] = field(default_factory=list)  # warnings and notes, also on every conversion
    # (q, D) float32 unit rows of texts that are not captions, or None
    queries: np.ndarray | None = None
    query_texts: list[str] = field(default_factory=list)  # these q texts
    pictures: CaptionedSplit | None = None  # the embedded pictures, or None
    image_groups: np.ndarray | None = None  # (n,) int64, equal for images that show the same thing, or None
    search_log: SearchLog | None = None  # whose queries the captions are, or None
    columns: SampleColumns = NO_COLUMNS  # of the images and captions, besides their names and texts


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
    """Read and check the embeddings of a split by any model. InputError: the files cannot be used together; up to 20
    faults, each with file, rows and how to fix it.

    Embeddings are floats in a .npy or any file that `read_matrix` reads: (n, D) images, possibly repeated once per
    caption, (m, D) captions and (q, D) queries (texts that are not captions). `captions` has m lines, `query_texts` q
    different lines, `ids` one id per image or per caption, as in the precomp layout; in `pictures` the ids are files.
    """
    faults: list[Fault] = []
    image_file = collect(lambda: open_matrix(images, faults), faults)
    text_file, lines = _matrix_with_lines(texts, captions, "caption", image_file, faults)
    names = collect(lambda: read_lines(Path(ids), "id", faults), faults) if ids is not None else None
    query_file, query_lines = _saved_queries(queries, query_texts, image_file, faults)
    stop_on_errors(faults)
    assert image_file is not None
    assert text_file is not None

    m = len(lines)
    rows = image_file.shape[0]
    files = PairingFiles(Path(images), Path(captions), Path(ids or ""))
    if m == rows and (names is None or len(names) == m):
        pairing = Pairing(np.arange(m), names, 1, "row i to caption i; repeated rows are one image")
    else:
        pairing = pair(image_file.map(), m, names, files, faults)
    if names is not None and len(names) != rows:
        text = "one id per caption: row 0 of the images belongs to the first id, row 1 to the next new id, …"
        faults.append(Fault(str(ids), text, severity="note"))

    v = collect(lambda: read_unit_rows(image_file, "images", faults), faults)
    w = collect(lambda: read_unit_rows(text_file, "captions", faults), faults)
    q = collect(lambda: read_unit_rows(query_file, "queries", faults), faults) if query_file else None
    stop_on_errors(faults)
    assert v is not None
    assert w is not None

    v, owners, names = join_repeated(v, pairing.image_of_text, pairing.names, str(images), faults)
    folder = Path(pictures) if pictures is not None else None
    remarks = stop_on_errors(faults + check_names(folder, names))

    source = {"images": str(images), "texts": str(texts), "captions": str(captions)}
    source |= {"ids": str(ids)} if ids is not None else {}
    source |= {"queries": str(queries), "query texts": str(query_texts)} if query_lines else {}
    source["captions belong to images"] = pairing.how

    texts_of_rows = shorten(lines, str(captions), remarks)
    remarks += same_rows(w, texts_of_rows, str(texts))
    return Embeddings(v, w, texts_of_rows, owners, names, folder, source, remarks, q, query_lines)


def _saved_queries(
    queries: str | Path | None, texts: str | Path | None, images: Matrix | None, faults: list[Fault]
) -> tuple[Matrix | None, list[str]]:
    """Open the saved queries and read their texts, or return (None, []) if there are none; add their faults."""
    if (queries is None) != (texts is None):
        flag, missing = ("--queries", "--query-texts")[:: 1 if texts is None else -1]
        faults.append(Fault(missing, f"is missing, but {flag} is given", "both or neither"))
    if queries is None or texts is None:
        return None, []
    file, lines = _matrix_with_lines(queries, texts, "query", images, faults)
    once = Once("query", faults)
    for number, line in enumerate(lines, start=1):
        once.add(line, f"{texts} line {number}")
    return file, lines


def _matrix_with_lines(
    rows: str | Path, texts: str | Path, what: str, images: Matrix | None, faults: list[Fault]
) -> tuple[Matrix | None, list[str]]:
    """Open a file of embedded texts and read these texts, one per row; add the faults of both and of their sizes."""
    file = collect(lambda: open_matrix(rows, faults), faults)
    lines = collect(lambda: read_lines(Path(texts), what, faults), faults) or []
    if file is not None and images is not None:
        faults += _compare_widths(images, file, what)
    if file is not None and lines and len(lines) != file.shape[0]:
        problem = f"has {file.shape[0]:,} rows, but {texts} has {len(lines):,} lines"
        fix = "look for a missing or duplicated line, or embed exactly these texts"
        faults.append(Fault(str(rows), problem, f"one row per {what}, in the same order", fix))
    return file, lines


def open_matrix(path: str | Path, faults: list[Fault]) -> Matrix:
    """Open a matrix of floats. A .npy's header is compared with the file's size before any value is read."""
    follow_link(Path(path), faults)
    if is_matrix(path):
        return read_matrix(path)
    file = open_features(Path(path), [])  # its notes are about image features
    if len(file.shape) != 2:
        fix = "pool the regions or words first: every image and caption has one row"
        raise InputError.at(path, f"shape {file.shape}", "(rows, width)", fix)
    if file.dtype != np.float32:
        text = f"{describe_floats(file.dtype)}; converted to float32"
        faults.append(Fault(str(path), text, severity="note"))
    return file


def _compare_widths(images: Matrix, texts: Matrix, what: str = "caption") -> list[Fault]:
    if images.shape[1] == texts.shape[1]:
        return []
    widths = f"{images.shape[1]:,} numbers per image, {texts.shape[1]:,} per {what}"
    fix = "use the projected embeddings of both encoders, the ones whose inner product is the score"
    return [Fault(f"{images.path.name} and {texts.path.name}", widths, "the same width in both", fix)]


def read_unit_rows(file: Matrix, what: str, faults: list[Fault]) -> np.ndarray:
    """Return the rows of a file, normalised by `unit_array`: a mapped .npy of unit rows stays as it is; a `MatrixFile`
    is changed in place."""
    return unit_array(file.map(), str(file.path), what, faults, in_place=isinstance(file, MatrixFile))


def same_rows(texts: np.ndarray, captions: Sequence[str], where: str) -> list[Fault]:
    """Return a warning if many different captions, (m,) texts, have one embedding, a row of `texts` (m, D)."""
    first = first_equal_rows(texts)
    repeats = np.flatnonzero(first != np.arange(len(first))).tolist()
    alike = [row for row in repeats if _words(captions[first[row]]) != _words(captions[row])]
    if len(alike) < max(FEWEST_ALIKE, SHARE_ALIKE * len(captions)):
        return []
    problem = "captions have the embedding of another, different caption"
    fix = (
        "check that the model reads the text (its tokenizer files, its vocabulary) and that rows are in order"
    )
    return count_cases(where, problem, alike, "another embedding for another text", fix, first=FROM_ZERO)


def _words(caption: str) -> list[str]:
    return WORD.findall(caption.casefold())


def check_names(folder: Path | None, names: list[str] | None) -> list[Fault]:
    if faults := check_name(folder):
        return faults
    if folder is not None and not folder.is_dir():
        flag = f"--pictures {folder}"
        return [Fault(flag, "there is no such folder", "the folder of the pictures", "check the path")]
    return check_pictures(folder, names, asked=folder is not None)


def read_clip_retrieval(folder: str | Path, *, pictures: str | Path | None = None) -> Embeddings:
    """Read a folder of clip-retrieval's `inference`; rows with the same image_path are one image with several captions.
    InputError: parts are missing or do not match; up to 20 faults with file, rows and how to fix it. `folder`: with
    img_emb, text_emb and metadata. `pictures`: folder in which the image paths are files; by default, if all are
    absolute, their common folder."""
    faults: list[Fault] = []
    folder = Path(folder)
    names: list[str] = []
    captions: list[str] = []
    read = [partial(_read_part, folder, number, names, captions, faults) for number in _part_numbers(folder)]
    parts = [collect(part, faults) for part in read]
    stop_on_errors(faults)
    whole = [part for part in parts if part is not None]
    if len({images.shape[1] for images, _ in whole}) > 1:
        widths = ", ".join(f"{images.path.name}: {images.shape[1]:,}" for images, _ in whole)
        faults.append(Fault(str(folder), f"rows of different widths ({widths})", "parts of one model"))

    v = [collect(partial(read_unit_rows, images, "images", faults), faults) for images, _ in whole]
    w = [collect(partial(read_unit_rows, texts, "captions", faults), faults) for _, texts in whole]
    stop_on_errors(faults)
    images, owners, image_names = join_repeated(_joined(v), np.arange(len(names)), names, str(folder), faults)
    assert image_names is not None
    image_names, picture_folder = picture_names(image_names, Path(pictures) if pictures else None, faults)
    remarks = stop_on_errors(faults + check_names(picture_folder, image_names))
    source = {"captions": str(folder), "layout": "clip-retrieval"}
    source["captions belong to images"] = "equal image_path"
    captions = shorten(captions, str(folder), remarks)
    stop_on_errors(check_texts(str(folder), [*names, *captions]))
    texts = _joined(w)
    remarks += same_rows(texts, captions, str(folder))
    return Embeddings(images, texts, captions, owners, image_names, picture_folder, source, remarks)


def picture_names(
    names: list[str], folder: Path | None, faults: list[Fault]
) -> tuple[list[str], Path | None]:
    """Return absolute paths of pictures as names relative to `folder`, or to their common folder if there is none or
    they are not in it; and the folder of the pictures, None with a warning if it does not exist here."""
    shared = Path(os.path.commonpath(map(os.path.dirname, names))) if all(map(os.path.isabs, names)) else None
    inside = shared is None or (folder is not None and shared.is_relative_to(os.path.abspath(folder)))
    if base := folder if inside else shared:
        names = [os.path.relpath(name, base) if os.path.isabs(name) else name for name in names]
    if folder is None and shared is not None and not shared.is_dir():
        fix = "give their folder on this machine as --pictures"
        faults.append(Fault(str(shared), "the folder of the pictures does not exist", "", fix, "warning"))
        shared = None
    return names, folder or shared


def _joined(parts: Iterable[np.ndarray | None]) -> np.ndarray:
    return np.concatenate([part for part in parts if part is not None])


def _part_numbers(folder: Path) -> list[int]:
    """List the numbers of the parts in the three folders; InputError if there are none, or if a folder lacks one."""
    numbers = {}
    for part in PARTS:
        name = re.compile(rf"{part}_(\d+)\.(?:npy|parquet)")
        matches = (name.fullmatch(path.name) for path in folder.glob(f"{part}/*"))
        numbers[part] = {int(match[1]) for match in matches if match}
    whole = set.union(*numbers.values())
    lacking = [f"{part}_{n}" for part in PARTS for n in sorted(whole - numbers[part])]
    if lacking or not whole:
        problem = f"lacks {', '.join(lacking[:10])}" if lacking else "has no embeddings from clip-retrieval"
        raise InputError.at(folder, problem, PARTS_EXPECTED, "check the path, or copy these files too")
    return sorted(whole)


def _read_part(
    folder: Path, number: int, names: list[str], captions: list[str], faults: list[Fault]
) -> tuple[Matrix, Matrix]:
    """Open the images and texts of a part; append its names and captions."""
    image, text, metadata = (folder / part / f"{part}_{number}" for part in PARTS)
    images = open_matrix(image.with_suffix(".npy"), faults)
    texts = open_matrix(text.with_suffix(".npy"), faults)
    file = metadata.with_suffix(".parquet")
    table = open_parquet(file, faults)
    faults += _compare_widths(images, texts)
    rows = table.metadata.num_rows
    if not images.shape[0] == texts.shape[0] == rows:
        problem = f"has {rows:,} rows for {images.shape[0]:,} images and {texts.shape[0]:,} captions"
        fix = "run clip-retrieval on this part again"
        faults.append(Fault(str(file), problem, "one row of each per sample", fix))
    if missing := [column for column in COLUMNS if column not in table.schema_arrow.names]:
        columns = ", ".join(map(shown, table.schema_arrow.names[:12]))
        problem = f"has no column {' and '.join(missing)}; its columns are {columns}"
        raise InputError.at(file, problem, "the output of clip-retrieval inference with images and texts")

    for row, (_, _, values) in enumerate(parquet_rows(table, file, COLUMNS)):
        name = values["image_path"]
        caption = values["caption"]
        good = isinstance(name, str) and name and isinstance(caption, str) and caption.strip()
        if not good and len(faults) < MOST_FAULTS_SHOWN:
            problem = f"has image_path {shown(str(name))} and caption {shown(str(caption))}"
            fix = "leave out samples without an image_path or a caption"
            faults.append(Fault(f"{file} row {row}", problem, "a text in both", fix))
        names.append(str(name))
        captions.append(" ".join(str(caption).split("\n")).strip())

    return images, texts


def join_repeated(
    rows: np.ndarray, owners: np.ndarray, names: list[str] | None, where: str, faults: list[Fault]
) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """Join image rows that are stored once per caption: rows of one name or, without names, equal rows that follow each
    other. Return one row per image, the image of every caption, and the images' names.

    Adds to `faults` a note; an error if rows of one name differ; a warning if rows that are not joined look as if they
    were stored once per caption. `owners`: the row of every caption; nothing is joined unless row i belongs to caption i.
    """
    count = len(rows)
    if not np.array_equal(owners, np.arange(count)):
        return rows, owners, names

    owners, names = (_equal_neighbours(rows), None) if names is None else number_names(names)
    least = REPEATED * count
    if owners.max() < count - 1:
        images = rows[np.unique(owners, return_index=True)[1]]
        other = np.flatnonzero(np.einsum("nd,nd->n", rows, images[owners]) < SAME)
        if len(other):
            first = f"{other[0]}, {shown(names[owners[other[0]]])}" if names else ""
            problem = f"{len(other):,} rows differ from an earlier one with the same name; the first: {first}"
            fix = "give different pictures different names"
            faults.append(Fault(where, problem, "one picture per name", fix))
        text = f"{count:,} rows are stored once per caption; those of one image are read once: {len(images):,} images"
        faults.append(Fault(where, text, severity="note"))
        rows = images
        least = 1

    half = max(1, len(rows) // 2)
    near = _nearly_equal(rows, 1)
    chance = _nearly_equal(rows, half)
    if near >= least and near > MORE_THAN_CHANCE * chance:
        similar = (
            f"{near:,} of {len(rows):,} rows are nearly the same as the row before (cosine {SAME} or more)"
        )
        problem = f"{similar}: they seem to be stored once per caption"
        faults.append(Fault(where, problem, "one row per image", ONCE_PER_IMAGE, "warning"))

    return rows, owners, names


def _nearly_equal(rows: np.ndarray, apart: int) -> int:
    """Count the pairs of rows, `apart` places from each other, that are nearly the same."""
    cosines = np.einsum("nd,nd->n", rows[apart:], rows[:-apart])
    return int((cosines >= SAME).sum())


def _equal_neighbours(rows: np.ndarray) -> np.ndarray:
    """Return the number of every row's image if equal rows follow each other, too often for chance; else 0, 1, 2, …"""
    count = len(rows)
    keys = first_equal_rows(rows)
    owners = np.concatenate([[0], np.cumsum(keys[1:] != keys[:-1])])
    joined = count - 1 - owners[-1]
    repeats = count - len(np.unique(keys))
    plausible = 1 < np.bincount(owners).max() <= MOST_REPEATS and owners[-1] > 0
    return owners if plausible and joined >= max(REPEATED * count, IN_A_ROW * repeats) else np.arange(count)
