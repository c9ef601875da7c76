"""Numbers of clusters in a resealed run are compared with the clusters that it has."""

import shutil

import numpy as np
import pytest

from coder_core.runs.analysis.read import open_analysis
from tests.support.precomp_folders import refusal
from tests.support.run_folders import FINISHED_RUNS, reseal


@pytest.mark.parametrize("label", [-5, 10**9])
def test_pairs_of_clusters_that_do_not_exist_are_an_error_at_their_row(tmp_path, label):
    run = shutil.copytree(FINISHED_RUNS / "checkpoints" / "whole", tmp_path / "run")
    file = run / "analysis" / "dev" / "cluster_pair_labels.npy"
    labels = np.load(file)
    labels[3] = label
    np.save(file, labels)
    reseal(file.parent)
    error = refusal(open_analysis, run, "dev")
    assert error.faults[0].place.endswith("cluster_pair_labels.npy row 3")
