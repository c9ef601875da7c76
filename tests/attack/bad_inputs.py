"""Bad inputs of every family: features, captions and ids, Karpathy's annotations, word vectors, settings.

A case takes a folder with good data and a random generator, spoils one input, and may return extra command-line flags.
"""

import copy
import io
import json
import os
from dataclasses import fields
from functools import partial

import numpy as np

from coder_core.config.schema import Config
from tests.support.precomp_folders import features

SPECIAL = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a dead link": lambda path: path.symlink_to("nowhere"),
    "a loop": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}
SHAPES = (
    *((4,), (4, 5), (4, 3, 5, 1), (0, 3, 5), (4, 0, 5), (4, 3, 0)),
    *((3, 3, 5), (5, 3, 5), (8, 3, 5), (1, 3, 5), (4, 1, 1)),
)
FLOATS = ("f2", "f8", ">f4", ">f8", "g")
OTHER_TYPES = ("i1", "i2", "i4", "i8", "u1", "u8", ">i4", "?", "c8", "c16", "U5", "S5", "O", "M8[s]")
ODD_LINES = {
    "empty": b"",
    "blanks": b"   ",
    "tab": b"\t",
    "carriage return": b"a\rb",
    "BOM inside": b"\xef\xbb\xbfa dog",
    "invalid UTF-8": b"a \xff dog",
    "latin-1": "ein schöner Hund".encode("latin-1"),
    "U+2028": "a\u2028dog".encode(),
    "U+0085": "a\x85dog".encode(),
    "vertical tab": b"a\x0bdog",
    "form feed": b"a\x0cdog",
    "NUL": b"a\0dog",
    "bidi": "a \u202edog\u202c".encode(),
    "half a pair": b"a \xed\xa0\x80 dog",
    "overlong": b"a \xc0\xaf dog",
    "1 MB": b"dog " * 250_000,
    "one word of 1 MB": b"d" * 1_000_000,
    "10,000 words": b"dog " * 10_000,
    "combining marks": ("a" + "\u0301" * 10_000).encode(),
    "punctuation": b"... !!! ???",
    "emoji": "🐶🐕".encode(),
    "markup": b"<script>alert(1)</script> ![x](http://x)",
    "format": b"%{x} {0} %s %n",
    "special": b"<pad> <unknown>",
    "rich markup": b"[bold]x[/] [/nothing]",
    "digits": "١٢٣ 123".encode(),
    "unknown words": b"zxqj wvkk",
    "surrogate pair in CESU": b"\xed\xa0\xbd\xed\xb0\xb6",
    "U+FFFF": "\uffff".encode(),
    "past Unicode": b"\xf4\x90\x80\x80",
}
ODD_VALUES = (
    *(None, -1, 0, 10**30, 0.5, float("nan"), float("inf"), "", "x", "\ud800", "a" * 100_000),
    *([], {}, [[]], True, "../x", "/etc/passwd", "a\nb", "\0", "train", 1, "🐶"),
)
ODD_NUMBERS = ("nan", "inf", "-inf", "1e300", "1e39", "abc", "1_0", "٣", "0x1", "", "1,5", "True")
ODD_FLAGS = (
    *("", "nan", "inf", "-1", "0", "abc", "1e400", "999999999", "-0.0", "True", "\udcff", "1_0", "٣"),
    *("[]", "1e-300"),
)
LONG_WORK = {"epochs", "data", "pictures", "compile"}  # not tried: 999,999,999 epochs are valid but never end


def flip(content, rng, within=0):
    """Flip one random bit, within the first `within` bytes, or anywhere if it is 0."""
    if not content:
        return content
    position = rng.randrange(min(within, len(content)) if within else len(content))
    return content[:position] + bytes([content[position] ^ 1 << rng.randrange(8)]) + content[position + 1 :]


def rewrite(change, content=None):
    """Return a function that applies `change` to a file's content (or to `content`) and writes the result."""
    return lambda path, rng: path.write_bytes(change(path.read_bytes() if content is None else content, rng))


def replace(make):
    """Return a function that replaces a file with a special one."""
    return lambda path, rng: (path.unlink(missing_ok=True), make(path))


def in_a_split(end, changes):
    """Return cases that change the file with this ending of train or dev, chosen at random."""

    def spoil(change, folder, rng):
        change(folder / f"{rng.choice(['train', 'dev'])}{end}", rng)

    return {name: partial(spoil, change) for name, change in changes.items()}


def features_cases():
    """Return cases for features: arrays of every dtype, shape and value, damaged files, files that are not arrays."""
    x = features()
    holding = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e38": 1e38, "3e38": 3e38, "denormal": 1e-42}
    center = np.zeros(x.shape, bool)
    center[1, 1, 1] = True
    arrays = {
        **{dtype: (x * 10).astype(dtype) for dtype in (*FLOATS, *OTHER_TYPES)},
        "Fortran order": np.asfortranarray(x),
        "structured": np.zeros(4, [("a", "f4"), ("b", "i4")]),
        "scalar": np.float32(1.0) + np.zeros((), "f4"),
        **{f"shape {shape}": np.ones(shape, "f4") for shape in SHAPES},
        "a zero region": np.where(np.arange(3)[None, :, None] == 1, 0, x).astype("f4"),
        "a zero image": np.where(np.arange(4)[:, None, None] == 2, 0, x).astype("f4"),
        "zeros": np.zeros_like(x),
        "one value": np.ones_like(x),
        "all nan": np.full_like(x, np.nan),
        "1e300": x.astype("f8") * 1e300,
        "half infinity": np.full(x.shape, np.inf, "f2"),
        **{f"one {name}": np.where(center, value, x).astype("f4") for name, value in holding.items()},
    }
    replacements = {
        "huge shape": (b"(4, 3, 5), }           ", b"(999999999, 3, 5), }   "),
        "shape of another size": (b"(4, 3, 5)", b"(4, 3, 6)"),
        "negative shape": (b"(4, 3, 5), ", b"(-4, 3, 5),"),
        "dtype of another size": (b"<f4", b"<f8"),
        "dtype object": (b"'<f4'", b"'|O' "),
    }
    contents = {name: saved(np.save, array) for name, array in arrays.items()}
    contents |= {"empty": b"", "text": b"1.0 2.0\n3.0 4.0\n", "npz": saved(np.savez, x)}
    contents["pickle"] = b"\x80\x04cos\nsystem\n(S'true'\ntR."
    changes = {
        **{name: lambda content, rng, new=new: new for name, new in contents.items()},
        **{
            name: lambda content, rng, pair=pair: content.replace(*pair)
            for name, pair in replacements.items()
        },
        "cut": lambda content, rng: content[: rng.randrange(len(content))],
        "cut header": lambda content, rng: content[: rng.randrange(128)],
        "more bytes": lambda content, rng: content + b"\0" * rng.randrange(1, 99),
        "version 9": lambda content, rng: content[:6] + b"\x09" + content[7:],
        "header bit": lambda content, rng: flip(content, rng, 128),
        "header bits": lambda content, rng: flip(flip(content, rng, 128), rng, 128),
    }
    special = {name: replace(make) for name, make in SPECIAL.items()}
    files = {name: rewrite(change) for name, change in changes.items()} | special
    captions = {f"captions are {name}": change for name, change in special.items()}
    return in_a_split("_ims.npy", files) | in_a_split("_caps.txt", captions)


def saved(save, array):
    """Return what a function such as `numpy.save` writes."""
    file = io.BytesIO()
    save(file, array)
    return file.getvalue()


def caption_cases(end="_caps.txt"):
    """Return cases for captions or ids: odd lines, odd encodings and wrong line counts."""
    lines = [f"a dog number {row} runs" for row in range(8)]
    if end != "_caps.txt":
        lines = [f"{row}.jpg" for row in range(4)]
    whole = "".join(f"{line}\n" for line in lines).encode()
    first = lines[0].encode()
    rest = whole.partition(b"\n")[2]

    def replaced(odd, content, rng):
        parts = content.splitlines()
        parts[rng.randrange(len(parts))] = odd
        return b"\n".join(parts) + b"\n"

    changes = {
        **{name: partial(replaced, odd) for name, odd in ODD_LINES.items()},
        "no lines": lambda content, rng: b"",
        "newlines only": lambda content, rng: b"\n" * len(lines),
        "one less": lambda content, rng: rest,
        "one more": lambda content, rng: content + b"another\n",
        "no last newline": lambda content, rng: content[:-1],
        "a further newline": lambda content, rng: content + b"\n",
        "CRLF": lambda content, rng: content.replace(b"\n", b"\r\n"),
        "CR": lambda content, rng: content[:-1].replace(b"\n", b"\r"),
        "BOM": lambda content, rng: b"\xef\xbb\xbf" + content,
        "UTF-16": lambda content, rng: content[:-1].decode().encode("utf-16"),
        "UTF-32": lambda content, rng: content[:-1].decode().encode("utf-32"),
        "all the same": lambda content, rng: (first + b"\n") * len(lines),
        "twice as many": lambda content, rng: content * 2,
        "noise": lambda content, rng: rng.randbytes(300),
        "a flipped bit": flip,
        "..": lambda content, rng: b"../../etc/passwd\n" + rest,
        "absolute": lambda content, rng: b"/etc/passwd\n" + rest,
        "backslash": lambda content, rng: b"..\\x.jpg\n" + rest,
    }
    return in_a_split(end, {name: rewrite(change, whole) for name, change in changes.items()})


def _karpathy():
    """Return a small data set: four train images and four val images, two captions each."""
    images = []
    for row in range(8):
        image = {"imgid": row, "filename": f"{row}.jpg", "split": "train" if row < 4 else "val"}
        of_sentence = {"tokens": ["a", "dog"], "imgid": row}
        image["sentids"] = [2 * row, 2 * row + 1]
        image["sentences"] = [
            {"raw": f"A dog number {row} runs {number % 2} .", "sentid": number} | of_sentence
            for number in image["sentids"]
        ]
        images.append(image)
    return {"images": images, "dataset": "flickr8k"}


def karpathy_cases():
    """Return cases for Karpathy's JSON: any value replaced, deleted or repeated, and texts that are not valid."""

    def spoil_text(change, folder, rng):
        _write_karpathy(folder, change(json.dumps(_karpathy()), rng))

    def spoil_value(change, folder, rng):
        holder = document = _karpathy()
        key = rng.choice(list(holder))
        for _ in range(rng.randrange(6)):
            if not isinstance(holder[key], dict | list) or not holder[key]:
                break
            holder = holder[key]
            key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        change(holder, key, rng)
        _write_karpathy(folder, json.dumps(document))

    def exchange(holder, key, rng):
        holder[key] = rng.choice(ODD_VALUES)

    def delete(holder, key, rng):
        del holder[key]

    def repeat(holder, key, rng):
        if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[f"{key} "] = holder[key]

    same_image = '"imgid": 0, "filename"'
    texts = {
        "cut": lambda text, rng: text[: rng.randrange(len(text))],
        "bit": lambda text, rng: flip(text.encode(), rng),
        "empty": lambda text, rng: "",
        "null": lambda text, rng: "null",
        "list": lambda text, rng: "[]",
        "nested": lambda text, rng: "[" * 100_000,
        "nested images": lambda text, rng: '{"images": ' + "[" * 5000 + "]" * 5000 + "}",
        "same key twice": lambda text, rng: text.replace('"imgid": 0', '"imgid": 0, "imgid": 1', 1),
        "same imgid twice": lambda text, rng: text.replace('"imgid": 1, "filename"', same_image, 1),
        "same sentid twice": lambda text, rng: text.replace('"sentid": 3', '"sentid": 2', 1),
        "unknown split": lambda text, rng: text.replace('"split": "val"', '"split": "other"'),
        "no train": lambda text, rng: text.replace('"split": "train"', '"split": "test"'),
        "no dev": lambda text, rng: text.replace('"split": "val"', '"split": "restval"'),
        "a large number": lambda text, rng: text.replace('"imgid": 3', '"imgid": ' + "9" * 5000, 1),
        "UTF-16": lambda text, rng: text.encode("utf-16"),
        "BOM": lambda text, rng: b"\xef\xbb\xbf" + text.encode(),
    }
    changes = (("replaced", exchange, 12), ("deleted", delete, 6), ("repeated", repeat, 6))
    cases = {name: partial(spoil_text, change) for name, change in texts.items()}
    for name, change, count in changes:
        cases |= {f"{name} {number}": partial(spoil_value, change) for number in range(count)}
    return cases


def _write_karpathy(folder, text):
    for path in folder.iterdir():
        path.unlink()
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    (folder / "dataset_flickr8k.json").write_bytes(content)
    np.save(folder / "ims.npy", features(8))


def glove_cases():
    """Return cases for word-vector files."""
    good = b"a 0.1 0.2 0.3\ndog 0.4 0.5 0.6\nnumber 0.1 -0.2 0.3\nruns 0.7 0.8 0.9\n"
    contents = {
        "good": good,
        "empty": b"",
        "header": b"4 3\n" + good,
        "header that lies": b"9999999999 3\n" + good,
        "wrong width": good + b"cat 1 2\n",
        "twice": good * 2,
        "spaces in a word": good + b"a hot dog 1 2 3\n",
        "BOM": b"\xef\xbb\xbf" + good,
        "CRLF": good.replace(b"\n", b"\r\n"),
        "invalid UTF-8": good + b"\xff\xfe 1 2 3\n",
        "a long line": good + b"x" * (2 << 20) + b"\n",
        "a word only": b"dog\n",
        "blank line": good + b"\n" + good,
        "few words": b"zebra 1 2 3\n",
        "no last newline": good[:-1],
        **{f"number {odd}": good.replace(b"0.5", odd.encode()) for odd in ODD_NUMBERS},
    }
    changes = {name: lambda content, rng, new=new: new for name, new in contents.items()}
    changes |= {"bit": flip, "binary": lambda content, rng: rng.randbytes(400)}
    changes["cut"] = lambda content, rng: content[: rng.randrange(len(content))]
    writing = {name: rewrite(change, good) for name, change in changes.items()}
    writing |= {name: replace(SPECIAL[name]) for name in ("missing", "a folder", "a pipe", "a dead link")}

    def write(change, folder, rng):
        change(folder.parent / "vectors.txt", rng)
        return [f"--word-vectors={folder.parent / 'vectors.txt'}"]

    return {name: partial(write, change) for name, change in writing.items()}


def flag_cases():
    """Return a case for every setting except `LONG_WORK` with every odd value, as a flag."""
    sections = [getattr(Config(), section.name) for section in fields(Config) if section.name != "name"]
    names = [setting.name for section in sections for setting in fields(section)]

    def of(name, value):
        return lambda folder, rng: [f"--{name.replace('_', '-')}={value}"]

    tried = [name for name in names if name not in LONG_WORK]
    return {f"{name}={value}": of(name, value) for name in tried for value in ODD_FLAGS}
