"""Features files: arrays of every dtype, shape and value, damaged ones, and files that are none."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.attack.bad_files import SPECIAL, Flags, Make, flip, special_file
from tests.support.precomp_folders import features

SHAPES = [
    (4,),
    (4, 5),
    (4, 3, 5, 1),
    (0, 3, 5),
    (4, 0, 5),
    (4, 3, 0),
    (3, 3, 5),
    (5, 3, 5),
    (8, 3, 5),
    (1, 3, 5),
    (4, 1, 1),
]
DTYPES = [
    "f2",
    "f8",
    ">f4",
    ">f8",
    "g",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u8",
    ">i4",
    "?",
    "c8",
    "c16",
    "U5",
    "S5",
    "O",
    "M8[s]",
]


def features_cases() -> dict[str, Make]:
    """Arrays of every dtype, shape and value, and files that are none."""
    x = features()
    holding = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e38": 1e38, "3e38": 3e38, "denormal": 1e-42}
    arrays: dict[str, Callable[[], np.ndarray]] = {
        dtype: lambda dtype=dtype: (x * 10).astype(dtype) for dtype in DTYPES
    }
    arrays |= {
        "Fortran order": lambda: np.asfortranarray(x),
        "structured": lambda: np.zeros(4, [("a", "f4"), ("b", "i4")]),
        "scalar": lambda: np.float32(1.0) + np.zeros((), "f4"),
        **{f"shape {shape}": lambda shape=shape: np.ones(shape, "f4") for shape in SHAPES},
        "a zero region": lambda: np.where(np.arange(3)[None, :, None] == 1, 0, x).astype("f4"),
        "a zero image": lambda: np.where(np.arange(4)[:, None, None] == 2, 0, x).astype("f4"),
        "zeros": lambda: np.zeros_like(x),
        "one value": lambda: np.ones_like(x),
        "all nan": lambda: np.full_like(x, np.nan),
        "1e300": lambda: x.astype("f8") * 1e300,
        "half infinity": lambda: np.full(x.shape, np.inf, "f2"),
    }
    for name, value in holding.items():
        arrays[f"one {name}"] = lambda value=value: _with(x, value)

    def of_array(make: Callable[[], np.ndarray]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            np.save(folder / f"{rng.choice(['train', 'dev'])}_ims.npy", make(), allow_pickle=True)
            return []

        return write

    def of_file(change: Callable[[bytes, random.Random], bytes]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            path = folder / f"{rng.choice(['train', 'dev'])}_ims.npy"
            path.write_bytes(change(path.read_bytes(), rng))
            return []

        return write

    files: dict[str, Callable[[bytes, random.Random], bytes]] = {
        "empty": lambda content, rng: b"",
        "text": lambda content, rng: b"1.0 2.0\n3.0 4.0\n",
        "npz": lambda content, rng: _npz(x),
        "pickle": lambda content, rng: b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "cut": lambda content, rng: content[: rng.randrange(len(content))],
        "cut header": lambda content, rng: content[: rng.randrange(128)],
        "more bytes": lambda content, rng: content + b"\0" * rng.randrange(1, 99),
        "huge shape": lambda content, rng: content.replace(b"(4, 3, 5), }  ", b"(999999999, 3, 5), }")[
            : len(content)
        ],
        "shape of another size": lambda content, rng: content.replace(b"(4, 3, 5)", b"(4, 3, 6)"),
        "negative shape": lambda content, rng: content.replace(b"(4, 3, 5), ", b"(-4, 3, 5),"),
        "dtype of another size": lambda content, rng: content.replace(b"<f4", b"<f8"),
        "dtype object": lambda content, rng: content.replace(b"'<f4'", b"'|O' "),
        "version 9": lambda content, rng: content[:6] + b"\x09" + content[7:],
        "header bit": lambda content, rng: flip(content, rng, 128),
        "header bits": lambda content, rng: flip(flip(content, rng, 128), rng, 128),
    }
    return (
        {name: of_array(make) for name, make in arrays.items()}
        | {name: of_file(change) for name, change in files.items()}
        | {name: special_file(make, "_ims.npy") for name, make in SPECIAL.items()}
        | {f"captions are {name}": special_file(make, "_caps.txt") for name, make in SPECIAL.items()}
    )


def _with(x: np.ndarray, value: float) -> np.ndarray:
    x = x.copy()
    x[1, 1, 1] = value
    return x


def _npz(x: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, x)
    return file.getvalue()
