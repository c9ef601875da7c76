"""Stored run folders of this format open, show their tables, encode and can be evaluated again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import list_runs, open_run
from coder_core.evaluate import main
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.derived.compute import clusters_folder, layout_folder, read_clusters, read_layout
from coder_core.runs.history import history_faults

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "finished_runs"
RUNS = ["whole", "weighted"]
pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of the runs: one with concepts, bank and prototypes, one with the weights of neighbourhoods."""
    return Path(shutil.copytree(FIXTURE / "checkpoints", tmp_path / "checkpoints"))


def test_they_are_listed_and_finished(stored: Path) -> None:
    listed = {run.name: run for run in list_runs(stored)}
    assert sorted(listed) == sorted(RUNS)
    for run in listed.values():
        assert (run.state, run.fault, run.splits) == ("finished", "", ("dev",))
        assert history_faults(run.path / "history.jsonl") == []


@pytest.mark.parametrize("name", RUNS)
def test_one_opens_and_encodes(stored: Path, name: str) -> None:
    run = open_run(stored / name)
    assert run.metrics("dev")["rsum"] > 300
    assert list(run.history["step"])[:2] == [5, 10]
    assert {len(embeddings) for embeddings in run.embeddings("dev")} == {8, 40}
    assert run.encode_text(["a red ring"]).shape[0] == 1
    assert len(run.diversity("dev")) == 40
    assert (run.concepts("dev") is not None) == (name == "whole")


@pytest.mark.parametrize("name", RUNS)
def test_evaluating_again_writes_the_same_analysis(stored: Path, name: str) -> None:
    before = open_analysis(stored / name, "dev", verify=True)
    assert main([str(stored / name), "--split", "dev", "--data", str(FIXTURE / "data")]) == 0
    after = open_analysis(stored / name, "dev", verify=True)
    assert after.manifest["version"] == before.manifest["version"]
    assert after.fingerprint == before.fingerprint
    assert sorted(after.arrays) == sorted(before.arrays)
    for array in before.arrays:
        assert after.array(array).dtype == before.array(array).dtype
        np.testing.assert_allclose(
            after.array(array), before.array(array), atol=1e-3 if "attention" in array else 2e-5
        )


def test_what_was_derived_is_found(stored: Path) -> None:
    run = stored / "whole"
    analysis = open_analysis(run, "dev")
    layout = read_layout(layout_folder(run, "dev", LayoutSettings("pca"), analysis))
    clusters = read_clusters(clusters_folder(run, "dev", ClusterSettings(4), analysis))
    assert layout is not None
    assert layout.plane.shape == (48, 2)
    assert clusters is not None
    assert clusters.centroids.shape == (4, 16)
