"""Prototypes in the analysis folder: the labels training would give, and what the classifier names."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split
from coder_core.model.encode import SplitEmbeddings
from coder_core.ops import normalise
from coder_core.runs.analysis.clusters import cluster_tables, read_prototypes
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model
from coder_core.training.launch import start_run
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

NAMES = {
    "cluster_pair_labels",
    "cluster_pair_cosines",
    "cluster_text_labels",
    "cluster_image_labels",
    "cluster_centroids",
    "cluster_members",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_tiny_data(tmp_path_factory.mktemp("data"))
    config = tiny_config(data, epochs=2)
    config = replace(config, memory=replace(config.memory, prototypes=5))
    return start_run(config, tmp_path_factory.mktemp("runs"), quiet())


def test_by_hand() -> None:
    """Caption 0 and image 0 lie between the axes, nearer to the first; the classifier has the axes the other way round.
    Caption 1 is the second axis, and so is its image."""
    images = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    texts = np.array([[0.8, 0.6], [0.0, 1.0]], np.float32)
    prototypes = {
        "centroids": torch.eye(2),
        "members": torch.tensor([7, 3]),
        "classifier": torch.eye(2).flip(0),
    }
    found = cluster_tables(SplitEmbeddings(images, texts), np.array([0, 1]), prototypes)
    assert set(found) == NAMES
    assert found["cluster_pair_labels"].tolist() == [0, 1]
    assert found["cluster_pair_cosines"].tolist() == pytest.approx([1.8 / (1.8**2 + 0.6**2) ** 0.5, 1.0])
    assert found["cluster_image_labels"].tolist() == [1, 0]
    assert found["cluster_text_labels"].tolist() == [1, 0]
    assert found["cluster_members"].tolist() == [7, 3]


def test_the_concept_branch_is_what_is_classified() -> None:
    axis, other = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    prototypes = {"centroids": torch.eye(2), "members": torch.ones(2).long(), "classifier": torch.eye(2)}
    found = cluster_tables(SplitEmbeddings(axis, axis, other, other), np.array([0]), prototypes)
    assert found["cluster_pair_labels"].tolist() == [0]
    assert found["cluster_image_labels"].tolist() == found["cluster_text_labels"].tolist() == [1]


def test_a_finished_run_has_them_and_they_are_those_of_its_best_save(run: Path) -> None:
    analysis = open_analysis(run, "dev")
    assert set(analysis.arrays) >= NAMES
    loaded = load_model(run)
    prototypes = read_prototypes(run, loaded.fingerprint)
    assert prototypes is not None
    pairs = normalise(
        torch.from_numpy(analysis.image_embeddings[analysis.image_of_text] + analysis.text_embeddings)
    )
    assert (
        analysis.array("cluster_pair_labels").tolist()
        == (pairs @ prototypes["centroids"].T).argmax(1).tolist()
    )
    texts = torch.from_numpy(analysis.text_embeddings.copy())
    assert (
        analysis.array("cluster_text_labels").tolist()
        == (texts @ prototypes["classifier"].T).argmax(1).tolist()
    )


def test_before_the_first_best_model_the_state_serves(run: Path, tmp_path: Path) -> None:
    early = tmp_path / "early"
    shutil.copytree(run, early)
    shutil.rmtree(early / "best")
    loaded = load_model(early)
    split = read_split(loaded.config.data.data, "dev")
    evaluate_split(early, loaded, split, "dev")
    assert set(open_analysis(early, "dev").arrays) >= NAMES


def test_another_save_meanwhile_is_an_error_and_not_another_models_labels(run: Path) -> None:
    with pytest.raises(InputError, match="has saved a better model"):
        read_prototypes(run, "0" * 12)


def test_a_run_without_prototypes_has_none(tmp_path: Path) -> None:
    plain = start_run(tiny_config(write_tiny_data(tmp_path / "data"), epochs=1), tmp_path, quiet())
    assert read_prototypes(plain, load_model(plain).fingerprint) is None
    assert not any(name.startswith("cluster_") for name in open_analysis(plain, "dev").arrays)
