"""Files of word vectors."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.attack.bad_files import SPECIAL, Flags, Make, flip


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
        "bit": lambda rng: flip(good.encode(), rng),
        **{
            f"number {odd}": lambda rng, odd=odd: good.replace("0.5", odd).encode()
            for odd in ("nan", "inf", "-inf", "1e300", "1e39", "abc", "1_0", "٣", "0x1", "", "1,5", "True")
        },
    }

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
        name: special(SPECIAL[name]) for name in ("missing", "a folder", "a pipe", "a dead link")
    }
