"""Read text files of a data set: one caption or id a line, UTF-8, split on "\\n" only."""

from __future__ import annotations

from pathlib import Path

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError

LONGEST_CAPTION_WORDS = 200
LONGEST_CAPTION_CHARACTERS = 4_000
BYTE_ORDER_MARK = "\ufeff"


def shown(text: str, most: int = 80) -> str:
    """Text from a file, quoted, cut and with control characters spelled out, so that it is safe to print."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def holds_half_character(text: str) -> bool:
    """True if the text contains a lone surrogate: half of a character, which UTF-8 cannot encode."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def check_name(path: Path | None) -> list[Fault]:
    """Fault the name of a file or folder that is not UTF-8: a run could not write down where its data is."""
    if path is None or not holds_half_character(str(path)):
        return []
    return [Fault(shown(str(path), 200), "the name is not UTF-8", "a name in UTF-8", "rename it")]


def follow_link(path: Path, faults: list[Fault]) -> None:
    """Note the target of `path` if it is a link.

    Raises:
        InputError: it leads to nothing, or back to itself.
    """
    if not path.is_symlink():
        return
    problem = f"a link to {path.readlink()}, which "
    try:
        faults.append(Fault(str(path), f"a link, followed to {path.resolve(strict=True)}", severity="note"))
    except FileNotFoundError:
        fix = "link it to the file again"
        raise InputError.at(path, f"{problem}does not exist", "what it stands for", fix) from None
    except (OSError, RuntimeError):  # which of the two a loop raises depends on Python's version
        fix = "link it to the file itself"
        raise InputError.at(path, f"{problem}leads back to itself", "what it stands for", fix) from None


def plain_file(path: Path, faults: list[Fault]) -> Path:
    """`path`, once it is known to be a plain file. A link is followed, and a note says so.

    Raises:
        InputError: missing, a link to nothing or to itself, or not a plain file (a folder, a pipe, a device).
    """
    follow_link(path, faults)
    if not path.exists():
        raise InputError.at(path, "the file is missing", "a plain file", "check the name and the folder")
    if not path.is_file():
        raise InputError.at(path, "not a plain file", "a plain file", "replace it with the file itself")
    return path


def read_lines(path: Path, what: str, faults: list[Fault]) -> list[str]:
    """The lines of a UTF-8 text file, stripped, one item each. Empty lines and bad bytes are added to `faults`.

    Args:
        path: the file.
        what: one line's meaning, for messages: "caption" or "id".
        faults: collects errors (empty line, invalid UTF-8) and notes (a link, a byte order mark).

    Returns:
        One string a line, an unreadable line as "". Only "\\n" ends a line: U+2028, \\x85, \\x0b and \\x0c do not.

    Raises:
        InputError: the file cannot be opened.
    """
    data = plain_file(path, faults).read_bytes()
    if not data:
        faults.append(
            Fault(str(path), "the file is empty", f"one {what} a line", f"write the {what}s or restore it")
        )
        return []
    rows = data.split(b"\n")
    if rows[-1] in (b"", b"\r"):
        rows.pop()
    try:
        lines = [line.strip() for line in data.decode("utf-8").split("\n")[: len(rows)]]
    except UnicodeDecodeError:
        lines = _decode(rows, path, faults)
    if lines and lines[0].startswith(BYTE_ORDER_MARK):
        lines[0] = lines[0].lstrip(BYTE_ORDER_MARK).strip()
        faults.append(Fault(str(path), "starts with a byte order mark, which was removed", severity="note"))
    if rows[0].endswith(b"\r"):
        faults.append(Fault(str(path), "Windows line ends (CRLF), which were removed", severity="note"))
    _report_empty(lines, rows, path, what, faults)
    return lines


def _decode(rows: list[bytes], path: Path, faults: list[Fault]) -> list[str]:
    lines = []
    for number, row in enumerate(rows, start=1):
        try:
            lines.append(row.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            lines.append("")
            problem = f"the byte 0x{row[error.start]:02x} is not UTF-8"
            fix = "save the file as UTF-8 (iconv -f LATIN1 -t UTF-8, if it was Latin-1)"
            if len(faults) < MOST_FAULTS_SHOWN:
                place = f"{path} line {number}, byte {error.start + 1}"
                faults.append(Fault(place, problem, "UTF-8 text", fix))
    return lines


def _report_empty(lines: list[str], rows: list[bytes], path: Path, what: str, faults: list[Fault]) -> None:
    """Fault lines of white space only; a line that could not be decoded has its fault already."""
    empty = [number for number, line in enumerate(lines, 1) if not line and _is_blank(rows[number - 1])]
    expected = f"every line is one {what}"
    fix = f"write the {what}, or remove the image with all its lines; a dropped line would shift all that follow"
    first = empty[:MOST_FAULTS_SHOWN]
    faults += [Fault(f"{path} line {number}", "the line is empty", expected, fix) for number in first]
    if len(empty) > MOST_FAULTS_SHOWN:
        faults.append(Fault(str(path), f"{len(empty):,} lines are empty", expected))


def _is_blank(row: bytes) -> bool:
    return not row.decode("utf-8", errors="replace").strip().strip(BYTE_ORDER_MARK).strip()


def shorten(captions: list[str], place: str, faults: list[Fault]) -> list[str]:
    """Cut captions of more than 200 words or 4,000 characters, and say how many."""
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
    if cut:
        limits = f"{LONGEST_CAPTION_WORDS} words or {LONGEST_CAPTION_CHARACTERS:,} characters"
        first = ", ".join(map(str, cut[:10]))
        text = f"{len(cut):,} captions are over {limits} and were cut; the first are captions {first}"
        faults.append(Fault(place, text, severity="warning"))
    return captions
