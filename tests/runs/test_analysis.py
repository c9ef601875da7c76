"""The analysis folder: written once, opened memory-mapped, nothing hostile believed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import list_splits
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.files.sealed import render_manifest
from tests.runs.conftest import fill_analysis


def test_what_was_written_is_read(run: Path) -> None:
    analysis = open_analysis(run, "test", verify=True)
    assert analysis.image_embeddings.shape == (3, 4)
    assert analysis.image_embeddings.dtype == np.float32
    assert isinstance(analysis.text_embeddings, np.memmap)
    assert analysis.image_of_text.tolist() == [0, 0, 1, 2, 2]
    assert analysis.captions == ["a ring", "a red ring", "äöü\u2028x", "", "stars"]
    assert analysis.image_names == ["0.png", "1.png", "2.png"]
    assert analysis.picture_folder == ""
    assert analysis.metrics == {"rsum": 321.5}
    assert (analysis.kind, analysis.split, analysis.fingerprint) == ("coder", "test", "abc")
    assert analysis.image_best.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        analysis.image_embeddings[0, 0] = 1


def test_reading_needs_no_torch(run: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from coder_core.runs.analysis.read import open_analysis;"
        "from coder_core.runs.files import history, lock, status;"
        f"open_analysis(Path({str(run)!r}), 'test').captions; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_open_analysis_outlives_its_replacement(run: Path) -> None:
    """The app holds the old arrays while evaluation writes new ones."""
    old = open_analysis(run, "test")
    before = np.array(old.image_embeddings)
    fill_analysis(run, value=1.0)
    assert np.array_equal(old.image_embeddings, before)
    assert np.allclose(open_analysis(run, "test", verify=True).image_embeddings, before + 1)
    assert [path.name for path in (run / "analysis").iterdir()] == ["test"]


def test_splits_are_listed(run: Path) -> None:
    (run / "analysis" / "half").mkdir()
    (run / "analysis" / ".tmp-x").mkdir()
    assert list_splits(run) == ["test"]
    assert list_splits(run / "nowhere") == []


@pytest.mark.parametrize("split", ["../test", "", "Test", "a/b", ".tmp-1", "-x\n", "te st", "/etc"])
def test_names_that_lead_elsewhere_are_refused(run: Path, split: str) -> None:
    with pytest.raises(InputError, match="is not a split's name"):
        open_analysis(run, split)


def test_a_missing_split_says_how_to_get_it(run: Path) -> None:
    with pytest.raises(InputError, match=r"coder_core\.evaluate"):
        open_analysis(run, "dev")


def test_arrays_are_what_the_manifest_says(run: Path) -> None:
    folder = run / "analysis" / "test"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"]["image_ranks"]["shape"] = [3, 1]
    (folder / "manifest.json").write_bytes(render_manifest(manifest))
    with pytest.raises(InputError, match=r"image_ranks.npy.*expected <i8 \(3, 1\)"):
        open_analysis(run, "test")


def test_a_pickle_in_place_of_an_array_is_not_opened(run: Path) -> None:
    folder = run / "analysis" / "test"
    np.save(folder / "image_ranks.npy", np.array([print, 1, 2], dtype=object), allow_pickle=True)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["image_ranks.npy"]["bytes"] = (folder / "image_ranks.npy").stat().st_size
    (folder / "manifest.json").write_bytes(render_manifest(manifest))
    with pytest.raises(InputError, match=r"image_ranks\.npy"):
        open_analysis(run, "test")


@pytest.mark.parametrize("name", ["../outside", "a b", "Ä"])
def test_a_manifest_cannot_lead_outside(run: Path, name: str) -> None:
    folder = run / "analysis" / "test"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"][name] = {"shape": [1], "dtype": "<i8"}
    (folder / "manifest.json").write_bytes(render_manifest(manifest))
    with pytest.raises(InputError, match="names the table"):
        open_analysis(run, "test")


def test_a_manifest_cannot_list_files_outside(run: Path) -> None:
    folder = run / "analysis" / "test"
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../../config.toml"] = {"bytes": 9, "sha256": "0" * 64}
    (folder / "manifest.json").write_bytes(render_manifest(manifest))
    with pytest.raises(InputError, match=r"manifest\.json"):
        open_analysis(run, "test")


def test_extra_tables_and_shapes_that_do_not_fit(run: Path) -> None:
    analysis = open_analysis(run, "test")
    same = {
        "image_embeddings": analysis.image_embeddings,
        "text_embeddings": analysis.text_embeddings,
        "captions": analysis.captions,
        "image_names": analysis.image_names,
        "metrics": {},
        "fingerprint": "",
        "image_ranks": analysis.image_ranks,
        "text_ranks": analysis.text_ranks,
        "image_best": analysis.image_best,
        "text_best": analysis.text_best,
    }
    owner = analysis.image_of_text
    extra = np.arange(4, dtype=np.uint8)
    write_analysis(run, "dev", **same, image_of_text=owner, clusters=extra, documents={"k": [1]})
    written = open_analysis(run, "dev")
    assert written.array("clusters").tolist() == [0, 1, 2, 3]
    assert written.document("k") == [1]
    with pytest.raises(InputError, match=r"holds no concepts.npy"):
        written.array("concepts")
    with pytest.raises(ValueError, match=r"image_of_text.npy: has shape"):
        write_analysis(run, "dev", **same, image_of_text=owner[:2])
    with pytest.raises(ValueError, match="only numbers"):
        write_analysis(run, "dev", **same, image_of_text=owner, names=np.array(["a"]))
