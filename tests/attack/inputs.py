"""Bad data folders, captions, annotations, word vectors and flags: `check_data` and `train` refuse them alike.

    python -m tests.attack.inputs --cases 400 --seed 0

A case is silent when one of the two takes what the other refuses, or when training says an error in other words.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coder_core import check_data, train
from coder_core.config.schema import Config, from_document
from coder_core.console.faults import InputError
from tests.attack.campaign import (
    USUAL_EXITS,
    Campaign,
    Finding,
    Listener,
    arguments,
    forked,
    import_all,
    report,
    workplace,
)
from tests.support.precomp_folders import features, write_split

CASES = 400
MEMORY = 12 << 30  # bytes of address space
SMALL = [
    "--epochs=1", "--batch-size=4", "--dimension=4", "--word-size=3", "--word-threshold=1", "--threads=1",
    "--device=cpu", "--text-pooling=mean", "--image-pooling=mean", "--loss=dcl",
]  # fmt: skip
SHAPES = [
    (4,), (4, 5), (4, 3, 5, 1), (0, 3, 5), (4, 0, 5), (4, 3, 0), (3, 3, 5), (5, 3, 5), (8, 3, 5), (1, 3, 5), (4, 1, 1),
]  # fmt: skip
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
Flags = list[str]
Make = Callable[[Path, random.Random], Flags]


@dataclass(frozen=True)
class BadInput:
    """A family, what is bad about it, and the seed of what is random in it."""

    family: str
    label: str
    seed: int

    def __str__(self) -> str:
        return f"{self.family}: {self.label!r} ({self.seed})"


def features_cases() -> dict[str, Make]:
    """Arrays of every dtype, shape and value, and files that are none."""
    x = features()
    holding = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e38": 1e38, "3e38": 3e38, "denormal": 1e-42}
    arrays: dict[str, Callable[[], np.ndarray]] = {
        dtype: lambda dtype=dtype: (x * 10).astype(dtype)
        for dtype in DTYPES
    }  # fmt: skip
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
    }  # fmt: skip
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
        "huge shape": lambda content, rng: content.replace(b"(4, 3, 5), }  ", b"(999999999, 3, 5), }")[: len(content)],
        "shape of another size": lambda content, rng: content.replace(b"(4, 3, 5)", b"(4, 3, 6)"),
        "negative shape": lambda content, rng: content.replace(b"(4, 3, 5), ", b"(-4, 3, 5),"),
        "dtype of another size": lambda content, rng: content.replace(b"<f4", b"<f8"),
        "dtype object": lambda content, rng: content.replace(b"'<f4'", b"'|O' "),
        "version 9": lambda content, rng: content[:6] + b"\x09" + content[7:],
        "header bit": lambda content, rng: _flip(content, rng, 128),
        "header bits": lambda content, rng: _flip(_flip(content, rng, 128), rng, 128),
    }
    special: dict[str, Callable[[Path], object]] = {
        "missing": lambda path: None,
        "a folder": lambda path: path.mkdir(),
        "a dead link": lambda path: path.symlink_to("nowhere"),
        "a loop": lambda path: path.symlink_to(path.name),
        "a pipe": os.mkfifo,
        "a device": lambda path: path.symlink_to("/dev/zero"),
    }
    return (
        {name: of_array(make) for name, make in arrays.items()}
        | {name: of_file(change) for name, change in files.items()}
        | {name: _special(make, "_ims.npy") for name, make in special.items()}
        | {f"captions are {name}": _special(make, "_caps.txt") for name, make in special.items()}
    )


def _special(make: Callable[[Path], object], end: str) -> Make:
    def write(folder: Path, rng: random.Random) -> Flags:
        path = folder / f"{rng.choice(['train', 'dev'])}{end}"
        path.unlink()
        make(path)
        return []

    return write


def _with(x: np.ndarray, value: float) -> np.ndarray:
    x = x.copy()
    x[1, 1, 1] = value
    return x


def _npz(x: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, x)
    return file.getvalue()


def _flip(content: bytes, rng: random.Random, within: int = 0) -> bytes:
    if not content:
        return content
    place = rng.randrange(min(within, len(content)) if within else len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


ODD_LINES = {
    "empty": b"", "blanks": b"   ", "tab": b"\t", "carriage return": b"a\rb", "BOM inside": b"\xef\xbb\xbfa dog",
    "invalid UTF-8": b"a \xff dog", "latin-1": "ein schöner Hund".encode("latin-1"), "U+2028": "a\u2028dog".encode(),
    "U+0085": "a\x85dog".encode(), "vertical tab": b"a\x0bdog", "form feed": b"a\x0cdog", "NUL": b"a\0dog",
    "bidi": "a \u202edog\u202c".encode(), "half a pair": b"a \xed\xa0\x80 dog", "overlong": b"a \xc0\xaf dog",
    "1 MB": b"dog " * 250_000, "one word of 1 MB": b"d" * 1_000_000, "10,000 words": b"dog " * 10_000,
    "combining marks": ("a" + "\u0301" * 10_000).encode(), "punctuation": b"... !!! ???", "emoji": "🐶🐕".encode(),
    "markup": b"<script>alert(1)</script> ![x](http://x)", "format": b"%{x} {0} %s %n", "special": b"<pad> <unknown>",
    "rich markup": b"[bold]x[/] [/nothing]", "digits": "١٢٣ 123".encode(), "unknown words": b"zxqj wvkk",
    "surrogate pair in CESU": b"\xed\xa0\xbd\xed\xb0\xb6", "U+FFFF": "\uffff".encode(),
    "past Unicode": b"\xf4\x90\x80\x80",
}  # fmt: skip


def caption_cases(end: str = "_caps.txt") -> dict[str, Make]:
    """Captions, or ids, with every oddity."""
    count = 8 if end == "_caps.txt" else 4

    def of_lines(change: Callable[[list[bytes], random.Random], bytes]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            path = folder / f"{rng.choice(['train', 'dev'])}{end}"
            lines = [f"a dog number {row} runs" if count == 8 else f"{row}.jpg" for row in range(count)]
            path.write_bytes(change([line.encode() for line in lines], rng))
            return []

        return write

    def placed(odd: bytes) -> Callable[[list[bytes], random.Random], bytes]:
        def change(lines: list[bytes], rng: random.Random) -> bytes:
            lines[rng.randrange(len(lines))] = odd
            return b"\n".join(lines) + b"\n"

        return change

    files: dict[str, Callable[[list[bytes], random.Random], bytes]] = {
        "no lines": lambda lines, rng: b"",
        "newlines only": lambda lines, rng: b"\n" * len(lines),
        "one less": lambda lines, rng: b"\n".join(lines[1:]) + b"\n",
        "one more": lambda lines, rng: b"\n".join([*lines, b"another"]) + b"\n",
        "no last newline": lambda lines, rng: b"\n".join(lines),
        "a further newline": lambda lines, rng: b"\n".join(lines) + b"\n\n",
        "CRLF": lambda lines, rng: b"\r\n".join(lines) + b"\r\n",
        "CR": lambda lines, rng: b"\r".join(lines),
        "BOM": lambda lines, rng: b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n",
        "UTF-16": lambda lines, rng: b"\n".join(lines).decode().encode("utf-16"),
        "UTF-32": lambda lines, rng: b"\n".join(lines).decode().encode("utf-32"),
        "all the same": lambda lines, rng: (lines[0] + b"\n") * len(lines),
        "twice as many": lambda lines, rng: b"\n".join(lines * 2) + b"\n",
        "noise": lambda lines, rng: rng.randbytes(300),
        "a flipped bit": lambda lines, rng: _flip(b"\n".join(lines) + b"\n", rng),
        "..": lambda lines, rng: b"\n".join([b"../../etc/passwd", *lines[1:]]) + b"\n",
        "absolute": lambda lines, rng: b"\n".join([b"/etc/passwd", *lines[1:]]) + b"\n",
        "backslash": lambda lines, rng: b"\n".join([rb"..\x.jpg", *lines[1:]]) + b"\n",
    }
    return {name: of_lines(placed(odd)) for name, odd in ODD_LINES.items()} | {n: of_lines(f) for n, f in files.items()}


ODD_VALUES: list[Any] = [
    None, -1, 0, 10**30, 0.5, float("nan"), float("inf"), "", "x", "\ud800", "a" * 100_000, [], {}, [[]], True,
    "../x", "/etc/passwd", "a\nb", "\0", "train", 1, "🐶",
]  # fmt: skip


def karpathy() -> dict[str, Any]:
    """A small data set: four images of train and four of val, two captions each."""
    images: list[dict[str, Any]] = [
        {
            "imgid": row, "filename": f"{row}.jpg", "split": "train" if row < 4 else "val",
            "sentids": [2 * row, 2 * row + 1],
            "sentences": [
                {"raw": f"A dog number {row} runs {k} .", "tokens": ["a", "dog"], "sentid": 2 * row + k, "imgid": row}
                for k in range(2)
            ],
        }
        for row in range(8)
    ]  # fmt: skip
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
        "bit": lambda text, rng: _flip(text.encode(), rng),
        "empty": lambda text, rng: "",
        "null": lambda text, rng: "null",
        "list": lambda text, rng: "[]",
        "nested": lambda text, rng: "[" * 100_000,
        "nested images": lambda text, rng: '{"images": ' + "[" * 5000 + "]" * 5000 + "}",
        "same key twice": lambda text, rng: text.replace('"imgid": 0', '"imgid": 0, "imgid": 1', 1),
        "same imgid twice": lambda text, rng: text.replace('"imgid": 1, "filename"', '"imgid": 0, "filename"', 1),
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


def glove_cases() -> dict[str, Make]:
    """Files of word vectors."""
    good = "a 0.1 0.2 0.3\ndog 0.4 0.5 0.6\nnumber 0.1 -0.2 0.3\nruns 0.7 0.8 0.9\n"
    texts: dict[str, Callable[[random.Random], bytes]] = {
        "good": lambda rng: good.encode(),
        "empty": lambda rng: b"",
        "header": lambda rng: b"4 3\n" + good.encode(),
        "header that lies": lambda rng: b"9999999999 3\n" + good.encode(),
        "wrong width": lambda rng: good.encode() + b"cat 1 2\n",
        "twice": lambda rng: good.encode() * 2,
        "spaces in a word": lambda rng: good.encode() + b"a hot dog 1 2 3\n",
        "BOM": lambda rng: b"\xef\xbb\xbf" + good.encode(),
        "CRLF": lambda rng: good.replace("\n", "\r\n").encode(),
        "invalid UTF-8": lambda rng: good.encode() + b"\xff\xfe 1 2 3\n",
        "binary": lambda rng: rng.randbytes(400),
        "a long line": lambda rng: good.encode() + b"x" * (2 << 20) + b"\n",
        "a word only": lambda rng: b"dog\n",
        "blank line": lambda rng: good.encode() + b"\n" + good.encode(),
        "few words": lambda rng: b"zebra 1 2 3\n",
        "no last newline": lambda rng: good.encode()[:-1],
        "cut": lambda rng: good.encode()[: rng.randrange(len(good))],
        "bit": lambda rng: _flip(good.encode(), rng),
        **{f"number {odd}": lambda rng, odd=odd: good.replace("0.5", odd).encode()
           for odd in ("nan", "inf", "-inf", "1e300", "1e39", "abc", "1_0", "٣", "0x1", "", "1,5", "True")},
    }  # fmt: skip

    def of(make: Callable[[random.Random], bytes]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            path = folder.parent / "vectors.txt"
            path.write_bytes(make(rng))
            return [f"--word-vectors={path}"]

        return write

    def special(make: Callable[[Path], object]) -> Make:
        def write(folder: Path, rng: random.Random) -> Flags:
            make(folder.parent / "vectors.txt")
            return [f"--word-vectors={folder.parent / 'vectors.txt'}"]

        return write

    return {name: of(make) for name, make in texts.items()} | {
        "missing": special(lambda path: None), "a folder": special(lambda path: path.mkdir()),
        "a pipe": special(os.mkfifo), "a dead link": special(lambda path: path.symlink_to("nowhere")),
    }  # fmt: skip


ODD_FLAGS = (
    "",
    "nan",
    "inf",
    "-1",
    "0",
    "abc",
    "1e400",
    "999999999",
    "-0.0",
    "True",
    "\udcff",
    "1_0",
    "٣",
    "[]",
    "1e-300",
)
LONG_WORK = {"epochs", "data", "pictures", "compile"}  # 999,999,999 epochs are right, and long


def flag_cases() -> dict[str, Make]:
    """Every value of the configuration, with odd texts."""
    names = [
        setting.name for section in fields(Config) if section.name != "name"
        for setting in fields(getattr(Config(), section.name)) if setting.name not in LONG_WORK
    ]  # fmt: skip

    def of(name: str, value: str) -> Make:
        return lambda folder, rng: [f"--{name.replace('_', '-')}={value}"]

    return {f"{name}={value}": of(name, value) for name in names for value in ODD_FLAGS}


FAMILIES: dict[str, Callable[[], dict[str, Make]]] = {
    "features": features_cases, "captions": caption_cases, "ids": lambda: caption_cases("_ids.txt"),
    "annotations": karpathy_cases, "word vectors": glove_cases, "configuration": flag_cases,
}  # fmt: skip
SHARES = {"features": 75, "captions": 75, "ids": 50, "annotations": 75, "word vectors": 50, "configuration": 75}


def attack(case: BadInput, folder: Path, listener: Listener) -> Iterator[Finding]:
    """Make the input, survey it, and train on it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    data = folder / "data"
    for split in ("train", "dev"):
        write_split(data, split)
    flags = FAMILIES[case.family]()[case.label](data, random.Random(case.seed))
    vectors = [flag for flag in flags if flag.startswith("--word-vectors=") and case.family == "word vectors"]
    checked, words = listener.hear(
        lambda: check_data.main([str(data), "--word-threshold=1", "--batch-size=4", "--word-size=3", *vectors])
    )
    trained, said = listener.hear(
        lambda: train.main([*SMALL, f"--data={data}", f"--root={folder}", "--name=run", *flags])
    )
    text = f"check_data {checked}: {words}\ntrain {trained}: {said}"
    errors = {line for line in said.splitlines() if line.startswith("error: ")}
    if {checked, trained} - {0, *USUAL_EXITS}:
        yield Finding(str(case), "check_data" if checked is None else "train", "traceback", text[-1500:])
    elif case.family == "configuration":
        yield Finding(str(case), "train", "named" if trained and said else "silent" if trained else "harmless", text)
        yield read_as_document(case, listener)
    elif bool(checked) != bool(trained):
        yield Finding(str(case), "both", "silent", text)
    elif errors - set(words.splitlines()) or (trained and not errors):
        yield Finding(str(case), "both", "silent", f"other words: {errors - set(words.splitlines())} {text}")
    else:
        mentioned = checked or any(line.startswith(("warning: ", "note: ")) for line in words.splitlines())
        yield Finding(str(case), "both", "named" if mentioned else "harmless", text)


def read_as_document(case: BadInput, listener: Listener) -> Finding:
    """The same value in a config.toml, as the number or the text that it is."""
    name, _, value = case.label.partition("=")
    section = next(s.name for s in fields(Config) if s.name != "name" and hasattr(getattr(Config(), s.name), name))
    typed: Any = value
    for kind in (int, float):
        try:
            typed = kind(value)
            break
        except ValueError:
            continue

    def read() -> int:
        try:
            from_document({section: {name: typed}})
        except InputError as error:
            print(error)
            return 1
        return 0

    status, text = listener.hear(read)
    named = status == 1 and name in text
    return Finding(str(case), "config.toml", "traceback" if status is None else "named" if named else "harmless", text)


def draw(cases: int, seed: int) -> list[BadInput]:
    """Bad inputs, each family with its share; what has been tried once is tried again with other numbers."""
    rng = random.Random(seed)
    chosen = []
    for family, make in FAMILIES.items():
        labels = list(make())
        count = round(cases * SHARES[family] / sum(SHARES.values()))
        drawn: list[str] = []
        while len(drawn) < count:
            drawn += rng.sample(labels, min(len(labels), count - len(drawn)))
        chosen += [BadInput(family, label, rng.randrange(2**31)) for label in drawn]
    return chosen


def warm_up(folder: Path) -> None:
    """Everything a case imports."""
    data = write_split(write_split(folder / "warm-up", "train"), "dev")
    check_data.main([str(data), "--word-threshold=1"])
    assert train.main([*SMALL, f"--data={data}", f"--root={folder / 'runs'}", "--name=run"]) == 0


def campaign(folder: Path, cases: int = CASES, seed: int = 0, jobs: int = 2) -> Campaign:
    """Draw the inputs and try them all."""
    (folder / "cases").mkdir()
    import_all(folder, warm_up)
    return Campaign("inputs", list(forked(draw(cases, seed), attack, folder / "cases", jobs)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = arguments("inputs", CASES)
    with workplace() as place:
        raise SystemExit(report([campaign(place, given.cases, given.seed, given.jobs)], given.show))
