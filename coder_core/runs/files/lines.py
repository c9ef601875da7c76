"""One JSON object a line that ends in a checksum of itself, so that a damaged line is never believed."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any


def seal_line(record: dict[str, Any]) -> str:
    """A record as one line without its newline. NaN and infinities, which JSON lacks, become null."""
    finite = _finite(record)
    return _dump({**finite, "crc": _checksum(finite)})


def open_line(line: str) -> dict[str, Any]:
    """The record of a line. A line without a checksum (written by hand) is accepted as it stands.

    Raises:
        ValueError: not a JSON object, or its checksum does not fit.
    """
    try:
        record = json.loads(line)
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError(f"the line holds a {type(record).__name__}, not an object")
    checksum = record.pop("crc", None)
    if checksum not in (None, _checksum(record)):
        raise ValueError("the line does not match its checksum")
    return record


def _checksum(record: dict[str, Any]) -> str:
    return f"{zlib.crc32(_dump(record).encode('utf-8', 'surrogatepass')):08x}"


def _dump(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
