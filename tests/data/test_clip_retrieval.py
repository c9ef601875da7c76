"""coder-lab embed import FOLDER: what clip-retrieval's inference wrote."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.api import open_run
from coder_core.embed import main
from coder_core.runs.analysis.read import open_analysis
from tests.support.picture_folders import NAMES, write_pictures
from tests.support.run_folders import ranks_of, recalls, synthetic


def run_import(folder, change=("none", None)):
    """Import twelve pictures with two captions each in two parts, float16, absolute paths; one file is changed."""
    pictures = write_pictures(folder.parent / "pictures" / "a")
    v, w, owner = synthetic(12, noise=1.0)
    texts = np.flatnonzero(np.arange(len(owner)) % 5 < 2)
    files = {}
    for part, rows in enumerate(np.array_split(texts, 2)):
        files[f"img_emb/img_emb_{part}.npy"] = v[owner[rows]].astype(np.float16)
        files[f"text_emb/text_emb_{part}.npy"] = w[rows].astype(np.float16)
        paths = [str(pictures / NAMES[i]) for i in owner[rows]]
        captions = [f"caption {row}" for row in rows]
        files[f"metadata/metadata_{part}.parquet"] = {"image_path": paths, "caption": captions}
    changed, edit = change
    files |= {name: edit and edit(content) for name, content in files.items() if name.startswith(changed)}
    for name, content in files.items():
        if content is None:
            continue
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            pq.write_table(pa.table(content), file)
        else:
            file.write_bytes(content) if isinstance(content, bytes) else np.save(file, content)
    return main(["import", str(folder), "--name=run", f"--root={folder.parent / 'runs'}"])


def test_clip_retrieval_files_become_a_run_with_one_row_per_image(tmp_path, capsys):
    assert run_import(tmp_path / "made") == 0
    assert "12 images and 24 captions, 32 numbers each" in capsys.readouterr().out
    analysis = open_analysis(tmp_path / "runs" / "run", "dev")
    owner = np.repeat(np.arange(12), 2)
    np.testing.assert_array_equal(analysis.image_of_text, owner)
    v = np.asarray(analysis.image_embeddings, float)
    w = np.asarray(analysis.text_embeddings, float)
    image_ranks, text_ranks, _, _ = ranks_of(v, w, owner)
    assert analysis.metrics["rsum"] == pytest.approx(recalls(image_ranks, text_ranks)["rsum"])
    assert analysis.captions[2] == "caption 5"
    assert analysis.image_names == NAMES
    assert open_run(tmp_path / "runs" / "run").picture("dev", 3)


def turn(rows):
    return np.concatenate([rows[:1], -rows[1:2], rows[2:]])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("img_emb/img_emb_0", turn), "1 rows differ from an earlier one with the same name; the first"),
        (("metadata/metadata_1", lambda t: t | {"caption": [*t["caption"][:11], None]}), "row 11: has "),
        (("text_emb/text_emb_1", lambda rows: rows[:-1]), "has 12 rows for 12 images and 11 captions"),
        ((("img_emb/img_emb_1", "text_emb/text_emb_1"), lambda rows: rows[:, :16]), "img_emb_1.npy: 16"),
        (("metadata/metadata_0", lambda table: b"PAR1"), "metadata_0.parquet: "),
        (("metadata", None), "metadata_0, metadata_1"),
        (("", None), "made: "),
    ],
)
def test_faults_are_named_and_nothing_is_written(change, text, tmp_path, complaint):
    assert text in complaint(run_import, tmp_path / "made", change)
    assert "--image-column: " in complaint(main, ["import", "--image-column=x", str(tmp_path), "--name=run"])
    assert not (tmp_path / "runs").exists()
