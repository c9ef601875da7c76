"""Captions and ids: odd lines, odd encodings, wrong counts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.attack.bad_files import Flags, Make, flip

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
        "a flipped bit": lambda lines, rng: flip(b"\n".join(lines) + b"\n", rng),
        "..": lambda lines, rng: b"\n".join([b"../../etc/passwd", *lines[1:]]) + b"\n",
        "absolute": lambda lines, rng: b"\n".join([b"/etc/passwd", *lines[1:]]) + b"\n",
        "backslash": lambda lines, rng: b"\n".join([rb"..\x.jpg", *lines[1:]]) + b"\n",
    }
    return {name: of_lines(placed(odd)) for name, odd in ODD_LINES.items()} | {
        n: of_lines(f) for n, f in files.items()
    }
