"""Text files of a data set (one caption or id per line, UTF-8, split on "\\n" only), JSON, links and names."""

import codecs
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, Severity

LONGEST_CAPTION_WORDS = 200
LONGEST_CAPTION_CHARACTERS = 4_000
BYTE_ORDER_MARK = "\ufeff"
# The mark of little-endian UTF-32 begins with that of UTF-16, so it comes first.
OTHER_MARKS = dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "UTF-32")
OTHER_MARKS |= dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "UTF-16")
FIRST_NAMED = 10
FROM_ZERO = "the first, counted from 0"


def shown(text: str, most: int = 80) -> str:
    """Quote text from a file, shortened and with control characters escaped, so that it is safe to print."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def count_cases(
    place: object,
    problem: str,
    cases: Sequence[object],
    expected: str = "",
    fix: str = "",
    severity: Severity = "warning",
    first: str = "the first",
) -> list[Fault]:
    """Return one fault that counts all cases of a problem and names the first ten; no fault without cases."""
    if not len(cases):
        return []
    text = f"{len(cases):,} {problem}; {first}: {', '.join(map(str, cases[:FIRST_NAMED]))}"
    return [Fault(str(place), text, expected, fix, severity)]


def composed(name: str) -> str:
    """Normalise a name for comparison: accents become part of their letters (NFC), because file systems differ."""
    return name if name.isascii() else normalize("NFC", name)


def holds_half_character(text: str) -> bool:
    """True if the text contains a lone surrogate: half of a character, which UTF-8 cannot encode."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def check_name(path: Path | None) -> list[Fault]:
    """Return a fault if the name of a file or folder is not UTF-8, because a run could not record it."""
    if path is None or not holds_half_character(str(path)):
        return []
    return [Fault(shown(str(path), 200), "the name is not UTF-8", "a name in UTF-8", "rename it")]


def follow_link(path: Path, faults: list[Fault]) -> None:
    """Add a note that names the target if `path` is a link; InputError if it is broken or leads back to itself."""
    if not path.is_symlink():
        return
    try:
        faults.append(Fault(str(path), f"a link, followed to {path.resolve(strict=True)}", severity="note"))
    except (OSError, RuntimeError) as error:  # which of the two a loop raises depends on Python's version
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "leads back to itself"
        problem = f"is a link to {path.readlink()}, which {reason}"
        raise InputError.at(path, problem, "an existing target", "link it to the file itself") from None


def plain_file(path: Path, faults: list[Fault]) -> Path:
    """Return `path` if it is a plain file. A link is followed with a note. InputError: missing, a link to nothing or to
    itself, or not a plain file (a folder, a pipe, a device)."""
    follow_link(path, faults)
    if not path.exists():
        raise InputError.at(path, "the file is missing", "a plain file", "check the name and the folder")
    if not path.is_file():
        raise InputError.at(path, "not a plain file", "a plain file", "replace it with the file itself")
    return path


def not_utf8(path: Path, number: int, row: bytes, start: int) -> Fault:
    """Return the fault of a byte that is not UTF-8: byte `start`, from 0, of line `number`, whose bytes are `row`."""
    where = f"{path} line {number}, byte {start + 1}"
    encoding = _marked_encoding(row) if number == 1 else ""
    command = f"iconv -f {encoding} -t UTF-8" if encoding else "iconv -f LATIN1 -t UTF-8, if it was Latin-1"
    fix = f"save the file as UTF-8 ({command})"
    return Fault(where, f"the byte 0x{row[start]:02x} is not UTF-8", "UTF-8 text", fix)


def _marked_encoding(start: bytes) -> str:
    """Return the encoding, other than UTF-8, whose byte order mark a file starts with, or ""."""
    return next((encoding for mark, encoding in OTHER_MARKS.items() if start.startswith(mark)), "")


def read_lines(path: Path, what: str, faults: list[Fault]) -> list[str]:
    """Read the stripped lines of a UTF-8 text file; an undecodable line becomes "". `what`: "caption" …, for messages.

    Only "\\n" ends a line: U+2028, \\x85, \\x0b and \\x0c do not. Adds errors (empty line, invalid UTF-8, NUL, no
    line end but CR) and notes (a link, a byte order mark, CRLF) to `faults`. InputError: the file cannot be opened.
    """
    data = plain_file(path, faults).read_bytes()
    expected = f"one {what} per line"
    if not data:
        faults.append(Fault(str(path), "the file is empty", expected, f"write the {what}s or restore it"))
        return []
    rows = data.split(b"\n")
    if rows[-1] in (b"", b"\r"):
        rows.pop()
    if len(rows) == 1 and b"\r" in rows[0].strip():
        problem = "the lines end in CR alone (old Macintosh), so the file counts as one line"
        fix = f"convert it: tr '\\r' '\\n' < {path.name} > new.txt"
        faults.append(Fault(str(path), problem, "lines that end in LF", fix))
        return []
    lines: list[str] = []
    unreadable = set()
    for number, row in enumerate(rows, 1):
        try:
            lines.append(row.decode("utf-8").strip())
            if b"\0" in row and len(faults) < MOST_FAULTS_SHOWN:
                fix = "remove it (in UTF-16 without a byte order mark: iconv -f UTF-16LE -t UTF-8)"
                faults.append(Fault(f"{path} line {number}", "contains a NUL character", "UTF-8 text", fix))
        except UnicodeDecodeError as error:
            lines.append("")
            unreadable.add(number)
            if len(faults) < MOST_FAULTS_SHOWN:
                faults.append(not_utf8(path, number, row, error.start))
            if number == 1 and _marked_encoding(row):
                return []
    if lines[0].startswith(BYTE_ORDER_MARK):
        lines[0] = lines[0].lstrip(BYTE_ORDER_MARK).strip()
        faults.append(Fault(str(path), "starts with a byte order mark, which was removed", severity="note"))
    if rows[0].endswith(b"\r"):
        faults.append(Fault(str(path), "Windows line endings (CRLF), which were removed", severity="note"))
    fix = f"write the {what}, or remove the image with all its lines; a dropped line would shift all that follow"
    empty = [number for number, line in enumerate(lines, 1) if not line and number not in unreadable]
    for number in empty[:MOST_FAULTS_SHOWN]:
        faults.append(Fault(f"{path} line {number}", "the line is empty", expected, fix))
    if len(empty) > MOST_FAULTS_SHOWN:
        faults.append(Fault(str(path), f"{len(empty):,} lines are empty", expected))
    return lines


def numbered_lines(path: Path, what: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    """Yield (file and line number for messages, text) of every line that is not empty; see `read_lines`."""
    for number, line in enumerate(read_lines(path, what, faults), 1):
        if line:
            yield f"{path} line {number}", line


def parse_json(text: str | bytes, where: object, expected: str = "JSON", fix: str = "") -> Any:
    """Parse a JSON value. InputError, with `where`, `expected` and `fix`: it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fix = fix or "save the file again"
        raise InputError.at(where, f"is not JSON: {error}", expected, fix) from None


def shorten(captions: list[str], where: str, faults: list[Fault]) -> list[str]:
    """Cut captions of more than 200 words or 4,000 characters in place and return them; a warning counts them."""
    cut = []
    for index, caption in enumerate(captions):
        if len(caption) < 2 * LONGEST_CAPTION_WORDS:  # 200 words and their 199 spaces do not fit
            continue
        words = caption.split(None, LONGEST_CAPTION_WORDS)
        shorter = " ".join(words[:LONGEST_CAPTION_WORDS]) if len(words) > LONGEST_CAPTION_WORDS else caption
        shorter = shorter[:LONGEST_CAPTION_CHARACTERS].strip()
        if shorter != caption:
            captions[index] = shorter
            cut.append(index + 1)
    limits = f"{LONGEST_CAPTION_WORDS} words or {LONGEST_CAPTION_CHARACTERS:,} characters"
    faults += count_cases(where, f"captions exceed {limits} and were cut", cut)
    return captions
