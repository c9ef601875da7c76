"""Features in .npy files: headers are checked, files are mapped, and nothing is unpickled or loaded as a whole."""

import hashlib
import math
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy

from coder_core.console.faults import Fault, InputError, Severity
from coder_core.data.lines import FIRST_NAMED, FROM_ZERO, count_cases, plain_file
from coder_core.files.atomic import cache_folder, replacing
from coder_core.files.sealed import HEADER_ERRORS, read_header

SCAN_BYTES = 8 * 2**20
SCAN_THREADS = 2
PIECE_IMAGES = 256  # copied at once
LARGEST = 1e15  # training sums squares of features in float32, whose maximum is 3.4e38
RIGHT_FILE = "a .npy file of float16, float32 or float64, (images, regions, size) or (images, size)"


class UnreadableRowsError(InputError):
    """Pictures or features that could be read before can no longer be read."""


@dataclass(frozen=True)
class FeatureFile:
    """A features file whose header matches its size. shape: (n, L, D) or (n, D)."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    offset: int

    def map(self) -> np.ndarray:
        """Map the whole file into memory, read-only and in its own dtype."""
        order: Literal["F", "C"] = "F" if self.fortran else "C"
        return np.memmap(self.path, self.dtype, mode="r", offset=self.offset, shape=self.shape, order=order)

    def check_size(self) -> None:
        """Raise UnreadableRowsError if the file is shorter than when it was opened: reading a mapped page that a file
        has lost kills the process. A file that was moved or replaced stays readable."""
        with suppress(FileNotFoundError):
            size = self.path.stat().st_size
            needed = self.offset + math.prod(self.shape) * self.dtype.itemsize
            if size < needed:
                problem = f"was shortened to {size:,} bytes while it was in use"
                raise UnreadableRowsError.at(self.path, problem, f"{needed:,} bytes", "restore the file")

    @property
    def row_bytes(self) -> int:
        """Bytes of one image's features."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def open_features(path: Path, faults: list[Fault]) -> FeatureFile:
    """Check a features file's header against its size; notes on later conversions go to `faults`. InputError: not a
    .npy file, pickled objects, a wrong dtype or shape, or a size that does not match the header."""
    plain_file(path, faults)
    size = path.stat().st_size
    with path.open("rb") as file:
        shape, fortran, dtype = _read_header(file, path, size)
        offset = file.tell()
    if dtype.kind != "f" or dtype.itemsize > 8:
        problem = f"dtype {dtype}"
        fix = "save it as array.astype(numpy.float32)"
        if dtype.hasobject:
            problem = "Python objects (a pickle), which are never opened"
            fix = "save the numbers as float32"
        raise InputError.at(path, problem, "float16, float32 or float64", fix)

    if len(shape) not in (2, 3) or any(length < 1 for length in shape):
        sizes = "(images, regions, size) or (images, size), no dimension of length 0"
        raise InputError.at(path, f"shape {shape}", sizes, "reshape the array and save it again")

    expected = offset + math.prod(shape) * dtype.itemsize
    if size != expected:
        problem = f"has {size:,} bytes, but its header declares {dtype} {shape}, which takes {expected:,}"
        fix = "copy or download it again: it was cut short" if size < expected else "write it again"
        raise InputError.at(path, problem, f"{expected:,} bytes", fix)

    faults.extend(_coercions(path, shape, dtype, fortran))
    return FeatureFile(path, shape, dtype, fortran, offset)


def _read_header(file: BinaryIO, path: Path, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    start = file.read(npy.MAGIC_LEN)
    if not start.startswith(npy.MAGIC_PREFIX):
        raise InputError.at(path, _what_it_is(start, size), RIGHT_FILE, "write it with numpy.save")
    file.seek(0)
    try:
        return read_header(file)
    except HEADER_ERRORS as error:
        first = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        fix = "write it again with numpy.save"
        raise InputError.at(path, f"its .npy header cannot be read: {first}", RIGHT_FILE, fix) from None


def _what_it_is(start: bytes, size: int) -> str:
    if size == 0:
        return "the file is empty (0 bytes)"
    if start.startswith(b"PK"):
        return "a zip archive (.npz) under the name .npy"
    if start.startswith(b"\x80"):
        return "a Python pickle, which is never opened, because opening one can run a program"
    return f"not a .npy file ({size:,} bytes)"


def describe_floats(dtype: np.dtype) -> str:
    """Describe a type of floats in words, such as big-endian float16."""
    return f"{'' if dtype.isnative else 'big-endian '}float{8 * dtype.itemsize}"


def _coercions(path: Path, shape: tuple[int, ...], dtype: np.dtype, fortran: bool) -> list[Fault]:
    notes = []
    if dtype != np.float32:
        notes.append(f"{describe_floats(dtype)}; every batch is converted to float32")
    if fortran:
        notes.append("Fortran order: reading a row is slow; save a copy in C order with numpy.save")
    if len(shape) == 2:
        notes.append("one vector per image (images, size), read as one region")
    return [Fault(str(path), text, severity="note") for text in notes]


class FeatureRows:
    """Features (n, L, F) or (n, F), in memory or mapped, whose rows are read on demand; (n, F) is one region each."""

    def __init__(self, features: np.ndarray) -> None:
        self.features = features if features.ndim == 3 else features[:, None]
        self.images, self.regions, self.size = self.features.shape

    def of_images(self, images: Sequence[int] | np.ndarray) -> np.ndarray:
        """Read all regions of k images: (k, L, F) in the features' own type."""
        return self.features[np.asarray(images)]


def scan_values(file: FeatureFile, rows: tuple[int, int]) -> tuple[np.ndarray, list[Fault]]:
    """Read every value of rows[0]…rows[1] once, in pieces, and report NaN, Inf, values above 1e15 and all-zero rows.
    Works on bits: without the sign bit, a float's bits form an integer that grows with its magnitude. 0 is zero, and no
    finite number reaches the integer of Inf, so one integer maximum per region answers all questions. Returns (z, 2)
    int64 pairs (row of the file, region) that are all zero, and the faults."""
    step = max(1, SCAN_BYTES // file.row_bytes)
    reader = FeatureRows(file.map())
    with ThreadPoolExecutor(SCAN_THREADS) as pool:
        first, end = rows
        pieces = [range(start, min(start + step, end)) for start in range(first, end, step)]
        of_pieces = list(pool.map(lambda piece: _scan_piece(reader, piece), pieces))
    bad = np.concatenate([piece[0] for piece in of_pieces])
    large = np.concatenate([piece[1] for piece in of_pieces])
    zero = np.concatenate([piece[2] for piece in of_pieces])
    return zero, _value_faults(file, bad, large, zero)


def _scan_piece(reader: FeatureRows, rows: range) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (·, 2) pairs (image, region) of these rows that are not finite, that are too large, and that are zero."""
    values = reader.of_images(rows)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    bits = values.view(f"u{values.itemsize}")
    infinity = np.array(np.inf, dtype=values.dtype).view(bits.dtype)
    without_sign = np.array(np.iinfo(bits.dtype).max >> 1, dtype=bits.dtype)
    largest = (bits & without_sign).max(axis=-1)  # (images, regions)
    bound = np.array(min(LARGEST, float(np.finfo(values.dtype).max)), dtype=values.dtype).view(bits.dtype)
    masks = largest >= infinity, (largest > bound) & (largest < infinity), largest == 0
    bad, large, zero = (np.argwhere(mask) + np.array([rows.start, 0]) for mask in masks)
    return bad, large, zero


def _value_faults(file: FeatureFile, bad: np.ndarray, large: np.ndarray, zero: np.ndarray) -> list[Fault]:
    """Report (·, 2) pairs (image, region). A zero region is a warning; an image of zero regions only is an error."""
    faults = []
    again = "extract these images' features again"

    def report(problem: str, expected: str = "", fix: str = "", severity: Severity = "error") -> None:
        faults.append(Fault(str(file.path), problem, expected, fix, severity))

    def regions(pairs: np.ndarray) -> str:
        return f"in {len(pairs):,} regions of {len(np.unique(pairs[:, 0])):,} images; {_first(pairs)}"

    if len(bad):
        report(f"NaN or Inf {regions(bad)}", "finite numbers", again)
    if len(large):
        problem = f"numbers that are too large for training {regions(large)}"
        report(problem, f"at most {LARGEST:.0e}", f"{again}, or scale them")
    images, counts = np.unique(zero[:, 0], return_counts=True)
    blank = images[counts == (file.shape[1] if len(file.shape) == 3 else 1)]
    problem = "images are zero in every feature"
    fix = "extract them again, or remove them"
    expected = "a feature vector per image"
    faults += count_cases(file.path, problem, blank.tolist(), expected, fix, "error", FROM_ZERO)
    single = zero[~np.isin(zero[:, 0], blank)]
    if len(single):
        problem = f"{len(single):,} regions are all zero and are masked in training; {_first(single)}"
        report(problem, severity="warning")
    return faults


def _first(pairs: np.ndarray) -> str:
    named = ", ".join(f"({image}, {region})" for image, region in pairs[:FIRST_NAMED].tolist())
    return f"the first (image, region), counted from 0: {named}"


def copied_rows(file: FeatureFile, rows: np.ndarray, faults: list[Fault]) -> FeatureFile:
    """Copy scattered rows of a features file into the cache, so that they can be memory-mapped. An earlier copy is
    reused: copies are renamed into place, so an existing one is complete. InputError: the cache's disk has too little
    room or cannot be written."""
    state = file.path.stat()
    shape = (len(rows), *file.shape[1:])
    identity = (str(file.path.resolve()), state.st_size, state.st_mtime_ns, file.shape, file.dtype.str)
    key = hashlib.sha256(repr(identity).encode() + rows.astype("<i8").tobytes()).hexdigest()[:32]
    target = cache_folder() / "splits" / f"{key}.npy"
    needed = len(rows) * file.row_bytes
    try:
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(target.parent).free
            if free < needed:
                raise OSError(f"{needed:,} bytes needed, {free:,} free")
            with replacing(target) as temporary, temporary.open("wb") as copy:
                header = {"shape": shape, "fortran_order": False, "descr": file.dtype.str}
                npy.write_array_header_1_0(copy, header)
                source = FeatureRows(file.map())
                for start in range(0, len(rows), PIECE_IMAGES):
                    copy.write(source.of_images(rows[start : start + PIECE_IMAGES]).tobytes())
    except OSError as error:
        fix = "set CODER_CACHE to a folder with enough space, or save one {split}_ims.npy per split"
        problem = f"the split's rows are not contiguous and cannot be copied to {target.parent}: {error}"
        raise InputError.at(file.path, problem, "space for the copy", fix) from None

    text = f"the split's rows are not contiguous; they are read from a copy of {needed:,} bytes, {target}"
    faults.append(Fault(str(file.path), text, fix="remove it when it is no longer needed", severity="note"))
    return FeatureFile(target, shape, file.dtype, fortran=False, offset=target.stat().st_size - needed)
