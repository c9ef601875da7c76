"""Groups of images that show the same thing, such as a product: from a file, or from a column of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import numbered_lines, shown
from coder_core.data.qrels import AMBIGUOUS, SampleIds

if TYPE_CHECKING:  # functions import NumPy, so that --help is fast
    import numpy as np

EXPECTED = "the name of an image, a tab, and the id of its group"


@dataclass(frozen=True)
class GroupFile:
    """Names of images and the ids of their groups, as a file lists them."""

    path: Path
    lines: dict[str, tuple[str, str]]  # name → (id of its group, place of its line)
    numbers: dict[str, int]  # id → number, the same for all splits


def open_groups(path: Path) -> GroupFile:
    """Read a file of groups. InputError: a line has another format, or names a second group of an image."""
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
    return GroupFile(path, lines, number_groups(group for group, _ in lines.values()))


def _second_group(where: str, name: str, group: str, earlier: str) -> Fault:
    fact = f"puts {shown(name)} into group {shown(group)}, an earlier line into {shown(earlier)}"
    return Fault(where, fact, "one group for every image")


def number_groups(groups: Iterable[str]) -> dict[str, int]:
    """Number the ids of groups in order of appearance.

    >>> number_groups(["shoe", "hat", "shoe"])
    {'shoe': 0, 'hat': 1}
    """
    return {group: number for number, group in enumerate(dict.fromkeys(groups))}


def group_array(group_of: Mapping[int, str], numbers: Mapping[str, int], images: int) -> np.ndarray:
    """Return (n,) int64 groups of n images: the number of the id in `group_of`; images without an id are groups of their
    own, −1, −2, …

    >>> group_array({0: "shoe", 2: "shoe"}, {"shoe": 0}, images=3)
    array([ 0, -2,  0])
    """
    import numpy as np

    groups = -1 - np.arange(images)
    for image, group in group_of.items():
        groups[image] = numbers[group]
    return groups


def groups_of_images(file: GroupFile, image_names: Sequence[str]) -> tuple[np.ndarray, Fault] | None:
    """Find the groups of the images of a split; lines about other images are left out. Return (n,) int64, as
    `group_array`, and a note on the contents; None if no line is about an image of the split. InputError: a line names
    several images, or two lines name one image and different groups."""
    import numpy as np

    faults: list[Fault] = []
    ids = SampleIds(image_names, np.empty(0, np.int64))
    group_of: dict[int, str] = {}
    elsewhere = 0
    for name, (group, where) in file.lines.items():
        image = ids.image(name)
        if image is None:
            elsewhere += 1
        elif image == AMBIGUOUS:
            faults.append(Fault(where, f"{shown(name)} is the name of several images", "names with folders"))
        elif (earlier := group_of.setdefault(image, group)) != group:
            faults.append(_second_group(where, name, group, earlier))
    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    if not group_of:
        return None
    count = len(set(group_of.values()))
    fact = f"{len(group_of):,} of {len(image_names):,} images are in {count:,} groups"
    fact += f"; {elsewhere:,} lines are about other images" * bool(elsewhere)
    note = Fault(str(file.path), fact, severity="note")
    return group_array(group_of, file.numbers, len(image_names)), note


def read_groups(path: Path, image_names: Sequence[str]) -> tuple[np.ndarray, Fault]:
    """Read the groups of the images of a split from a file; errors and result as for `open_groups` and
    `groups_of_images`. InputError: no line is about an image of this split."""
    found = groups_of_images(open_groups(path), image_names)
    if found is None:
        raise InputError.at(path, "names no image of this split", f"names such as {image_names[0]}")
    return found


def groups_of_splits(
    file: GroupFile, names: Mapping[str, Sequence[str]]
) -> tuple[dict[str, np.ndarray], dict[str, Fault]]:
    """Find the groups of the images of several splits, given by name → names of images. Return split → (n,) int64, with
    the same numbers in all splits, and split → a note, for the splits with groups. InputError: as for
    `groups_of_images`, or no split has groups."""
    groups: dict[str, np.ndarray] = {}
    notes: dict[str, Fault] = {}
    for split, image_names in names.items():
        found = groups_of_images(file, image_names)
        if found is not None:
            groups[split], notes[split] = found
    if not groups:
        first = next((some[0] for some in names.values() if some), "")
        expected = f"names such as {first}" if first else "data with names of images"
        raise InputError.at(f"--groups {file.path}", "names no image of the data", expected)
    return groups, notes
