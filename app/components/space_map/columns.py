"""Columns of numbers that pages hand to the browser: bytes under a hash of their content.

A page publishes a column and sends its key through the socket; the browser fetches the bytes once
(`app.frame.map_routes`). What was not asked for longest is dropped first; a page publishes all its columns again
whenever it runs.
"""

import hashlib
from collections import OrderedDict
from threading import Lock

import numpy as np

MOST_BYTES = 512 * 2**20
_LOCK = Lock()
_COLUMNS: OrderedDict[str, bytes] = OrderedDict()


def publish(column: np.ndarray) -> str:
    """Make the bytes of a column available to the browser, and return their key: 32 hexadecimal digits."""
    content = np.ascontiguousarray(column)
    key = hashlib.blake2b(content.data, digest_size=16).hexdigest()
    with _LOCK:
        if key not in _COLUMNS:
            _COLUMNS[key] = content.tobytes()
        _COLUMNS.move_to_end(key)
        while sum(map(len, _COLUMNS.values())) > MOST_BYTES and len(_COLUMNS) > 1:
            _COLUMNS.popitem(last=False)
    return key


def published(key: str) -> bytes | None:
    """Return the bytes of a column; None if no page has published it, or it was dropped."""
    with _LOCK:
        if key in _COLUMNS:
            _COLUMNS.move_to_end(key)
        return _COLUMNS.get(key)
