"""Groups of images that show the same thing, such as a product: ids from a file or from a column of the data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import numbered_lines, shown
from coder_core.data.qrels import AMBIGUOUS, SampleIds

if TYPE_CHECKING:  # functions import NumPy, so that --help is fast
    import numpy as np

    from coder_core.data.columns import Column, SampleColumns

EXPECTED = "the name of an image, a tab, and the id of its group"
TITLES_NAMED = 12


@dataclass(frozen=True)
class GroupFile:
    """Names of images and the ids of their groups, as a file lists them."""

    path: Path
    lines: dict[str, tuple[str, str]]  # name → (id of its group, place of its line)


def open_groups(path: Path) -> GroupFile:
    """Read a file of groups. InputError: a line has another format, or names a second group of an image."""
    if not path.is_file():
        raise InputError.at(f"--groups {path}", "is not a file", f"lines of {EXPECTED}", "check the path")
    faults: list[Fault] = []
    lines: dict[str, tuple[str, str]] = {}
    for where, line in numbered_lines(path, "group", faults):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            faults.append(Fault(where, f"is {shown(line)}", EXPECTED))
            continue
        name, group = cells
        earlier, _ = lines.setdefault(name, (group, where))
        if earlier != group:
            faults.append(_second_group(where, name, group, earlier))
    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    return GroupFile(path, lines)


def _second_group(where: str, name: str, group: str, earlier: str) -> Fault:
    fact = f"puts {shown(name)} into group {shown(group)}, an earlier line into {shown(earlier)}"
    return Fault(where, fact, "one group for every image")


def group_numbers(ids: Sequence[str]) -> np.ndarray:
    """Return (n,) int64 groups of n images by their ids: a hash of the id from 0 on, the same in every split and run; images
    without an id ("") are groups of their own, −1, −2, …

    >>> shoe, alone, other = group_numbers(["shoe", "", "shoe"])
    >>> bool(shoe == other), int(alone)
    (True, -2)
    """
    import numpy as np

    numbers = {group: _hash(group) for group in set(ids) if group}
    return np.array([numbers.get(group, -1 - row) for row, group in enumerate(ids)], np.int64)


def _hash(group: str) -> int:
    digest = hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def ids_of_file(file: GroupFile, image_names: Sequence[str]) -> tuple[list[str], Fault] | None:
    """Find the ids of the groups of n images, "" for an image without a line; lines about other images are left out.
    Also return a note on the contents; None if no line is about one of the images. InputError: a line names several
    images, or two lines name one image and different groups."""
    import numpy as np

    faults: list[Fault] = []
    different = list(dict.fromkeys(image_names))  # an image may be in several splits
    rows = SampleIds(different, np.empty(0, np.int64))
    group_of: dict[str, str] = {}
    elsewhere = 0
    for name, (group, where) in file.lines.items():
        row = rows.image(name)
        if row is None:
            elsewhere += 1
        elif row == AMBIGUOUS:
            faults.append(Fault(where, f"{shown(name)} is the name of several images", "names with folders"))
        elif (earlier := group_of.setdefault(different[row], group)) != group:
            faults.append(_second_group(where, name, group, earlier))
    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    if not group_of:
        return None
    ids = [group_of.get(name, "") for name in image_names]
    note = _note(str(file.path), ids, f"; {elsewhere:,} lines are about other images" * bool(elsewhere))
    return ids, note


def _note(where: str, ids: Sequence[str], more: str = "") -> Fault:
    known = [group for group in ids if group]
    fact = f"{len(known):,} of {len(ids):,} images are in {len(set(known)):,} groups{more}"
    return Fault(where, fact, severity="note")


def ids_of_column(columns: SampleColumns, title: str, where: str) -> tuple[list[str], Fault]:
    """Return the ids of the groups of n images by a column, "" for an image without a value, and a note. InputError: the
    column does not exist, has several values at one image, or has lists."""
    column = columns.images.get(title)
    flag = f"--group-column {title}"
    if title in columns.captions:
        fact = "has different values at the captions of one image"
        raise InputError.at(f"{where}, {flag}", fact, "one value for every image", "name another column")
    if column is None:
        titles = ", ".join(map(shown, [*columns.images, *columns.captions][:TITLES_NAMED]))
        expected = f"one of {titles}" if titles else "data with further columns, or --groups FILE"
        raise InputError.at(f"{where}, {flag}", "is not a further column of the data", expected)
    if column.kind == "tags":
        raise InputError.at(f"{where}, {flag}", "has lists of values", "one id for every image")
    ids = ids_of_values(column)
    return ids, _note(flag, ids)


def ids_of_values(column: Column) -> list[str]:
    """Return the values of a column as ids of groups, "" without a value; whole numbers have no decimal point."""
    return [_id(column.cell(row)) for row in range(len(column))]


def _id(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def read_groups(path: Path, image_names: Sequence[str]) -> tuple[np.ndarray, Fault]:
    """Read the groups of the images of a split from a file: (n,) int64, as `group_numbers`, and a note. InputError: as for
    `open_groups` and `ids_of_file`, or no line is about an image of this split."""
    found = ids_of_file(open_groups(path), image_names)
    if found is None:
        raise unrelated(path, image_names, "this split")
    ids, note = found
    return group_numbers(ids), note


def groups_of_splits(
    file: GroupFile, names: Mapping[str, Sequence[str]]
) -> tuple[dict[str, np.ndarray], dict[str, Fault]]:
    """Find the groups of the images of several splits, given by name → names of images. Return split → (n,) int64 and
    split → a note, for the splits with groups. InputError: as for `ids_of_file`, or none of several splits has groups: a
    file may be about other splits than one."""
    groups: dict[str, np.ndarray] = {}
    notes: dict[str, Fault] = {}
    for split, image_names in names.items():
        found = ids_of_file(file, image_names)
        if found is not None:
            ids, notes[split] = found
            groups[split] = group_numbers(ids)
    if not groups and len(names) > 1:
        raise unrelated(file.path, [name for some in names.values() for name in some])
    return groups, notes


def unrelated(path: Path, image_names: Sequence[str], what: str = "the data") -> InputError:
    """Build the error for a file of groups that names none of the images."""
    expected = f"names such as {image_names[0]}" if image_names else "data with names of images"
    return InputError.at(f"--groups {path}", f"names no image of {what}", expected)


def shared_groups(where: str, groups: np.ndarray, others: np.ndarray) -> list[Fault]:
    """Return a warning about groups with images in both of two splits: evaluation must not use training samples."""
    import numpy as np

    of_both = np.intersect1d(groups[groups >= 0], others[others >= 0])
    if not len(of_both):
        return []
    images = int(np.isin(groups, of_both).sum())
    fact = f"{len(of_both):,} groups are in both; the first of the two has {images:,} images of them"
    fix = "move every group into one split"
    return [Fault(where, fact, "different groups", fix, "warning")]
