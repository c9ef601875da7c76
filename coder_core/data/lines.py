"""Text files of a data set (one caption or id per line, UTF-8, split on "\\n" only), JSON, links, and names of images
and pictures."""

import codecs
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any
from unicodedata import normalize

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, Severity, stop_on_errors

LONGEST_CAPTION_WORDS = 200
LONGEST_CAPTION_CHARACTERS = 4_000
BYTE_ORDER_MARK = "\ufeff"
# The mark of little-endian UTF-32 begins with that of UTF-16, so it comes first.
OTHER_MARKS = dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "UTF-32")
OTHER_MARKS |= dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "UTF-16")
FIRST_NAMED = 10
STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*"|}')
FROM_ZERO = "the first, counted from 0"
ID_MAPPING = "id_mapping.json"
MAPPING = "a JSON object, id: file name"
HUB_FILES = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json")  # of Hugging Face's datasets


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


def unwritable(text: str) -> str:
    """Return why a text cannot be written as a line of UTF-8; "" if it can."""
    if "\0" in text:
        return "a NUL character"
    return "half a character (a lone surrogate)" if holds_half_character(text) else ""


def check_texts(where: str, texts: Sequence[str]) -> list[Fault]:
    """Return an error that counts the texts with half a character or NUL."""
    bad = {row: reason for row, text in enumerate(texts) if (reason := unwritable(text))}
    problem = f"contain {next(iter(bad.values()), '')}"
    return count_cases(where, problem, [*bad], "UTF-8 text", "repair the text", "error", FROM_ZERO)


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


def text_rows(path: Path, faults: list[Fault], *, quoted: bool = False) -> Iterator[str]:
    """Yield the rows of a text file, with their line feeds; see `decode_rows`. InputError: not a plain file."""
    with plain_file(path, faults).open("rb") as file:
        yield from decode_rows(file, path, faults, quoted=quoted)


def decode_rows(
    rows: Iterable[bytes], where: object, faults: list[Fault], *, quoted: bool = False
) -> Iterator[str]:
    """Decode rows of UTF-8 text, with their line feeds: the gate through which all text from files enters.

    Adds errors (invalid UTF-8, whose row becomes empty; NUL; lines that end in CR alone) and notes (a byte order mark;
    CRLF; UTF-16 or UTF-32 with a byte order mark, which is decoded). `where`: the file, for messages. `quoted`: rows of
    CSV, in which CRLF is usual and a quoted field may contain CR.
    """
    rows = iter(rows)
    first = next(rows, b"")
    if encoding := _marked_encoding(first):
        text = _decode_marked(first + b"".join(rows), encoding, where)
        faults.append(Fault(str(where), f"is {encoding}, and was decoded from it", severity="note"))
        rows = iter(io.BytesIO(text.encode("utf-8")))
        first = next(rows, b"")
    elif first.startswith(codecs.BOM_UTF8):
        first = first.removeprefix(codecs.BOM_UTF8)
        fact = "starts with a byte order mark, which was removed"
        faults.append(Fault(str(where), fact, severity="note"))

    if first.endswith(b"\r\n") and not quoted:
        faults.append(Fault(str(where), "Windows line endings (CRLF), which were removed", severity="note"))

    errors = 0
    number = 0
    lone = 0  # CR inside rows
    for number, row in enumerate(chain([first] if first else [], rows), 1):
        text = ""
        fault = None
        try:
            text = row.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = _not_utf8(where, number, row, error.start)
        if b"\0" in row:
            fix = "remove it (in UTF-16 without a byte order mark: iconv -f UTF-16LE -t UTF-8)"
            fault = Fault(f"{where} line {number}", "contains a NUL character", "UTF-8 text", fix)
        if fault and errors < MOST_FAULTS_SHOWN:
            errors += 1
            faults.append(fault)
        lone += row.strip().count(b"\r") if b"\r" in row else 0
        if quoted and lone and number == 1 and not row.endswith(b"\n"):
            raise InputError(_lone_cr(where))
        yield text

    if lone >= max(number, 1) and not quoted:
        faults.append(_lone_cr(where))


def _lone_cr(where: object) -> Fault:
    problem = "the lines end in CR alone (old Macintosh), so the file counts as one line"
    name = str(where).rpartition("/")[2]
    fix = f"convert it: tr '\\r' '\\n' < {name} > new.txt"
    return Fault(f"{where} line 1", problem, "lines that end in LF", fix)


def _not_utf8(path: object, number: int, row: bytes, start: int) -> Fault:
    """Return the fault of a byte that is not UTF-8: byte `start`, from 0, of line `number`, whose bytes are `row`."""
    where = f"{path} line {number}, byte {start + 1}"
    fix = "save the file as UTF-8 (iconv -f LATIN1 -t UTF-8, if it was Latin-1)"
    return Fault(where, f"the byte 0x{row[start]:02x} is not UTF-8", "UTF-8 text", fix)


def _marked_encoding(start: bytes) -> str:
    """Return the encoding, other than UTF-8, whose byte order mark a file starts with, or ""."""
    return next((encoding for mark, encoding in OTHER_MARKS.items() if start.startswith(mark)), "")


def _decode_marked(data: bytes, encoding: str, where: object) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"{where} byte {error.start + 1}"
        problem = f"begins as {encoding}, but this byte is not"
        raise InputError.at(place, problem, "text in one encoding", "save the file as UTF-8") from None


def decode_text(data: bytes, where: object, notes: list[Fault]) -> str:
    """Decode a whole file of UTF-8 text; adds notes. InputError: errors of `decode_rows`."""
    faults: list[Fault] = []
    text = "".join(decode_rows(io.BytesIO(data), where, faults))
    notes += stop_on_errors(faults)
    return text


def read_lines(path: Path, what: str, faults: list[Fault]) -> list[str]:
    """Read the stripped lines of a UTF-8 text file; an undecodable line becomes "". `what`: "caption" …, for messages.

    Only "\\n" ends a line: U+2028, \\x85, \\x0b and \\x0c do not. Adds the faults of `decode_rows` and an error for every
    empty line. InputError: the file cannot be opened.
    """
    found: list[Fault] = []
    lines: list[str] = []
    empty: list[str] = []
    for number, row in enumerate(text_rows(path, found), 1):
        line = row.strip()
        lines.append(line)
        if row and not line:  # a row that cannot be decoded has no line feed
            empty.append(f"{path} line {number}")

    faults += found
    expected = f"one {what} per line"
    if not lines:
        faults.append(Fault(str(path), "the file is empty", expected, f"write the {what}s or restore it"))
        return []
    if any("CR alone" in fault.found for fault in found):
        return []

    fix = f"write the {what}, or remove the image with all its lines; a dropped line would shift all that follow"
    for where in empty[:MOST_FAULTS_SHOWN]:
        faults.append(Fault(where, "the line is empty", expected, fix))
    if len(empty) > MOST_FAULTS_SHOWN:
        faults.append(Fault(str(path), f"{len(empty):,} lines are empty", expected))

    return lines


def numbered_lines(path: Path, what: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    """Yield (file and line number for messages, text) of every line that is not empty; see `read_lines`."""
    for number, line in enumerate(read_lines(path, what, faults), 1):
        if line:
            yield f"{path} line {number}", line


class NotJsonError(InputError):
    """A text is not JSON at all."""


class _RepeatedKey(ValueError):  # noqa: N818  never leaves this module
    """A key that occurs twice in the object that was just read."""


def parse_json_text(
    text: str | bytes, where: object, expected: str = "JSON", fix: str = "", *, finite: bool = False
) -> Any:
    """Parse a JSON value: the gate for all JSON from files. `text`: a whole file as bytes, or a field or
    line of one. `where`: its location. `finite`: refuse NaN and
    Infinity, which are not JSON but which Python writes. InputError: invalid UTF-8, NUL, or a key
    that occurs twice in one object. NotJsonError, with `expected` and `fix`: it is not JSON."""
    is_file = isinstance(text, bytes)
    text = decode_text(text, where, []) if isinstance(text, bytes) else text
    objects = 0

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal objects
        objects += 1
        values = dict(pairs)
        if len(values) != len(pairs):
            raise _RepeatedKey(Counter(key for key, _ in pairs).most_common(1)[0][0])
        return values

    def place(position: int) -> str:
        if not is_file:
            return str(where)
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        return f"{where} line {line}, column {column}"

    fix = fix or "save the file again"
    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=_refuse_constant if finite else None)
    except _RepeatedKey as error:
        key = str(error)
        at = place(_last_key(text, objects, key))
        problem = f"the key {shown(key)} occurs twice in one object"
        raise InputError.at(at, problem, "every key once", "rename or remove one") from None
    except json.JSONDecodeError as error:
        raise NotJsonError.at(place(error.pos), f"is not JSON: {error.msg}", expected, fix) from None
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise NotJsonError.at(where, f"is not JSON: {problem}", expected, fix) from None


def _last_key(text: str, number: int, key: str) -> int:
    """Find the last occurrence of a key in the `number`-th object to be closed (from 1)."""
    braces = (match.start() for match in STRING_OR_BRACE.finditer(text) if match[0] == "}")
    end = next(islice(braces, number - 1, None), len(text))
    written = max(text.rfind(json.dumps(key, ensure_ascii=ascii), 0, end) for ascii in (False, True))
    return max(written, 0)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"contains {name}")


def read_json(
    path: Path, faults: list[Fault], expected: str = "JSON", fix: str = "", *, finite: bool = False
) -> Any:
    """Read a JSON file; a link adds a note. InputError: as for `plain_file` and `parse_json_text`."""
    return parse_json_text(plain_file(path, faults).read_bytes(), path, expected, fix, finite=finite)


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


@dataclass
class Once:
    """Names or numbers that must be unique in a file; a repetition adds a fault that names both locations."""

    what: str
    faults: list[Fault]
    fix: str = "rename or remove one"
    places: dict[Any, str] = field(default_factory=dict)
    repeated: int = 0

    def add(self, key: Any, where: str, at: str = "") -> bool:
        """Record the location `where` of a key; True unless another has it. `at`: a more precise one for messages."""
        before = self.places.setdefault(key, where)
        if before == where:
            return True
        self.repeated += 1
        if self.repeated <= MOST_FAULTS_SHOWN:
            name = shown(key) if isinstance(key, str) else str(key)
            problem = f"{name} is also the {self.what} of {before}"
            self.faults.append(Fault(at or where, problem, f"its own {self.what}", self.fix))
        return False


def shared_names(where: str, names: set[str], what: str) -> list[Fault]:
    """Return a warning about images or pictures in both of two splits: evaluation must not use training samples."""
    cases = [shown(name) for name in sorted(names)]
    fix = "remove them from one of the two"
    return count_cases(where, f"{what} are in both", cases, f"different {what}", fix)


def name_pictures(root: Path, folder: Path, ids: list[str], faults: list[Fault]) -> list[str]:
    """Return the picture names of n ids if an id_mapping.json has all of them; otherwise the ids themselves. The
    mapping is in `folder`, in `root`, or beside a `root` called precomp. Its use adds a note to `faults`; a mapping
    that cannot be used adds a warning, and a name with half a character an error. InputError: a repeated id, or
    text that is not UTF-8."""
    folders = [folder, root, root.resolve().parent] if root.resolve().name == "precomp" else [folder, root]
    path = next((parent / ID_MAPPING for parent in folders if os.path.lexists(parent / ID_MAPPING)), None)
    if path is None:
        return ids
    try:
        mapping = read_json(path, faults, MAPPING)
    except NotJsonError as error:
        problem = f"cannot be used: {error.faults[0].found}"
        faults.append(Fault(str(path), problem, MAPPING, severity="warning"))
        return ids

    values = [mapping.get(item) for item in ids] if isinstance(mapping, dict) else []
    names = [name for name in values if isinstance(name, str)]
    if len(names) < len(ids):
        text = f"names only {len(names):,} of {len(ids):,} images, so the ids are used as names"
        faults.append(Fault(str(path), text, MAPPING, severity="warning"))
        return ids
    for row, name in enumerate(names):
        if holds_half_character(name):
            problem = f"the name {shown(name)} of {shown(ids[row])} has half a character (a lone surrogate)"
            faults.append(Fault(f"{path}, image {row}", problem, "UTF-8 text", "repair the JSON"))

    faults.append(Fault(str(path), f"names the pictures of {len(ids):,} ids", severity="note"))
    return names


def karpathy_files(path: Path) -> list[Path]:
    """List the files in a folder that are named like Karpathy's, broken links too, but not those of Hugging Face."""
    return [file for file in sorted(path.glob("dataset*.json")) if file.name not in HUB_FILES]
