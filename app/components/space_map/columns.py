"""Columns of numbers that pages hand to the browser: bytes under a hash of their content.

A page publishes a column and sends its key through the socket; the browser fetches the bytes once
(`app.frame.map_routes`). What was not asked for longest is dropped first; a page publishes all its columns again
whenever it runs.
"""

import hashlib
import weakref
from collections import OrderedDict
from functools import lru_cache
from threading import Lock

import numpy as np

MOST_BYTES = 512 * 2**20
Extent = tuple[float, float, float, float]  # least x and y, greatest x and y
_LOCK = Lock()
_COLUMNS: OrderedDict[str, bytes] = OrderedDict()
_KEYS: dict[
    int, tuple[weakref.ref[np.ndarray], str]
] = {}  # identity of a published array → the array and its key


def publish(column: np.ndarray) -> str:
    """Make the bytes of a column available to the browser, and return their key: 32 hexadecimal digits. The column must
    not be changed in place, because the key of an array that is published again is not computed again."""
    with _LOCK:
        known = _KEYS.get(id(column))
        if known is not None and known[0]() is column and known[1] in _COLUMNS:
            _COLUMNS.move_to_end(known[1])
            return known[1]

    content = np.ascontiguousarray(column)
    key = hashlib.blake2b(content.data, digest_size=16).hexdigest()
    with _LOCK:
        if key not in _COLUMNS:
            _COLUMNS[key] = content.tobytes()
        _COLUMNS.move_to_end(key)
        while sum(map(len, _COLUMNS.values())) > MOST_BYTES and len(_COLUMNS) > 1:
            _COLUMNS.popitem(last=False)
        for identity in [identity for identity, (array, _) in _KEYS.items() if array() is None]:
            del _KEYS[identity]
        _KEYS[id(column)] = weakref.ref(column), key

    return key


def published(key: str) -> bytes | None:
    """Return the bytes of a column; None if no page has published it, or it was dropped."""
    with _LOCK:
        if key in _COLUMNS:
            _COLUMNS.move_to_end(key)
        return _COLUMNS.get(key)


@lru_cache(maxsize=64)
def extent(key: str) -> Extent:
    """Return the ends of a published column of (N, 2) float32 places."""
    x, y = np.frombuffer(published(key) or b"", np.float32).reshape(-1, 2).T
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())
