"""A run folder, new or stored with the tests, becomes its model again, or the damaged file is named."""

import shutil

import numpy as np
import pytest
import torch

from coder_core.api import list_runs, open_run
from coder_core.data.dataset import read_split
from coder_core.evaluate import main
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.derived.compute import clusters_folder, layout_folder, read_clusters, read_layout
from coder_core.runs.load import load_model, load_weights
from coder_core.runs.record import history_faults
from coder_core.runs.saves import SaveStore
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import FINISHED_RUNS, flip

DATA = FINISHED_RUNS / "data"
RUNS = ["whole", "weighted"]


def test_before_the_first_evaluation_the_newest_intact_state_is_loaded(stored):
    run = stored / "weighted"
    shutil.rmtree(run / "best")
    (last,) = SaveStore(run / "state", keep=2).names()
    assert load_model(run).save == last
    shutil.copytree(run / "state" / last, run / "state" / "5")
    path = run / "state" / last / "model.safetensors"
    flip(path)
    loaded = load_model(run)
    assert loaded.save == "5"
    assert [fault.place for fault in loaded.faults] == [str(path)]
    shutil.rmtree(run / "state")
    assert_refused("has no saved weights yet", load_model, run)


def test_weights_of_another_model_are_refused_by_name_and_shape():
    weights = {"weight": torch.zeros(3, 4), "scale": torch.ones(1)}
    error = refusal(load_weights, torch.nn.Linear(2, 3), weights, "x.safetensors")
    assert str(error).splitlines() == [
        "x.safetensors: lacks bias",
        "x.safetensors: has scale, which the model does not have",
        "x.safetensors: weight has shape (3, 4); expected (3, 2)",
    ]


@pytest.mark.parametrize("name", RUNS)
def test_a_stored_run_is_listed_opened_and_evaluated_again(stored, name):
    listed = {run.name: run for run in list_runs(stored)}
    assert sorted(listed) == sorted(RUNS)
    assert (listed[name].state, listed[name].fault, listed[name].splits) == ("finished", "", ("dev",))
    assert history_faults(stored / name / "history.jsonl") == []
    run = open_run(stored / name)
    assert run.metrics["dev"]["rsum"] > 300
    assert list(run.history["step"])[:2] == [5, 10]
    assert {len(embeddings) for embeddings in run.embeddings("dev")} == {8, 40}
    assert (run.encode_text(["a red ring"]).shape[0], len(run.diversity("dev"))) == (1, 40)
    assert (run.concepts("dev") is not None) == (name == "whole")
    # evaluating again writes the same analysis
    before = open_analysis(stored / name, "dev", verify=True)
    assert main([str(stored / name), "--split", "dev", "--data", str(DATA)]) == 0
    after = open_analysis(stored / name, "dev", verify=True)
    seen = [(a.manifest["version"], a.fingerprint, sorted(a.arrays)) for a in (before, after)]
    assert seen[0] == seen[1]
    for array in before.arrays:
        new = after.array(array)
        old = before.array(array)
        tolerance = 1e-3 if "attention" in array else 2e-5
        assert new.dtype == old.dtype
        np.testing.assert_allclose(new, old, atol=tolerance)

    loaded = load_model(stored / name)
    assert (loaded.faults, loaded.feature_size) == ([], read_split(DATA, "dev").feature_size)
    np.testing.assert_allclose(loaded.encode_text(after.captions), after.text_embeddings, atol=1e-6)


def test_stored_layouts_and_clusters_are_found(whole):
    analysis = open_analysis(whole, "dev")
    layout = read_layout(layout_folder(whole, "dev", LayoutSettings("pca"), analysis))
    clusters = read_clusters(clusters_folder(whole, "dev", ClusterSettings(4), analysis))
    assert layout.plane.shape == (48, 2)
    assert clusters.centroids.shape == (4, 16)
