"""Rows of embeddings: made float32 of length 1, and found again where they are equal."""

import hashlib
import math
import os
import tempfile
from collections.abc import Iterator

import numpy as np

from coder_core.console.faults import Fault, stop_on_errors
from coder_core.data.lines import FROM_ZERO, count_cases

PIECE_BYTES = 2**20  # of rows in float64, which stay in the cache
MAPPED_BYTES = 256 * 2**20  # of normalised rows; fewer are kept in memory
UNIT = 1e-6  # a row whose length is this close to 1 is not normalised
COLLAPSED = 0.99  # mean cosine between two rows of one modality: nearly all of them point the same way


def unit_array(
    array: np.ndarray, where: str, what: str, faults: list[Fault], *, in_place: bool = False
) -> np.ndarray:
    """Return the rows as float32 of length 1: the array itself if it holds them. Normalising adds a note, nearly equal
    rows a warning. InputError: NaN, Inf or all-zero rows. `in_place`: change a float32 `array`."""
    array = np.asarray(array)  # rows of a mapped one are slow
    lengths, total = _lengths_and_total(array)
    errors = list[Fault]()
    fix = f"embed these {what} again"
    for bad, problem, expected in (
        (~np.isfinite(lengths), "contain NaN, Inf or numbers that are too large", "finite numbers"),
        (lengths == 0, "contain only zeros, so they have no direction", "nonzero vectors"),
    ):
        cases = np.flatnonzero(bad).tolist()
        errors += count_cases(where, f"rows {problem}", cases, expected, fix, "error", FROM_ZERO)

    stop_on_errors(errors)
    divisors = _divisors(lengths)
    if (divisors != 1).any():
        text = f"rows of length {lengths.min():.4g} to {lengths.max():.4g} are normalised: scores are cosines"
        faults.append(Fault(where, text, severity="note"))

    count = len(array)
    if count >= 2 and (cosine := (float(total @ total) - count) / (count * (count - 1))) >= COLLAPSED:
        problem = (
            f"collapsed: the mean cosine between two {what} is {cosine:.4f}: nearly all point the same way"
        )
        fix = "check which layer they come from; ranks among nearly equal scores mean little"
        faults.append(Fault(where, problem, f"below {COLLAPSED}", fix, severity="warning"))

    if (divisors == 1).all() and array.dtype == np.float32 and array.flags.c_contiguous:
        return array
    rows = array if in_place else _new_rows(array.shape)
    for part, values in _pieces(array):
        rows[part] = values / divisors[part, None]
    return rows


def _lengths_and_total(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) the length of every row, and (D,) the sum of the unit rows."""
    lengths = np.empty(len(array))
    total = np.zeros(array.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # such rows are refused by their lengths
        for part, values in _pieces(array):
            lengths[part] = np.sqrt(np.vecdot(values, values))
            total += (1 / _divisors(lengths[part])) @ values
    return lengths, total


def _pieces(array: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield some rows at a time, and their values in float64."""
    height = max(1, PIECE_BYTES // (8 * array.shape[1]))
    for start in range(0, len(array), height):
        part = slice(start, start + height)
        yield part, array[part].astype(np.float64)


def _divisors(lengths: np.ndarray) -> np.ndarray:
    """Return what rows of these lengths are divided by: 1 for nearly unit rows, and for zeros, which are refused."""
    return np.where((np.abs(lengths - 1.0) > UNIT) & (lengths > 0), lengths, 1.0)


def _new_rows(shape: tuple[int, ...]) -> np.ndarray:
    """Return an uninitialized float32 array; a large one is in a temporary file without a name, so that the system can
    write it to disk instead of keeping it in memory. Without disk space it is in memory."""
    size = 4 * math.prod(shape)
    if size < MAPPED_BYTES or not hasattr(os, "posix_fallocate"):
        return np.empty(shape, np.float32)
    with tempfile.TemporaryFile() as file:
        try:
            os.posix_fallocate(
                file.fileno(), 0, size
            )  # a full disk must not show up only when rows are written
        except OSError:
            return np.empty(shape, np.float32)
        return np.memmap(file, np.float32, "r+", shape=shape)


def first_equal_rows(rows: np.ndarray) -> np.ndarray:
    """Return (n,) int64, for every row of a float32 array the first one with the same bytes. Only rows whose first two
    numbers are those of another are compared.

    >>> first_equal_rows(np.array([[1, 2, 3], [1, 2, 4], [1, 2, 3], [2, 2, 3]], np.float32)).tolist()
    [0, 1, 0, 3]
    """
    rows = np.asarray(rows)  # rows of a mapped one are slow
    two = np.ascontiguousarray(rows[:, :2])
    beginnings = two.view(f"u{two.shape[1] * two.itemsize}")[:, 0]  # whole numbers are sorted faster
    _, number, counts = np.unique(beginnings, return_inverse=True, return_counts=True)
    first = np.arange(len(rows))
    seen: dict[bytes, int] = {}
    for row in np.flatnonzero(counts[number] > 1).tolist():
        digest = hashlib.blake2b(rows[row].tobytes(), digest_size=16).digest()
        first[row] = seen.setdefault(digest, row)
    return first
