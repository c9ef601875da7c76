"""id_mapping.json beside the data: the numbers of _ids.txt → picture files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from coder_core.console.faults import Fault, InputError
from coder_core.data.lines import plain_file

NAME = "id_mapping.json"


def name_pictures(root: Path, folder: Path, ids: list[str], faults: list[Fault]) -> list[str]:
    """The picture names of the ids, where an id_mapping.json holds all of them; otherwise the ids themselves.

    Args:
        root: the folder the user named; the mapping lies in `folder`, in `root`, or beside a `root` called precomp.
        folder: the folder of the ids.
        ids: n ids, one an image.
        faults: collects a note, or a warning when the mapping cannot be used.
    """
    places = [folder, root, root.resolve().parent] if root.resolve().name == "precomp" else [folder, root]
    path = next((place / NAME for place in places if os.path.lexists(place / NAME)), None)
    if path is None:
        return ids
    try:
        mapping = json.loads(plain_file(path, faults).read_text("utf-8-sig"))
    except (ValueError, RecursionError, InputError) as error:
        message = str(error.faults[0].found) if isinstance(error, InputError) else str(error)
        faults.append(
            Fault(str(path), f"cannot be used: {message}", "a JSON object, id: file name", severity="warning")
        )
        return ids
    names = [mapping.get(item) for item in ids] if isinstance(mapping, dict) else []
    known = [name for name in names if isinstance(name, str)]
    if len(known) < len(ids):
        text = f"names {len(known):,} of {len(ids):,} images, so the ids are used as names"
        faults.append(Fault(str(path), text, "a JSON object, id: file name", severity="warning"))
        return ids
    faults.append(Fault(str(path), f"names the pictures of {len(ids):,} ids", severity="note"))
    return known
