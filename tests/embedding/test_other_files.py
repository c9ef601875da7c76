"""Embeddings in other files than .npy: arrays by name, an index, a table with everything."""

import os
from zipfile import ZipFile

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from coder_core.api import open_run
from coder_core.data.captioned.positions import open_parquet
from coder_core.data.embeddings import read_embeddings
from coder_core.embed import main
from coder_core.embedding import importing
from coder_core.embedding.tables import EmbeddingColumns, read_table
from coder_core.files import matrices
from coder_core.files.matrices import column_blocks, read_matrix
from coder_core.runs.analysis.import_embeddings import import_run
from tests.support.precomp_folders import refusal

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
CAPTIONS = [f"a thing that is number {number}" for number in range(6)]


def vectors(rows):
    return pa.array(list(rows), pa.list_(pa.float32()))


def write_all(folder):
    """Write the same matrix in every format; return the arguments, FILE or FILE:NAME."""
    np.savez(folder / "one.npz", ROWS)
    np.savez(folder / "two.npz", a=ROWS, b=ROWS[:2])
    save_file({"a": torch.from_numpy(ROWS), "b": torch.ones(1)}, folder / "two.safetensors")
    save_file({"a": torch.from_numpy(ROWS).bfloat16()}, folder / "half.safetensors")
    flat = faiss.IndexFlatIP(4)
    flat.add(ROWS)
    faiss.write_index(flat, str(folder / "flat.faiss"))
    inverted = faiss.index_factory(4, "IVF2,Flat", faiss.METRIC_INNER_PRODUCT)
    inverted.train(ROWS)
    inverted.add(ROWS)
    faiss.write_index(inverted, str(folder / "inverted.index"))
    mapped = faiss.IndexIDMap2(faiss.IndexFlatIP(4))
    for numbers, name in ((range(6), "mapped.faiss"), (range(6, 0, -1), "ids.faiss")):
        mapped.reset()
        mapped.add_with_ids(ROWS, np.array(numbers))
        faiss.write_index(mapped, str(folder / name))

    fixed = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 4)
    table = pa.table({"a": vectors(ROWS), "b": fixed, "text": CAPTIONS})
    pq.write_table(table, folder / "t.parquet", row_group_size=4)
    names = ("one.npz", "two.npz:a", "two.safetensors:a", "half.safetensors", "flat.faiss", "inverted.index")
    names += ("mapped.faiss",)
    return [folder / name for name in (*names, "t.parquet:a", "t.parquet:b")]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Read several blocks, the last one smaller."""
    monkeypatch.setattr(matrices, "BLOCK", 4)


def test_a_file_that_changes_while_it_is_imported_is_named(tmp_path, monkeypatch, capsys):
    """Unit rows are used as the file has them, without a copy, until they are written."""
    rows = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    for name in ("i.npy", "t.npy"):
        np.save(tmp_path / name, rows)
    (tmp_path / "c.txt").write_text("\n".join(CAPTIONS))
    arguments = ["import", "--images", str(tmp_path / "i.npy"), "--texts", str(tmp_path / "t.npy")]
    arguments += ["--captions", str(tmp_path / "c.txt"), "--root", str(tmp_path), "--split", "dev"]
    assert main([*arguments, "--name", "steady"]) == 0

    def changed_meanwhile(*given, **options):
        written = import_run(*given, **options)
        np.save(tmp_path / "t.npy", -rows)
        os.utime(tmp_path / "t.npy", ns=(1, 1))
        return written

    monkeypatch.setattr(importing, "import_run", changed_meanwhile)
    capsys.readouterr()
    assert main([*arguments, "--name", "changed"]) == 1
    error = capsys.readouterr().err
    assert "t.npy: changed while it was imported" in error
    assert "i.npy" not in error

    def replaced_meanwhile(*given, **options):
        written = import_run(*given, **options)
        np.save(tmp_path / "new.npy", -rows)
        os.replace(tmp_path / "new.npy", tmp_path / "i.npy")
        (tmp_path / "t.npy").unlink()
        return written

    monkeypatch.setattr(importing, "import_run", replaced_meanwhile)
    assert main([*arguments, "--name", "replaced"]) == 0  # what was mapped stays as it was


def test_every_format_is_read_and_files_without_a_matrix_are_named(tmp_path):
    np.save(tmp_path / "t.npy", ROWS)
    (tmp_path / "c.txt").write_text("\n".join(CAPTIONS))
    for source in write_all(tmp_path):
        near = 2**-8 if "half" in source.name else 0
        assert read_matrix(source).array == pytest.approx(ROWS, rel=near, abs=0)
    read = read_embeddings(tmp_path / "two.npz:a", tmp_path / "t.npy", tmp_path / "c.txt")
    assert np.array_equal(read.images, read.texts)
    (tmp_path / "torn.npz").write_bytes((tmp_path / "one.npz").read_bytes()[:90])
    np.savez(tmp_path / "objects.npz", np.array([{}, {}], dtype=object))
    np.savez(tmp_path / "vector.npz", ROWS[0])
    np.savez(tmp_path / "empty.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    with ZipFile(tmp_path / "one.npz") as whole, ZipFile(tmp_path / "short.npz", "w") as short:
        short.writestr("arr_0.npy", whole.read("arr_0.npy")[:-4])
    bad = "two.npz two.npz:c two.safetensors:b torn.npz objects.npz vector.npz none.npz empty.npz text.npz short.npz"
    for name in (*bad.split(), "ids.faiss", "t.parquet:text"):
        (fault, *_) = refusal(read_matrix, tmp_path / name).faults
        assert fault.place.startswith(str(tmp_path / name.partition(":")[0])), name
        assert "unsafely" not in str(fault), name


@pytest.mark.parametrize("kind", ["PQ2x4", "SQ8", "PCA2,Flat", "IVF2,SQ8", "HNSW4,SQ8", "LSH"])
def test_an_index_that_compresses_vectors_is_refused(tmp_path, kind):
    rows = np.random.default_rng(1).normal(size=(99, 4)).astype(np.float32)
    index = faiss.index_factory(4, kind)
    index.train(rows)
    index.add(rows)
    faiss.write_index(index, str(tmp_path / "lossy.faiss"))
    assert "only approximately" in str(refusal(read_matrix, tmp_path / "lossy.faiss"))


def test_lists_that_repeat_ids_are_refused(tmp_path):
    index = faiss.index_factory(4, "IVF2,Flat")
    index.train(ROWS)
    index.add_with_ids(ROWS, np.array([0, 1, 2, 3, 4, 4]))
    faiss.write_index(index, str(tmp_path / "repeated.faiss"))
    assert "repeat ids" in str(refusal(read_matrix, tmp_path / "repeated.faiss"))


def test_a_column_is_read_piece_by_piece(tmp_path):
    wide = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**21, np.float32)), 2**11)
    pq.write_table(pa.table({"a": wide}), tmp_path / "t.parquet", use_dictionary=False, compression="none")
    content = open_parquet(tmp_path / "t.parquet", [], buffer_size=matrices.PIECE_BYTES)
    for blocks in (matrices.READERS[".parquet"](tmp_path / "t.parquet", ""), column_blocks(content, "a")):
        before = pa.total_allocated_bytes()
        assert next(blocks)[0] == 2**10
        assert pa.total_allocated_bytes() - before < 2**22  # of 2**23


def test_a_lance_folder_is_read(tmp_path):
    lance = pytest.importorskip("lance", exc_type=ImportError)
    lance.write_dataset(pa.table({"a": vectors(ROWS), "text": CAPTIONS}), str(tmp_path / "t.lance"))
    assert read_matrix(tmp_path / "t.lance").array == pytest.approx(ROWS, rel=0, abs=0)


def write_table(folder, **changes):
    files = [folder / f"{number}.png" for number in range(3)]
    for number, file in enumerate(files):
        Image.new("RGB", (8, 8), (80 * number, 0, 0)).save(file)
    columns = {"image_path": [str(files[row // 2]) for row in range(6)], "caption": CAPTIONS}
    columns |= {"img_emb": vectors(ROWS[[0, 0, 1, 1, 2, 2]]), "text_emb": vectors(ROWS)}
    pq.write_table(pa.table(columns | changes), folder / "all.parquet")
    return folder / "all.parquet"


def test_a_single_table_becomes_a_run(tmp_path, capsys):
    file = write_table(tmp_path)
    assert main(["import", "--name", "mine", "--root", str(tmp_path / "runs"), str(file)]) == 0
    run = open_run(tmp_path / "runs" / "mine")
    assert run.image_of_text("dev").tolist() == [0, 0, 1, 1, 2, 2]
    assert run.captions("dev") == CAPTIONS
    assert run.picture("dev", 2) is not None
    units = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    assert run.embeddings("dev")[0] == pytest.approx(units[:3], abs=1e-6)
    assert "columns read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"caption": [*CAPTIONS[:5], " "]}, {}),
        ({"img_emb": vectors([*ROWS[:5], ROWS[5][:2]])}, {}),
        ({"text_emb": vectors(ROWS[:, :3])}, {}),
        ({"other_image_emb": vectors(ROWS)}, {}),
        ({"img_emb": vectors(ROWS)}, {}),  # another vector for the same picture
        ({}, {"text_embeddings": "nothing"}),
        ({}, {"caption_column": "nothing"}),
    ],
)
def test_invalid_tables_are_refused(changes, named, tmp_path):
    file = write_table(tmp_path, **changes)
    assert (
        refusal(lambda: read_table(file, EmbeddingColumns(**named))).faults[0].place.startswith(str(tmp_path))
    )


def test_a_table_names_pictures_that_are_elsewhere(tmp_path):
    names = ["0.png", "1.png", "2.png"]
    x = tmp_path / "x"
    here, there, elsewhere = (
        [f"{folder}/{name}" for name in names] for folder in (tmp_path, x, "/elsewhere")
    )
    for paths, pictures, expected, warnings in (
        (there, None, (names, None), [str(x)]),
        (there, tmp_path, ([f"x/{name}" for name in names], tmp_path), [str(tmp_path)]),
        (elsewhere, tmp_path, (names, tmp_path), []),
        (here, None, (names, tmp_path), []),
        ([*here[:2], f"{x}.png"], None, ([*names[:2], "x.png"], tmp_path), [str(tmp_path)]),
        ([*here[:2], "2.png"], tmp_path, (names, tmp_path), []),
        (names, None, (names, None), []),
    ):
        read = read_table(write_table(tmp_path, image_path=np.repeat(paths, 2).tolist()), pictures=pictures)
        assert (read.image_names, read.picture_folder) == expected
        assert [fault.place for fault in read.faults if fault.severity == "warning"] == warnings


def test_a_table_without_pictures_has_one_image_per_different_row(tmp_path):
    for rows, owners in (({}, [0, 0, 1, 1, 2, 2]), ({"img_emb": vectors(ROWS)}, [0, 1, 2, 3, 4, 5])):
        file = write_table(tmp_path, **rows)
        pq.write_table(pq.read_table(file).drop_columns("image_path"), file)
        read = read_table(file)
        assert read.image_of_text.tolist() == owners
        assert read.image_names is None
