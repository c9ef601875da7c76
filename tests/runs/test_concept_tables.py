"""Concept branch and prototypes in an analysis folder: written, read, refused when they do not fit."""

import json
import shutil

import numpy as np
import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.model.encode import SplitEmbeddings
from coder_core.ops import normalise
from coder_core.runs.analysis import concepts as writing
from coder_core.runs.analysis.clusters import cluster_tables, read_prototypes
from coder_core.runs.analysis.concepts import read_concept_tables
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import TABLES
from coder_core.runs.load import load_model
from tests.runs.conftest import fill_analysis
from tests.support.concept_runs import some_concepts, two_branches, write_concept_run
from tests.support.run_folders import FINISHED_RUNS


def written():
    branches, _ = two_branches(6)
    graph = some_concepts().graph(threshold=0.3, rescaled=True)
    arrays, documents = writing.concept_tables(branches, some_concepts(), graph)
    plain = {"image_embeddings": branches.images, "text_embeddings": branches.texts}
    return plain | arrays, json.loads(json.dumps(documents["concepts"]))


def test_folders_without_the_branch_stay_version_1_and_those_with_it_are_version_2(tmp_path):
    """A reader of version 1 would take the ranks of the mixture for those of the instance branch."""
    assert json.loads((fill_analysis(tmp_path / "plain") / "manifest.json").read_text())["version"] == 1
    assert open_analysis(tmp_path / "plain", "test").concepts is None
    both = open_analysis(write_concept_run(tmp_path, "both"), "dev", verify=True)
    assert (both.manifest["version"], both.manifest["beta"]) == (2, 0.6)
    assert both.concepts.words == ["dog", "grass", "ball", "red", "run"]


def test_large_attention_keeps_the_strongest_of_every_sample(monkeypatch):
    monkeypatch.setattr(writing, "ATTENTION_BYTES", 100)
    monkeypatch.setattr(writing, "STRONGEST", 2)
    arrays, document = written()
    assert arrays["concept_text_strongest"].shape == (30, 2)
    assert "concept_text_attention" not in arrays
    tables = read_concept_tables(arrays, document, 0.9, "here")
    branches, _ = two_branches(6)
    whole = branches.text_attention.astype(np.float32)
    kept = tables.attention("text", slice(None))
    assert ((kept > 0).sum(1) <= 2).all()
    np.testing.assert_array_equal(kept.max(1), whole.max(1))
    np.testing.assert_array_equal(kept[kept > 0], whole[kept > 0])


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_both_branches_in_one_vector_score_as_the_mixture(beta):
    branches, _ = two_branches(6)
    first, second = (branches.images, branches.texts), branches.second
    v, w = (mixed_embeddings(*rows, beta) for rows in zip(first, second, strict=True))
    expected = beta * first[0] @ first[1].T + (1 - beta) * second[0] @ second[1].T
    np.testing.assert_allclose(v @ w.T, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1, atol=1e-6)


def shorten(name, rows):
    return lambda a, d: a.update({f"concept_{name}": a[f"concept_{name}"][:rows]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, d: a.pop("concept_graph"), "concept_graph.npy: is missing"),
        (shorten("together", 3), r"_together.npy: has shape \(3, 5\)"),
        (shorten("text_embeddings", 4), "text_embeddings"),
        (shorten("image_attention", 4), r"expected \(6, 5\)"),
        (lambda a, d: a.pop("concept_text_attention"), "concept_text_strongest.npy: is missing"),
        (lambda a, d: d["words"].pop(), "key words: does not name 5 concepts"),
        (lambda a, d: d.update(counts=["1"] * 5), "key counts: does not name 5 concepts"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_name(change, message):
    arrays, document = written()
    change(arrays, document)
    with pytest.raises(InputError, match=message):
        read_concept_tables(arrays, document, 0.9, "here")


def test_a_beta_that_is_no_share_and_strongest_that_name_no_concept_are_refused(monkeypatch):
    for beta in (None, "0.9", True, 1.2, float("nan")):
        with pytest.raises(InputError, match="key beta: is"):
            read_concept_tables(*written(), beta, "here")
    monkeypatch.setattr(writing, "ATTENTION_BYTES", 0)
    arrays, document = written()
    arrays["concept_image_strongest"] = arrays["concept_image_strongest"] + 3
    with pytest.raises(InputError, match=r"concept_image_strongest\.npy: .* expected 0 to 4"):
        read_concept_tables(arrays, document, 0.9, "here")


NAMES = {name for name in TABLES if name.startswith("cluster_")}


def test_by_hand():
    """Caption 0 and image 0 lie between the axes, nearer to the first; the classifier has the axes the other way round.
    Caption 1 is the second axis, and so is its image. The concept branch, where there is one, is what is classified."""
    images = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    texts = np.array([[0.8, 0.6], [0.0, 1.0]], np.float32)
    prototypes = {"centroids": torch.eye(2), "classifier": torch.eye(2).flip(0)}
    prototypes["members"] = torch.tensor([7, 3])
    cosines = pytest.approx([1.8 / (1.8**2 + 0.6**2) ** 0.5, 1.0])
    for second, classes in (((), [1, 0]), ((images[::-1].copy(), texts[::-1].copy()), [0, 1])):
        tables = cluster_tables(SplitEmbeddings(images, texts, *second), np.array([0, 1]), prototypes)
        tables = {name.removeprefix("cluster_"): table.tolist() for name, table in tables.items()}
        expected = {"pair_labels": [0, 1], "pair_cosines": cosines, "centroids": [[1, 0], [0, 1]]}
        expected |= {"image_labels": classes, "text_labels": classes, "members": [7, 3]}
        assert tables == expected


def test_a_finished_run_has_those_of_its_best_save_and_before_it_those_of_the_state(whole):
    analysis, prototypes = open_analysis(whole, "dev"), read_prototypes(whole, load_model(whole).fingerprint)
    assert set(analysis.arrays) >= NAMES
    texts = torch.from_numpy(analysis.text_embeddings.copy())
    pairs = normalise(torch.from_numpy(analysis.image_embeddings[analysis.image_of_text]) + texts)
    concepts = torch.from_numpy(analysis.concepts.text_embeddings.copy())
    for name, rows, table in (("pair", pairs, "centroids"), ("text", concepts, "classifier")):
        labels = analysis.array(f"cluster_{name}_labels").tolist()
        assert labels == (rows @ prototypes[table].T).argmax(1).tolist()
    with pytest.raises(InputError, match="has saved a better model"):  # meanwhile, whose labels are others
        read_prototypes(whole, "0" * 12)
    shutil.rmtree(whole / "best")
    evaluate_split(whole, load_model(whole), read_split(FINISHED_RUNS / "data", "dev"), "dev")
    assert set(open_analysis(whole, "dev").arrays) >= NAMES
    plain = FINISHED_RUNS / "checkpoints" / "weighted"
    assert read_prototypes(plain, load_model(plain).fingerprint) is None
    assert not NAMES & set(open_analysis(plain, "dev").arrays)
