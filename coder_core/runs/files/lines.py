"""One JSON object a line, ending in a checksum of itself, so that a torn or damaged line is never believed."""

from __future__ import annotations

import json
import math
import re
import zlib
from typing import Any

_SEAL = re.compile(r',"crc":"([0-9a-f]{8})"}$')


def seal_line(record: dict[str, Any]) -> str:
    """A record as one line without its newline. NaN and infinities, which JSON lacks, become null."""
    if not record:
        raise ValueError("an empty record says nothing")
    text = json.dumps(_finite(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f'{text[:-1]},"crc":"{_checksum(text)}"}}'


def open_line(line: str) -> dict[str, Any]:
    """The record of a line. A line without a checksum (written by hand) is accepted as it stands.

    Raises:
        ValueError: not a JSON object, or its checksum does not fit.
    """
    seal = _SEAL.search(line)
    if seal:
        line = line[: seal.start()] + "}"
        if _checksum(line) != seal[1]:
            raise ValueError("the line does not match its checksum")
    try:
        record = json.loads(line)
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError(f"the line holds a {type(record).__name__}, not an object")
    return record


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
