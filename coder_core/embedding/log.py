"""Log a run from any training loop: embeddings in memory become a split that the app opens, after every epoch."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coder_core.config.schema import name_faults
from coder_core.config.split_name import canonical_split
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.column_values import RawColumns
from coder_core.data.embeddings import Embeddings, join_repeated, same_rows
from coder_core.data.groups import group_numbers
from coder_core.data.lines import FROM_ZERO, check_texts, count_cases, shorten
from coder_core.data.pictures import check_pictures
from coder_core.data.search_log import SearchLog, log_of_judgements
from coder_core.data.unit_rows import unit_array
from coder_core.evaluation.rank_metrics import Metrics
from coder_core.evaluation.sampled import RankOptions, parse_rank
from coder_core.runs.analysis.graded import GRADED_METRICS, add_judged_metrics
from coder_core.runs.analysis.import_embeddings import import_run, metric_warnings
from coder_core.runs.analysis.rows import embedded_row, widened_rows
from coder_core.runs.record import HISTORY, HistoryWriter, read_history

ROOT = Path("checkpoints")


def log_split(
    run: str | Path,
    split: str,
    images: Any,
    texts: Any,
    *,
    captions: Sequence[str],
    image_of_text: Any = None,
    pictures: Sequence[str | Path] | None = None,
    groups: Sequence[Any] | None = None,
    judgements: Any = None,
    columns: pd.DataFrame | Mapping[str, Sequence[Any]] | None = None,
    epoch: int | None = None,
    config: Mapping[str, Any] | None = None,
    rank: str | int = "auto",
) -> Metrics:
    """Write the embeddings of a split as a run that every page of the app opens; a later call replaces the split. In
    distributed training call it on rank 0 only, with the rows of all ranks. Warnings are Python warnings.

    Args:
        run: a name (a folder below checkpoints/), or the path of a folder.
        split: its name, such as "dev".
        images: (n, D) array or tensor, one row per image, of any float type and any norm. Rows stored once per caption
            (n = m) are joined if equal ones follow each other or have the same name in `pictures`.
        texts: (m, D), one row per caption.
        captions: m texts.
        image_of_text: (m,) the row of each caption's image; None: every m / n captions belong to one image.
        pictures: n picture files, or n names of images without files; None shows no pictures.
        groups: n ids, equal for images that show the same thing, such as a product: `evaluate` then also counts the
            captions of all images of a group as right, and prints these metrics as "by group".
        judgements: makes the split a search log: (P, 3) whole numbers (row of texts, row of images, grade), right from
            grade 1. `captions` are then the queries, which belong to no image; those without a right image are left out,
            with a warning. Images then need no query.
        columns: further facts, such as brand and price, with a row for every row of images or for every caption; pages
            filter, slice and sort by them. Warnings name columns that cannot be kept.
        epoch: number of the epoch, from 1: its metrics become a point of the training curves, which show dev or, until
            dev is logged, the first split. A number not above the last one replaces that epoch and all later ones.
        config: settings of your training, shown with the run.
        rank: queries of each direction to rank against all candidates: "auto" (all of a split of up to 10,000,000,000
            pairs of images and captions, a random 10,000 of a larger one), "all", or a number.

    Returns:
        R@1, R@5, R@10, median rank of both directions, R@sum, …; ties count against the model.

    Raises:
        InputError: shapes do not match, rows are zero or not finite, captions are empty, an image has no caption, a name
            cannot be used, or the folder has another kind of run.
    """
    path = Path(run) if len(Path(run).parts) > 1 else ROOT / run
    split = canonical_split(split)
    stop_on_errors(name_faults(Path(run).name, "run"))
    if epoch is not None and not (isinstance(epoch, Real) and epoch >= 1 and epoch % 1 == 0):
        raise InputError.at(
            "epoch", f"is {epoch!r}", "a whole number from 1", "count from 1: epoch=epoch + 1"
        )
    options = RankOptions(parse_rank(str(rank), "rank"))

    faults: list[Fault] = []
    image_rows = _array(images)
    text_rows = _array(texts)
    log = None
    if judgements is not None:
        log = _search_log(judgements, image_rows, text_rows, captions, image_of_text)
        text_rows = text_rows[log.rows]
        captions = log.texts
        image_of_text = log.image_of_text
        if log.others:
            fact = f"{len(log.others):,} have no right image and are left out"
            faults.append(Fault("captions", fact, severity="warning"))

    owners = _owners(image_rows, text_rows, captions, image_of_text, all_captioned=log is None)
    v = unit_array(image_rows, "images", "images", faults)
    w = unit_array(text_rows, "texts", "texts", faults)
    names, folder = _pictures(pictures, len(v), faults)
    group_of_row = None if groups is None else _group_numbers(groups, len(v))
    raw_columns = _columns(columns, owners, len(v))

    if log is None:
        v, owners, names = join_repeated(v, owners, names, "images", faults)
    typed, notes = raw_columns.typed(owners, len(v), "columns", "warning")
    faults += notes
    if group_of_row is not None and len(v) < len(group_of_row):  # row i belonged to caption i
        group_of_row = group_of_row[np.unique(owners, return_index=True)[1]]

    texts_of_rows = shorten([" ".join(caption.split()) for caption in captions], "captions", faults)
    faults += same_rows(w, texts_of_rows, "texts")

    settings = {str(key): str(value) for key, value in (config or {}).items()}
    stop_on_errors(check_texts("config", [*settings, *settings.values()]))
    source = {"logged by": "coder_core.log_split"} | settings

    embeddings = Embeddings(v, w, texts_of_rows, owners, names, folder, source, stop_on_errors(faults))
    embeddings = replace(embeddings, image_groups=group_of_row, columns=typed, search_log=log)
    _, metrics = import_run(embeddings, path.parent, path.name, split, overwrite=True, options=options)
    if epoch is not None:
        _log_epoch(path / HISTORY, split, int(epoch), metrics)

    _warn(embeddings, metrics, path, split)
    return metrics


def _warn(embeddings: Embeddings, metrics: Metrics, run: Path, split: str) -> None:
    """Warn about what was noticed in the embeddings and in the metrics of the written run."""
    row = embedded_row(run, split)
    add_judged_metrics([row], GRADED_METRICS, split)
    _, of_texts = widened_rows([row], None)
    doubts = [*of_texts, *metric_warnings(embeddings, metrics)]
    for fault in embeddings.faults + doubts:
        if fault.severity == "warning":
            warnings.warn(str(fault), stacklevel=3)  # where `log_split` is called


def _group_numbers(groups: Sequence[Any], images: int) -> np.ndarray:
    """Return (n,) int64, as `group_numbers`. InputError: not one id per image."""
    ids = ["" if group is None or group != group else str(group).strip() for group in groups]  # NaN: no group
    if len(ids) != images:
        raise InputError.at("groups", f"number {len(ids):,}", f"{images:,}, one for every row of images")
    return group_numbers(ids)


def _columns(
    columns: pd.DataFrame | Mapping[str, Sequence[Any]] | None, image_of_text: np.ndarray, images: int
) -> RawColumns:
    """Return columns with a row for every caption. InputError: they have neither one per caption nor one per image."""
    table = pd.DataFrame({} if columns is None else columns)
    raw = RawColumns()
    if columns is None:
        return raw
    captions = len(image_of_text)
    if len(table) not in (captions, images):
        expected = f"{images:,}, one for every row of images, or {captions:,}, one for every caption"
        raise InputError.at("columns", f"have {len(table):,} rows", expected)
    if len(table) < captions:
        table = table.iloc[image_of_text]
    for title in table.columns:
        values = table[title].astype(object)
        raw.add_column(str(title), values.where(values.notna(), None).tolist())
    return raw


def _log_epoch(file: Path, split: str, epoch: int, metrics: Metrics) -> None:
    """Add an epoch, in place of this and later ones, to the history of dev, or of the first split without dev."""
    logged = next((event["split"] for event in reversed(read_history(file)) if "split" in event), split)
    if split not in ("dev", logged):
        return
    with HistoryWriter(file) as history:
        history.write("resume", step=epoch - 1 if split == logged else 0, split=split)
        history.write("epoch", step=epoch, epoch=epoch, metrics=dict(metrics))


def _array(rows: Any) -> np.ndarray:
    """Convert an array or tensor to NumPy; bfloat16, which NumPy lacks, becomes float32."""
    if hasattr(rows, "detach"):
        rows = rows.detach().cpu()
        rows = (rows.float() if str(rows.dtype) == "torch.bfloat16" else rows).numpy()
    return np.asarray(rows)


def _search_log(
    judgements: Any, images: np.ndarray, texts: np.ndarray, captions: Sequence[str], image_of_text: Any
) -> SearchLog:
    """Return the search log of (P, 3) judgments. InputError: they have another form, or `image_of_text` is given too."""
    if image_of_text is not None:
        fix = "leave image_of_text out: the queries of a search log belong to no image"
        raise InputError.at("judgements and image_of_text", "are both given", "one of them", fix)
    if len(captions) != len(texts):
        raise InputError.at(
            "captions", f"number {len(captions):,}", f"{len(texts):,}, one for every row of texts"
        )
    rows = _array(judgements)
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.issubdtype(rows.dtype, np.integer):
        raise InputError.at("judgements", f"are {rows.dtype} {rows.shape}", "(judgments, 3) whole numbers")
    return log_of_judgements(rows, captions, len(images))


def _owners(
    images: np.ndarray,
    texts: np.ndarray,
    captions: Sequence[str],
    image_of_text: Any,
    *,
    all_captioned: bool = True,
) -> np.ndarray:
    """Return (m,) int64, the image of every caption; InputError if types, shapes or rows do not match, or, with
    `all_captioned`, if an image has no caption."""
    for name, array in (("images", images), ("texts", texts)):
        if array.ndim != 2 or not len(array) or not np.issubdtype(array.dtype, np.floating):
            found = f"are {array.dtype} {array.shape}"
            raise InputError.at(name, found, "(rows, dimension) floats", "embed one row per image or caption")

    n, width = images.shape
    m, width_of_texts = texts.shape
    if width != width_of_texts:
        raise InputError.at("texts", f"have {width_of_texts} numbers per row", f"{width}, as in images")
    if isinstance(captions, str) or len(captions) != m:
        raise InputError.at("captions", f"number {len(captions):,}", f"{m:,}, one for every row of texts")

    empty = [row for row, text in enumerate(captions) if not (isinstance(text, str) and text.strip())]
    fix = "leave out these captions and their rows of texts"
    stop_on_errors(count_cases("captions", "are empty or not text", empty, "texts", fix, "error", FROM_ZERO))
    stop_on_errors(check_texts("captions", captions))
    if image_of_text is None:
        if m % n:
            fix = "give image_of_text, the row of each caption's image"
            raise InputError.at("texts", f"{m:,} rows for {n:,} images", "the same number per image", fix)
        return np.arange(m) // (m // n)

    owners = np.asarray(image_of_text.cpu() if hasattr(image_of_text, "cpu") else image_of_text)
    if owners.shape != (m,) or not np.issubdtype(owners.dtype, np.integer):
        found = f"is {owners.dtype} {owners.shape}"
        raise InputError.at("image_of_text", found, f"{m:,} integers, one for every caption")
    if len(outside := np.flatnonzero((owners < 0) | (owners >= n))):
        found = f"is {owners[outside[0]]} for caption {outside[0]}"
        raise InputError.at("image_of_text", found, f"a row of images, 0 to {n - 1}")

    unused = np.setdiff1d(np.arange(n), owners).tolist()
    found = "images have no caption"
    fix = "leave out these rows of images, and number the others anew"
    if all_captioned:
        stop_on_errors(
            count_cases("image_of_text", found, unused, "a caption or more", fix, "error", FROM_ZERO)
        )

    return owners.astype(np.int64)


def _pictures(
    pictures: Sequence[str | Path] | None, images: int, faults: list[Fault]
) -> tuple[list[str] | None, Path | None]:
    """Return the names of the images, and the folder in which they are files; None without them."""
    if pictures is None:
        return None, None

    names = [str(picture) for picture in pictures]
    if len(names) != images:
        raise InputError.at("pictures", f"number {len(names):,}", f"{images:,}, one for every row of images")

    stop_on_errors(check_texts("pictures", names))
    missing = [name for name in names if not os.path.isfile(name)]
    if 0 < len(missing) < images:
        problem = f"lack {len(missing):,} of {images:,} files; the first: {missing[0]}"
        raise InputError.at("pictures", problem, "all files, or names without any file")
    if missing:
        return names, None

    folder = Path(os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names]))
    names = [os.path.relpath(name, folder) for name in names]
    faults += check_pictures(folder, names, asked=True)
    return names, folder
