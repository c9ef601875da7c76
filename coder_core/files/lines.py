"""JSON lines that end in a checksum of themselves and of their run, so that damaged lines are detected."""

import json
import math
import zlib
from pathlib import Path
from typing import Any

from coder_core.console.faults import InputError
from coder_core.files.manifest import MANIFEST, parse_manifest


def run_key(folder: Path) -> str:
    """Return the key that seals the lines of a run: the checksum in its manifest; "" without an intact manifest."""
    try:
        return str(parse_manifest(folder / MANIFEST).get("self"))
    except InputError:
        return ""


def seal_line(record: dict[str, Any], key: str = "") -> str:
    """Format a record and its checksum as one line, without its newline. NaN and infinities become null."""
    finite = _finite(record)
    return _dump({**finite, "crc": _checksum(finite, key)})


def open_line(line: str, key: str = "") -> dict[str, Any]:
    """Return the record of a line that was sealed with `key`. ValueError: not a JSON object, or its checksum is missing
    or does not match, because the line is damaged or of another run."""
    try:
        record = json.loads(line)
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError(f"the line is of type {type(record).__name__}, not an object")
    checksum = record.pop("crc", None)
    if checksum != _checksum(record, key):
        raise ValueError("the line does not match its checksum" if checksum else "the line has no checksum")
    return record


def _checksum(record: dict[str, Any], key: str) -> str:
    return f"{zlib.crc32(_dump(record).encode('utf-8', 'surrogatepass'), zlib.crc32(key.encode())):08x}"


def _dump(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
