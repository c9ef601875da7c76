"""Read matrices of floats from common formats of embeddings: .npz, safetensors, faiss indexes, Parquet and Lance."""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.files.sealed import read_header

WRITE_AGAIN = "write it again; only numbers are read, never Python objects"
BLOCK = 16_384  # rows in memory beside the matrix while it is read
PIECE_BYTES = 2**20  # of a Parquet column read at a time
# part of a faiss class's name → how it compresses vectors
LOSSY = {
    "PQ": "product quantization",
    "ScalarQuantizer": "scalar quantization",
    "SQ": "scalar quantization",
    "Quantizer": "quantization",
    "PreTransform": "a linear map such as PCA",
    "RaBitQ": "binary quantization",
    "LSH": "hashing",
    "Lattice": "quantization",
}
Blocks = Iterator[tuple[int, np.ndarray]]  # (number of all rows, the next rows)


@dataclass(frozen=True)
class MatrixFile:
    """A matrix in memory with the interface of `FeatureFile`; `array` is (rows, width) float32."""

    path: Path
    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and width."""
        return self.array.shape

    def map(self) -> np.ndarray:
        """Return the array."""
        return self.array


def read_matrix(source: str | Path) -> MatrixFile:
    """Read a file other than a .npy, as its ending indicates, block by block into one array; FILE:NAME names one of
    several arrays. InputError: another ending, damage, or an array that is missing or not a matrix of floats."""
    text, _, name = str(source).rpartition(":") if _has_name(str(source)) else (str(source), "", "")
    path = Path(text)
    if not path.exists():
        raise InputError.at(path, "there is no such file")
    try:
        return MatrixFile(Path(source), join_blocks(READERS[path.suffix.lower()](path, name)))
    except InputError:
        raise
    except Exception as error:  # every library raises its own
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError.at(path, f"cannot be read: {first}", "(rows, width) floats", WRITE_AGAIN) from None


def join_blocks(blocks: Blocks) -> np.ndarray:
    """Join blocks to (rows, width) float32. ValueError: not floats, rows of several widths, or no or too few rows."""
    array = np.empty((0, 0), np.float32)
    end = 0
    for rows, block in blocks:
        if block.ndim != 2 or block.dtype.kind != "f":
            raise ValueError(f"contains {block.dtype} {(rows, *block.shape[1:])}")
        if not end:
            array = np.empty((rows, block.shape[1]), np.float32)
        start = end
        end = end + len(block)
        if block.shape[1] != array.shape[1] or end > rows:
            raise ValueError(f"vectors of {array.shape[1]} and, from row {start}, {block.shape[1]} numbers")
        with np.errstate(over="ignore"):  # `unit_array` refuses infinite values later
            array[start:end] = block

    if not end or end < len(array):
        raise ValueError(
            f"contains only {end:,} of {len(array):,} rows" if len(array) else "contains no rows"
        )

    return array


def is_matrix(source: str | Path) -> bool:
    """True if `read_matrix` reads this kind of file."""
    text = str(source)
    return Path(text.rpartition(":")[0] if _has_name(text) else text).suffix.lower() in READERS


def column_blocks(content: Any, name: str) -> Blocks:
    """Read a column of lists of a `pyarrow.parquet.ParquetFile`, without a Python object for every number. Open the
    file with PIECE_BYTES and without `pre_buffer`; otherwise the column of a whole row group is in memory. ValueError:
    a row without a vector, or rows of several widths."""
    for batch in content.iter_batches(BLOCK, columns=[name]):
        yield content.metadata.num_rows, _vectors_of(batch.column(0))


def _vectors_of(column: Any) -> np.ndarray:
    """Convert an Arrow array of lists to (rows, width)."""
    if column.null_count:
        raise ValueError("a row of the column has no vector")
    values = column.flatten().to_numpy(zero_copy_only=False)
    widths = np.unique(np.diff(column.offsets.to_numpy())) if hasattr(column, "offsets") else np.ones(1)
    if len(widths) > 1 or len(values) % len(column):
        raise ValueError(f"the column contains vectors of {widths[0]} to {widths[-1]} numbers")
    return np.asarray(values.reshape(len(column), -1))


def _has_name(text: str) -> bool:
    """True for FILE:NAME."""
    return ":" in text and not Path(text).exists() and Path(text.rpartition(":")[0]).suffix.lower() in READERS


def _one_of(path: Path, name: str, names: Iterable[str]) -> str:
    offered = list(names)
    if name in offered:
        return name
    if not name and len(offered) == 1:
        return offered[0]
    if not offered:
        raise ValueError("contains no arrays")
    problem = f"has no array {name!r}; it has" if name else f"has {len(offered)} arrays:"
    listed = ", ".join(offered[:12])
    fix = f"name it: {path.name}:{offered[0]}"
    raise InputError.at(path, f"{problem} {listed}", "one of them", fix)


def _read_npz(path: Path, name: str) -> Blocks:
    if not zipfile.is_zipfile(path):
        raise ValueError("not a zip archive, which .npz files are")
    with np.load(path, allow_pickle=False) as content:
        member = _one_of(path, name, content.files)
        with content.zip.open(f"{member}.npy") as file:
            (rows, *sizes), fortran, dtype = read_header(file)
            if fortran or len(sizes) != 1 or dtype.hasobject:
                yield rows, content[member]
                return
            for start in range(0, rows, BLOCK):
                count = min(BLOCK, rows - start)
                data = file.read(count * sizes[0] * dtype.itemsize)
                yield rows, np.frombuffer(data, dtype).reshape(count, sizes[0])


def _read_safetensors(path: Path, name: str) -> Blocks:
    from safetensors import safe_open

    start = 0
    rows = 1
    while start < rows:
        with safe_open(path, framework="pt") as content:  # reopened: every mapped page counts as memory
            part = content.get_slice(_one_of(path, name, content.keys()))
            rows = part.get_shape()[0]
            block = part[start : start + BLOCK]
            yield rows, (block.float() if str(block.dtype) == "torch.bfloat16" else block).numpy()
        start += BLOCK


def _read_faiss(path: Path, name: str) -> Blocks:
    import faiss

    index = _open_index(path)
    for start in range(0, index.ntotal, BLOCK):
        yield index.ntotal, index.reconstruct_n(start, min(BLOCK, index.ntotal - start))
        if isinstance(index, faiss.IndexFlat):
            index = _open_index(path)  # as above


def _open_index(path: Path) -> Any:
    """Open an index whose row numbers are those of its vectors. ValueError: it has ids of its own."""
    import faiss

    index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if hasattr(index, "id_map"):
        if not np.array_equal(faiss.vector_to_array(index.id_map), np.arange(index.ntotal)):
            raise ValueError("the index has ids of its own: write one whose ids are the row numbers")
        outer = index
        index = faiss.downcast_index(index.index)
        index.referenced_objects = [outer]  # which owns it
    _check_exact(index)
    if hasattr(index, "make_direct_map"):
        _check_rows_of_lists(index)
        index.make_direct_map()
    if index.ntotal:
        index.reconstruct(0)  # raises if the index lacks its vectors, where reconstruct_n kills the process
    return index


def _check_exact(index: Any) -> None:
    """Raise ValueError for an index that keeps its vectors only approximately."""
    kind = type(index).__name__
    name = next((reason for part, reason in LOSSY.items() if part in kind), "")
    if name:
        raise ValueError(
            f"the index ({kind}) keeps its vectors only approximately ({name}); write a flat one"
        )


def _check_rows_of_lists(index: Any) -> None:
    """Raise ValueError if the ids in the lists of an IVF index are not the row numbers, each once."""
    import faiss

    lists = index.invlists
    sizes = [lists.list_size(number) for number in range(index.nlist)]
    parts = [faiss.rev_swig_ptr(lists.get_ids(n), size).copy() for n, size in enumerate(sizes) if size]
    ids = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    if not np.array_equal(ids, np.arange(index.ntotal)):
        raise ValueError(
            "the lists of the index repeat ids or lack some: write one whose ids are the row numbers"
        )


def _read_parquet(path: Path, name: str) -> Blocks:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=PIECE_BYTES, pre_buffer=False) as content:
        yield from column_blocks(content, _one_of(path, name, list_columns(content.schema_arrow)))


def _read_lance(path: Path, name: str) -> Blocks:
    try:
        import lance
    except ImportError:
        problem = "is a Lance folder, and pylance is not installed"
        raise InputError.at(path, problem, fix="pip install pylance") from None
    content = lance.dataset(str(path))
    column = _one_of(path, name, list_columns(content.schema))
    rows = content.count_rows()
    for batch in content.to_batches(columns=[column], batch_size=BLOCK):
        yield rows, _vectors_of(batch.column(0))


def list_columns(schema: Any) -> list[str]:
    """Return the names of an Arrow schema's columns of lists."""
    return [field.name for field in schema if "list" in str(field.type)]


READERS: Mapping[str, Callable[[Path, str], Blocks]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".faiss": _read_faiss,
    ".index": _read_faiss,
    ".parquet": _read_parquet,
    ".lance": _read_lance,
}
