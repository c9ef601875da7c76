"""coder-lab export: other programs read back the data and rankings of the run."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.api import open_run
from coder_core.embedding.exports import vectors
from coder_core.embedding.exports.vectors import read_vectors
from coder_core.export import main as export
from coder_core.runs.analysis.read import open_analysis
from tests.api.test_scored_run import written
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import CONCEPTS, import_run_folder, write_run


@pytest.fixture(scope="module", params=[write_run, import_run_folder, partial(write_run, concepts=CONCEPTS)])
def folder(request, tmp_path_factory):
    """A run that was trained, imported, or trained with two branches."""
    return request.param(tmp_path_factory.mktemp("runs"), "exported")


def test_a_faiss_index_ranks_as_the_run(folder, tmp_path):
    import faiss

    analysis = open_analysis(folder, "dev")
    (v, w) = open_run(folder).scoring("dev")
    sides = {"images": (w, v, analysis.image_names), "captions": (v, w, analysis.captions)}
    for rows, (queries, candidates, names) in sides.items():
        file = tmp_path / f"{rows}.faiss"
        assert export([str(folder), "--to", "faiss", str(file), "--rows", rows]) == 0
        index = faiss.read_index(str(file))
        assert index.metric_type == faiss.METRIC_INNER_PRODUCT
        np.testing.assert_array_equal(index.reconstruct_n(0, index.ntotal), candidates)
        scores, best = index.search(np.ascontiguousarray(queries), 10)
        np.testing.assert_allclose(scores, np.take_along_axis(queries @ candidates.T, best, 1), atol=1e-6)
        expected = analysis.text_best if rows == "images" else analysis.image_best
        np.testing.assert_array_equal(best[:, : expected.shape[1]], expected)
        document = json.loads((tmp_path / f"{rows}.faiss.json").read_text(encoding="utf-8"))
        assert document["names"] == list(names)
        assert (document["rows"], document["split"], document["run"]) == (rows, "dev", folder.name)
    # A caption's rank is the position of its image among all.
    everything = faiss.read_index(str(tmp_path / "images.faiss")).search(np.ascontiguousarray(w), len(v))[1]
    positions = (everything == analysis.image_of_text[:, None]).argmax(1)
    np.testing.assert_array_equal(positions, analysis.text_ranks)


def test_parquet_contains_ids_captions_names_and_embeddings(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "ROWS", 7)  # several groups of rows
    analysis = open_analysis(folder, "dev")
    (v, w) = open_run(folder).scoring("dev")
    assert export([str(folder), "--to", "parquet", str(tmp_path / "out")]) == 0
    tables = [pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("images", "captions")]
    images, captions = tables
    for table, rows in ((images, v), (captions, w)):
        assert table.schema.field("embedding").type == pa.list_(pa.float32(), v.shape[1])
        embeddings = table["embedding"].combine_chunks().flatten().to_numpy().reshape(rows.shape)
        np.testing.assert_array_equal(embeddings, rows)
        assert table["id"].to_pylist() == list(range(len(rows)))
        assert set(table["split"].to_pylist()) == {"dev"}
        assert table.schema.metadata[b"run"] == folder.name.encode()

    assert images["name"].to_pylist() == analysis.image_names
    assert captions["caption"].to_pylist() == analysis.captions
    assert captions["image_id"].to_pylist() == analysis.image_of_text.tolist()
    assert captions["name"].to_pylist() == [analysis.image_names[image] for image in analysis.image_of_text]
    pictures = analysis.picture_folder
    expected = [str(Path(pictures) / name) if pictures else "" for name in analysis.image_names]
    assert images["file"].to_pylist() == expected


def test_exports_overwrite_nothing_and_refuse_runs_that_score_pair_by_pair(tmp_path, complaint):
    missing = str(tmp_path / "no-run")
    (tmp_path / "c").mkdir()
    for file in ("a.faiss.json", "b", "c/d"):
        (tmp_path / file).write_text("mine")
    for kind, path, message in (
        ("faiss", "a.faiss", "a.faiss.json: exists"),
        ("faiss", "b", "b: exists"),
        ("faiss", "e/f", f"folder {tmp_path / 'e'}"),
        ("faiss", "c", "is a folder"),
        ("parquet", "c", "c: exists"),
        ("parquet", "b", "is a file"),
        ("faiss", "new.faiss", "no-run"),
    ):
        assert message in complaint(export, [missing, "--to", kind, str(tmp_path / path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.faiss.json", "b", "c"]
    folder = written(tmp_path, "scored", scored=True).path
    assert_refused("pair by pair", read_vectors, folder, "dev")
    assert export([str(folder), "--to", "parquet", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()
