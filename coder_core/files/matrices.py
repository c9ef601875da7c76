"""Matrices of floats in the formats that embeddings are kept in: .npz, safetensors, a faiss index, Parquet and Lance."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError

WRITE_AGAIN = "write it again; only numbers are read, never Python objects"


@dataclass(frozen=True)
class MatrixFile:
    """A matrix in memory, as `FeatureFile` describes one in a .npy file."""

    path: Path
    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and width."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the floats."""
        return self.array.dtype

    def map(self) -> np.ndarray:
        """Return the array."""
        return self.array


def read_matrix(source: str | Path) -> MatrixFile:
    """Read a file that is not a .npy, by its ending; FILE:NAME names one of several arrays. InputError: another ending,
    damage, an array that is missing or no matrix of floats."""
    text, _, name = str(source).rpartition(":") if _has_name(str(source)) else (str(source), "", "")
    path = Path(text)
    reader = READERS[path.suffix.lower()]
    if not path.exists():
        raise InputError.at(path, "there is no such file")
    try:
        array = reader(path, name)
    except InputError:
        raise
    except Exception as error:  # every library has its own
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError.at(path, f"cannot be read: {first}", fix=WRITE_AGAIN) from None
    if array.ndim != 2 or array.dtype.kind != "f" or not len(array):
        fix = "one row an image or caption"
        raise InputError.at(source, f"holds {array.dtype} {array.shape}", "(rows, width) floats", fix)
    return MatrixFile(Path(source), array)


def is_matrix(source: str | Path) -> bool:
    """True if `read_matrix` reads this kind of file."""
    text = str(source)
    return Path(text.rpartition(":")[0] if _has_name(text) else text).suffix.lower() in READERS


def vectors_of(column: Any) -> np.ndarray:
    """(rows, width) floats of an Arrow column of lists, without a Python object for every number."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    parts = []
    for chunk in chunks:
        if chunk.null_count or not len(chunk):
            raise ValueError("a row of the column has no vector")
        values = chunk.flatten().to_numpy(zero_copy_only=False)
        if values.dtype.kind != "f" or len(values) % len(chunk):
            raise ValueError("the column holds no vectors of floats of one width")
        widths = np.unique(np.diff(chunk.offsets.to_numpy())) if hasattr(chunk, "offsets") else np.ones(1)
        if len(widths) > 1:
            raise ValueError(f"the column holds vectors of {widths[0]} to {widths[-1]} numbers")
        parts.append(values.reshape(len(chunk), -1))
    return np.concatenate(parts)


def _has_name(text: str) -> bool:
    """True for FILE:NAME."""
    return ":" in text and not Path(text).exists() and Path(text.rpartition(":")[0]).suffix.lower() in READERS


def _one_of(path: Path, name: str, names: Iterable[str]) -> str:
    offered = list(names)
    if name in offered:
        return name
    if not name and len(offered) == 1:
        return offered[0]
    problem = f"holds no array {name!r}" if name else f"holds {len(offered)} arrays"
    listed = ", ".join(offered[:12])
    raise InputError.at(
        path, f"{problem}: {listed}", "one of them", f"name it: {path.name}:{(offered or ['NAME'])[0]}"
    )


def _read_npz(path: Path, name: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as content:
        return content[_one_of(path, name, content.files)]


def _read_safetensors(path: Path, name: str) -> np.ndarray:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as content:
        rows = content.get_tensor(_one_of(path, name, content.keys()))
    return (rows.float() if str(rows.dtype) == "torch.bfloat16" else rows).numpy()


def _read_faiss(path: Path, name: str) -> np.ndarray:
    import faiss

    index = faiss.read_index(str(path))
    if not hasattr(index, "reconstruct_n"):
        raise ValueError("the index cannot give its vectors back")
    if hasattr(index, "make_direct_map"):
        index.make_direct_map()
    return np.asarray(index.reconstruct_n(0, index.ntotal))


def _read_parquet(path: Path, name: str) -> np.ndarray:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    lists = [field.name for field in schema if "list" in str(field.type)]
    return vectors_of(pq.read_table(path, columns=[_one_of(path, name, lists)]).column(0))


def _read_lance(path: Path, name: str) -> np.ndarray:
    try:
        import lance
    except ImportError:
        raise InputError.at(
            path, "is a Lance folder, and the package is missing", fix="pip install pylance"
        ) from None
    content = lance.dataset(str(path))
    lists = [field.name for field in content.schema if "list" in str(field.type)]
    return vectors_of(content.to_table(columns=[_one_of(path, name, lists)]).column(0))


READERS: Mapping[str, Callable[[Path, str], np.ndarray]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".faiss": _read_faiss,
    ".index": _read_faiss,
    ".parquet": _read_parquet,
    ".lance": _read_lance,
}
