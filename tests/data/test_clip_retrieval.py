"""python -m coder_core.embed import FOLDER: what clip-retrieval's inference wrote."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.api import open_run
from coder_core.embed import main
from coder_core.runs.analysis.read import open_analysis
from tests.support.picture_folders import NAMES, write_pictures
from tests.support.run_folders import ranks_of, recalls, synthetic


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve pictures with two captions each in two parts, float16, absolute paths."""
    pictures = write_pictures(tmp_path / "pictures" / "a")
    v, w, owner = synthetic(12, noise=1.0)
    texts = np.flatnonzero(np.arange(len(owner)) % 5 < 2)
    for part, rows in enumerate(np.array_split(texts, 2)):
        for name, values in (("img_emb", v[owner[rows]]), ("text_emb", w[rows])):
            (tmp_path / "made" / name).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / "made" / name / f"{name}_{part}.npy", values.astype(np.float16))
        table = {
            "image_path": [str(pictures / NAMES[i]) for i in owner[rows]],
            "caption": [f"caption {row}" for row in rows],
        }
        (tmp_path / "made" / "metadata").mkdir(exist_ok=True)
        pq.write_table(pa.table(table), tmp_path / "made" / "metadata" / f"metadata_{part}.parquet")
    return tmp_path / "made"


def run_import(folder: Path, *more: str) -> int:
    return main(["import", str(folder), "--name=run", f"--root={folder.parent / 'runs'}", *more])


def test_it_becomes_a_run_with_one_row_an_image(folder, capsys):
    assert run_import(folder) == 0
    assert "12 images and 24 captions, 32 numbers each" in capsys.readouterr().out
    analysis = open_analysis(folder.parent / "runs" / "run", "dev")
    owner = np.repeat(np.arange(12), 2)
    np.testing.assert_array_equal(analysis.image_of_text, owner)
    v, w = np.asarray(analysis.image_embeddings, float), np.asarray(analysis.text_embeddings, float)
    image_ranks, text_ranks, _, _ = ranks_of(v, w, owner)
    assert analysis.metrics["rsum"] == pytest.approx(recalls(image_ranks, text_ranks)["rsum"])
    assert analysis.captions[2] == "caption 5"
    run = open_run(folder.parent / "runs" / "run")
    assert analysis.image_names == NAMES
    assert run.picture("dev", 3)


def _other_row(folder: Path) -> None:
    rows = np.load(folder / "img_emb" / "img_emb_0.npy")
    rows[1] = -rows[1]
    np.save(folder / "img_emb" / "img_emb_0.npy", rows)


def _no_caption(folder: Path) -> None:
    file = folder / "metadata" / "metadata_1.parquet"
    table = pq.read_table(file).to_pydict()
    table["caption"][3] = None
    pq.write_table(pa.table(table), file)


def _shorter(folder: Path) -> None:
    np.save(folder / "text_emb" / "text_emb_1.npy", np.load(folder / "text_emb" / "text_emb_1.npy")[:-1])


def _damaged_table(folder: Path) -> None:
    (folder / "metadata" / "metadata_0.parquet").write_bytes(b"PAR1")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (_other_row, "1 rows differ from an earlier one of their image_path; the first: 1, "),
        (_no_caption, "metadata_1.parquet row 3: image_path "),
        (_shorter, "12 rows for 12 images and 11 captions"),
        (lambda folder: (folder / "text_emb" / "text_emb_1.npy").unlink(), "text_emb_1"),
        (_damaged_table, "metadata_0.parquet: "),
        (lambda folder: (folder / "metadata").rename(folder / "data"), "metadata_0, metadata_1"),
        (lambda folder: folder.rename(folder.parent / "elsewhere"), "made: "),
    ],
)
def test_faults_are_named_and_nothing_is_written(damage, text, folder, capsys):
    damage(folder)
    assert run_import(folder) == 1
    assert text in capsys.readouterr().err
    assert not (folder.parent / "runs").exists()
