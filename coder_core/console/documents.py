"""Read JSON from untrusted files: refuse what it leaves ambiguous, and check the types of values before using them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from coder_core.console.faults import Fault, InputError

NUMBER = (int, float)
LARGEST = 2**63
JSON_NAMES = {type(None): "null", dict: "object", list: "array"}


def parse_document(text: str | bytes) -> Any:
    """Parse a JSON document. ValueError: not JSON, not UTF-8, a key given twice in one object, NaN or an infinity, or
    half a character (a lone surrogate), which cannot be printed. RecursionError: nested too deeply."""
    content = text.decode() if isinstance(text, bytes) else text
    value = json.loads(content, object_pairs_hook=_with_unique_keys, parse_constant=_refuse_constant)
    if "\\ud" in content.lower():
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {excerpt(twice)} is given twice")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def check_values(
    record: Any, kinds: Mapping[str, type | tuple[type, ...]], place: str, *, least: float = -1
) -> None:
    """Check the types of a JSON object's values. Missing keys are skipped.

    Numbers must be finite, at least `least` and below 2⁶³; true is not a number; `type(None)` allows null. InputError:
    not an object, or values of other types; names all their keys.
    """
    if not isinstance(record, dict):
        raise InputError.at(place, f"contains {excerpt(record)}", "an object", "restore the file")
    faults = []
    for key, kind in kinds.items():
        if key in record and not _fits(record[key], kind, least):
            kinds_of_key = kind if isinstance(kind, tuple) else (kind,)
            expected = " or ".join(JSON_NAMES.get(each, each.__name__) for each in kinds_of_key)
            found = f"is {excerpt(record[key])}"
            faults.append(Fault(f"{place} key {key}", found, expected, "restore the file"))
    if faults:
        raise InputError(faults)


@contextmanager
def trusting(place: str) -> Iterator[None]:
    """Turn the block's error about a value of an unexpected type into an InputError at `place`."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        found = f"contains a value that no version of this program writes ({error})"
        raise InputError.at(place, found, fix="restore the file") from error


def _fits(value: Any, kind: type | tuple[type, ...], least: float) -> bool:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    return not isinstance(value, int | float) or least <= value < LARGEST  # exact even for huge integers


def excerpt(value: Any) -> str:
    """Return a value's repr, cut to 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of over 4,300 digits, or tables nested too deeply
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= 60 else f"{text[:59]}…"
