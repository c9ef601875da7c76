"""Headers of `.npy` files, read and compared with the file's size before anything is allocated."""

import math
import warnings
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from coder_core.console.documents import shown
from coder_core.console.faults import InputError

BAD_SYNTAX = (ValueError, TypeError, SyntaxError, TokenError, LookupError)
HEADER_ERRORS = (*BAD_SYNTAX, EOFError, RecursionError, MemoryError, OverflowError)


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the shape, True for Fortran order, and the dtype of an open `.npy` file; raises any of `HEADER_ERRORS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers written by Python 2 are legal
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return read(file)


def check_header(path: Path, place: Path) -> None:
    """Check that a `.npy` file holds as many plain numbers as its header promises; `place` is its path in messages.
    InputError: it does not, its header cannot be read, or it is a pickle or an archive."""
    try:
        with path.open("rb") as file:
            shape, _, dtype = read_header(file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
        size = path.stat().st_size
    except (*HEADER_ERRORS, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError.at(place, f"cannot be read ({reason})", "an array in a .npy file") from None
    if dtype.hasobject:
        raise InputError.at(place, "cannot be read (objects are never unpickled)")
    if size != expected:
        problem = f"has {size:,} bytes, but its header declares {dtype!s:.80} {shown(shape)}"
        raise InputError.at(place, problem, "a file as long as its header declares", "write the array again")
