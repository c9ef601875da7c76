"""Groups of images: a file with the group of every image, such as the product that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import numbered_lines, shown
from coder_core.data.qrels import AMBIGUOUS, SampleIds

if TYPE_CHECKING:  # the function imports NumPy, so that --help is fast
    import numpy as np

EXPECTED = "the name of an image, a tab, and the id of its group"


def read_groups(path: Path, image_names: Sequence[str]) -> tuple[np.ndarray, Fault]:
    """Read the groups of the images of a split; lines about other images are left out. An image without a line is a
    group of its own. Return (n,) int64, equal for images of one group, and a note on the contents. InputError: a line
    has another format, a name that several images have, or a second group of an image; no line is about this split."""
    import numpy as np

    faults: list[Fault] = []
    ids = SampleIds(image_names, np.empty(0, np.int64))
    group_of: dict[int, str] = {}
    elsewhere = 0
    for where, line in numbered_lines(path, "group", faults):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            faults.append(Fault(where, f"is {shown(line)}", EXPECTED))
            continue
        image = ids.image(cells[0])
        if image is None:
            elsewhere += 1
        elif image == AMBIGUOUS:
            faults.append(
                Fault(where, f"{shown(cells[0])} is the name of several images", "names with folders")
            )
        elif group_of.setdefault(image, cells[1]) != cells[1]:
            fact = f"puts {shown(cells[0])} into group {shown(cells[1])}, an earlier line into {shown(group_of[image])}"
            faults.append(Fault(where, fact, "one group for every image"))
    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    if not group_of:
        raise InputError.at(path, "names no image of this split", f"names such as {image_names[0]}")
    numbers = {name: number for number, name in enumerate(dict.fromkeys(group_of.values()))}
    groups = np.arange(len(image_names)) + len(numbers)
    for image, name in group_of.items():
        groups[image] = numbers[name]
    fact = f"{len(group_of):,} of {len(image_names):,} images are in {len(numbers):,} groups"
    fact += f"; {elsewhere:,} lines are about other images" * bool(elsewhere)
    return groups, Fault(str(path), fact, severity="note")
