"""Warn about several right answers: columns that name groups, repeated captions, near-duplicates in two splits."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from coder_core.console.faults import Fault, collect
from coder_core.console.output import Progress
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.columns import Column
from coder_core.data.content.report import ContentReport, check_content, has_pictures
from coder_core.data.lines import shown
from coder_core.data.split import Split
from coder_core.evaluation.relevance import share_texts

MANY = 0.01  # share of the captions, or of the pictures, from which a repetition is reported
MOST_PICTURES = 20_000  # compared without being asked: a minute or two on two cores
LARGEST_MEAN = 50  # images per value, above which a column does not name things
CODES = frozenset(("id", "ids", "sku", "asin", "upc", "ean", "gtin", "isbn", "pid"))
THINGS = frozenset(
    ("product", "item", "article", "style", "model", "identity", "person", "listing", "object")
)
PROPERTIES = frozenset(
    ("type", "category", "class", "kind", "price", "color", "colour", "size", "count", "name")
)
WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


Sampled = Split | CaptionedSplit


def repeated_texts(splits: Sequence[Sampled]) -> list[Fault]:
    """Return a warning about captions whose text images of other groups have too, if they exceed 1% of a split."""
    facts = []
    grouped = any(split.image_groups is not None for split in splits)
    for split in splits:
        groups = split.image_groups
        owner = split.image_of_text if groups is None else groups[split.image_of_text]
        shared = int(share_texts(split.captions, owner).sum())
        if shared > MANY * len(split.captions):
            facts.append(f"{shared:,} of {len(split.captions):,} of {split.name}")
    if not facts:
        return []
    fact = f"{', '.join(facts)} have a text that another {'group' if grouped else 'image'} has too"
    fix = "choose how they count, in training and in evaluation: --equal-texts match, or --equal-texts label"
    if not grouped:
        fix += "; or name the images of one thing, with --group-column or --groups FILE"
    return [Fault("captions", fact, fix=fix, severity="warning")]


def group_columns(splits: Sequence[Sampled]) -> list[Fault]:
    """Return a warning for every column that seems to name things with several images, if one of its values is at images
    of train and of another split, else a note. Nothing if the groups are known."""
    if any(split.image_groups is not None for split in splits):
        return []
    titles = dict.fromkeys(title for split in splits for title in split.columns.images)
    return [fault for title in titles if _names_things(title) for fault in _column_faults(title, splits)]


def _names_things(title: str) -> bool:
    """True if a word of a title stands for the id of a thing, and none for a property of things.

    >>> [title for title in ("product_id", "productId", "SKU", "price", "brand", "articleType") if _names_things(title)]
    ['product_id', 'productId', 'SKU']
    """
    words = {word.lower() for word in WORD.findall(title)}
    return bool(words & (CODES | THINGS)) and not words & PROPERTIES


def _column_faults(title: str, splits: Sequence[Sampled]) -> list[Fault]:
    columns = {split.name: split.columns.images[title] for split in splits if title in split.columns.images}
    if any(column.kind in ("tags", "date") for column in columns.values()):
        return []
    values = {name: _values(column) for name, column in columns.items()}
    every = [value for of_split in values.values() for value in of_split]
    _, counts = np.unique(np.array(every, dtype=str), return_counts=True)
    repeated = int(counts[counts > 1].sum())
    if repeated <= MANY * len(every) or len(every) > LARGEST_MEAN * len(counts):
        return []

    flag = f"--group-column {title}"
    meaning = "pairs of one value are then never negatives of each other, and count as right by group"
    train = set(values.get("train", ()))
    faults = []
    for name, of_split in values.items():
        if name == "train" or not train:
            continue
        leaked = [value for value in of_split if value in train]
        if leaked:
            fact = f"column {shown(title)}: {len(set(leaked)):,} of its values are in both, at {len(leaked):,} of"
            fact += f" {len(of_split):,} images of {name}"
            fix = f"if equal values show one thing, move them into one split, and add {flag}: {meaning}"
            faults.append(Fault(f"{name} and train", fact, "different values", fix, "warning"))
    if faults:
        return faults
    fact = f"repeats: {len(counts):,} values at {len(every):,} images"
    fix = f"if equal values show one thing, add {flag}: {meaning}"
    return [Fault(f"column {shown(title)}", fact, fix=fix, severity="note")]


def _values(column: Column) -> list[str]:
    return [str(column.cell(row)) for row in np.flatnonzero(column.present).tolist()]


def content_of_few(
    splits: Sequence[CaptionedSplit], progress: Progress
) -> tuple[ContentReport | None, list[Fault]]:
    """Compare the pictures of a small data set, whose report is then in the cache; None for a large one or one without
    pictures. Also return a note on why nothing was compared."""
    count = sum(len(split.rows) for split in splits if has_pictures(split))
    if count == 0 or len(splits) < 2:
        return None, []
    if count > MOST_PICTURES:
        fact = f"{count:,} pictures were not compared with each other: --content finds near-duplicates across splits"
        return None, [Fault("pictures", fact, severity="note")]
    problems: list[Fault] = []
    report = collect(lambda: check_content(splits, progress=progress), problems)
    notes = [
        Fault("pictures", f"were not compared with each other: {fault}", severity="note")
        for fault in problems
    ]
    return report, notes


def near_duplicates(report: ContentReport) -> list[Fault]:
    """Return a warning about near-duplicate pictures in two splits."""
    leaks = [finding for finding in report.duplicate_pictures if len(finding.splits) > 1]
    if not leaks:
        return []
    first = ", ".join(f"{split} {row}" for split, row in leaks[0].samples[:3])
    fact = (
        f"{len(leaks):,} groups of near-duplicates have pictures in more than one split; the first: {first}"
    )
    fix = "move them into one split; --content counts them, and the app's Data page shows all"
    return [Fault("pictures", fact, "different pictures", fix, "warning")]
