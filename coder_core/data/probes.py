"""Read probes: a picture, its caption, and a caption changed so that it is wrong. The layout is SugarCrepe's.

    {"0": {"filename": "000000085329.jpg", "caption": "two dogs and a ball", "negative_caption": "two cats and a ball"}}

Hsieh et al. 2023 publish one such file for each kind of change (add_att.json, replace_obj.json, …).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.lines import LONGEST_CAPTION_CHARACTERS, plain_file

KEYS = ("filename", "caption", "negative_caption")
_COCO = "COCO_"  # COCO_val2014_000000085329.jpg is 000000085329.jpg of the 2017 release


class Probe(NamedTuple):
    """Does the picture fit the caption better than the wrong one?"""

    kind: str
    """Kind of change: the file's name without its ending."""
    picture: str
    """A file name."""
    caption: str
    negative: str


def read_probes(files: Sequence[Path]) -> list[Probe]:
    """Read all probes of one or several files.

    Raises:
        InputError: a file is missing or not JSON, or an entry lacks a key or holds something else than a text.
    """
    probes: list[Probe] = []
    for path in files:
        faults: list[Fault] = []
        content = plain_file(path, faults).read_bytes()
        try:
            entries = json.loads(content.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise InputError(Fault(str(path), f"is not JSON: {error}", "a file like SugarCrepe's")) from None
        if isinstance(entries, list):
            entries = {str(number): entry for number, entry in enumerate(entries)}
        if not isinstance(entries, dict) or not entries:
            raise InputError(Fault(str(path), "holds no entries", f"objects with {', '.join(KEYS)}"))
        wrong = []
        for key, entry in entries.items():
            values = [entry.get(name) if isinstance(entry, dict) else None for name in KEYS]
            texts = [value for value in values if isinstance(value, str) and value.strip()]
            if len(texts) < len(KEYS) or max(map(len, texts)) > LONGEST_CAPTION_CHARACTERS:
                wrong.append(
                    Fault(f"{path} entry {key!r:.40}", "is no probe", f"texts for {', '.join(KEYS)}")
                )
            else:
                probes.append(Probe(path.stem, *texts))
        if wrong:
            raise InputError(wrong[:MOST_FAULTS_SHOWN])
    return probes


def picture_key(name: str) -> str:
    """By what a picture is recognised: its file name without folders, ending and the prefixes of COCO's first release.

    >>> picture_key("val2014/COCO_val2014_000000085329.jpg")
    '000000085329'
    """
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return stem.rsplit("_", 1)[-1] if stem.startswith(_COCO) else stem
