"""Karpathy's JSON with a value replaced, deleted or repeated anywhere, and texts that are no JSON."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.attack.bad_files import Flags, Make, flip
from tests.support.precomp_folders import features

ODD_VALUES: list[Any] = [
    None,
    -1,
    0,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "a" * 100_000,
    [],
    {},
    [[]],
    True,
    "../x",
    "/etc/passwd",
    "a\nb",
    "\0",
    "train",
    1,
    "🐶",
]


def karpathy() -> dict[str, Any]:
    """A small data set: four images of train and four of val, two captions each."""
    images: list[dict[str, Any]] = [
        {
            "imgid": row,
            "filename": f"{row}.jpg",
            "split": "train" if row < 4 else "val",
            "sentids": [2 * row, 2 * row + 1],
            "sentences": [
                {
                    "raw": f"A dog number {row} runs {k} .",
                    "tokens": ["a", "dog"],
                    "sentid": 2 * row + k,
                    "imgid": row,
                }
                for k in range(2)
            ],
        }
        for row in range(8)
    ]
    return {"images": images, "dataset": "flickr8k"}


def karpathy_cases() -> dict[str, Make]:
    """Mutations of the JSON at a random place, and texts that are no JSON."""

    def of_text(change: Callable[[str, random.Random], str | bytes]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            text = change(json.dumps(karpathy()), rng)
            return _write_karpathy(folder, text)

        return write

    def of_value(change: Callable[[Any, Any, random.Random], None]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            document = copy.deepcopy(karpathy())
            holder: Any = document
            key: Any = rng.choice(list(holder))
            for _ in range(rng.randrange(6)):
                if not isinstance(holder[key], dict | list) or not holder[key]:
                    break
                holder = holder[key]
                key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
            change(holder, key, rng)
            return _write_karpathy(folder, json.dumps(document))

        return write

    def replace(holder: Any, key: Any, rng: random.Random) -> None:
        holder[key] = rng.choice(ODD_VALUES)

    def delete(holder: Any, key: Any, rng: random.Random) -> None:
        del holder[key]

    def repeat(holder: Any, key: Any, rng: random.Random) -> None:
        if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[f"{key} "] = holder[key]

    texts: dict[str, Callable[[str, random.Random], str | bytes]] = {
        "cut": lambda text, rng: text[: rng.randrange(len(text))],
        "bit": lambda text, rng: flip(text.encode(), rng),
        "empty": lambda text, rng: "",
        "null": lambda text, rng: "null",
        "list": lambda text, rng: "[]",
        "nested": lambda text, rng: "[" * 100_000,
        "nested images": lambda text, rng: '{"images": ' + "[" * 5000 + "]" * 5000 + "}",
        "same key twice": lambda text, rng: text.replace('"imgid": 0', '"imgid": 0, "imgid": 1', 1),
        "same imgid twice": lambda text, rng: text.replace(
            '"imgid": 1, "filename"', '"imgid": 0, "filename"', 1
        ),
        "same sentid twice": lambda text, rng: text.replace('"sentid": 3', '"sentid": 2', 1),
        "unknown split": lambda text, rng: text.replace('"split": "val"', '"split": "other"'),
        "no train": lambda text, rng: text.replace('"split": "train"', '"split": "test"'),
        "no dev": lambda text, rng: text.replace('"split": "val"', '"split": "restval"'),
        "a large number": lambda text, rng: text.replace('"imgid": 3', '"imgid": ' + "9" * 5000, 1),
        "UTF-16": lambda text, rng: text.encode("utf-16"),
        "BOM": lambda text, rng: b"\xef\xbb\xbf" + text.encode(),
    }
    return {name: of_text(change) for name, change in texts.items()} | {
        f"{name} {number}": of_value(change)
        for name, change in (("replaced", replace), ("deleted", delete), ("repeated", repeat))
        for number in range(12 if name == "replaced" else 6)
    }


def _write_karpathy(folder: Path, text: str | bytes) -> Flags:
    for path in folder.iterdir():
        path.unlink()
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    (folder / "dataset_flickr8k.json").write_bytes(data)
    np.save(folder / "ims.npy", features(8))
    return []
