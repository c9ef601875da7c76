"""Sample weights and concepts in an analysis folder."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch

from coder_core.data.dataset import read_split
from coder_core.evaluate import main
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.geometry.captions import caption_neighbours
from coder_core.model.encode import SplitEmbeddings
from coder_core.ops import normalise
from coder_core.runs.analysis import concept_arrays as writing
from coder_core.runs.analysis.clusters import cluster_tables, read_prototypes
from coder_core.runs.analysis.concepts import read_concept_tables
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import TABLES
from coder_core.runs.analysis.weights import weight_tables
from coder_core.runs.derived.neighbours import run_text_space
from coder_core.runs.load import load_model, read_config
from coder_core.training.launch import start_run
from tests.reference import batch_weights as others
from tests.reference import neighbourhood as reference
from tests.runs.conftest import fill_analysis
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import (
    CONCEPTS,
    FINISHED_RUNS,
    overwritten,
    some_concepts,
    two_branches,
    write_run,
)
from tests.support.tiny_runs import changed, quiet, tiny_config, write_tiny_data

weighted = partial(tiny_config, part="weights")

COUNT = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_tiny_data(tmp_path_factory.mktemp("more"), images=30, captions=3)  # 6 images in dev


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    config = weighted(data, sample_weights="combined", diversity_share=2.0, epochs=1)
    return start_run(config, tmp_path_factory.mktemp("runs"), quiet())


def arrays(folder, *names):
    return [np.load(folder / f"{name}.npy", allow_pickle=False) for name in names]


def test_scores_and_weights_of_a_split_match_reference_loops(run, data):
    split = read_split(data, "dev")
    embeddings = ("image_embeddings", "text_embeddings")
    scores = ("weight_diversity", "weight_discrepancy")
    folder = run / "analysis" / "dev"
    images, texts, diversity, discrepancy, weights = arrays(folder, *embeddings, *scores, "sample_weight")
    config, _ = read_config(run)
    near = caption_neighbours(run_text_space(run, config).encode(split.captions), split.image_of_text, COUNT)
    near = [[j for j in row if j >= 0] for row in near.tolist()]
    exponents = []
    for column, side in enumerate((images[split.image_of_text], texts)):
        rows = side.astype(float).tolist()
        raw = np.array([reference.diversity([rows[j] for j in row]) for row in near])
        again = [[rows[k] for j in row for k in near[j]] for row in near]
        asymmetric = np.array([reference.discrepancy(rows[p], found) for p, found in enumerate(again)])
        np.testing.assert_allclose(diversity[:, column], -raw, atol=1e-5)
        np.testing.assert_allclose(discrepancy[:, column], -asymmetric, atol=1e-5)
        exponents.append((-2 * raw - asymmetric).tolist())

    scale = config.weighting.weight_scale
    expected = np.array(reference.weights(*exponents, scale * len(texts), "difference"))
    np.testing.assert_allclose(weights, expected / scale, rtol=1e-3)
    assert weights.mean() == pytest.approx(1.0, rel=1e-4)
    assert {array.dtype.str for array in (diversity, discrepancy, weights)} == {"<f4"}
    # the document has the statistics of the paper's Table 1
    about = json.loads((folder / "weighting.json").read_text())
    for name, scores in (("diversity", diversity), ("discrepancy", discrepancy)):
        moments = about["mean"][name], about["std"][name]
        assert moments == pytest.approx((-scores.mean(), scores.std()), rel=1e-4)

    assert about["sample_weights"] == "combined"
    assert (about["lambda"], about["direction"], about["neighbours"]) == (32.0, -1, COUNT)
    assert about["text_space"].startswith("TF-IDF of ")


def test_evaluating_another_split_reports_the_search_for_neighbours(run, data):
    reports = []

    def note(done, total, phase=""):
        reports.append((phase, done, total))

    evaluate_split(run, load_model(run), read_split(data, "train"), "train", progress=note)
    phases = ["ranks", "tiny: placing captions in the text space", "tiny: finding semantic neighbours"]
    assert list(dict.fromkeys(phase for phase, _, _ in reports if phase)) == phases
    assert reports[-1] == (phases[-1], 90, 90)
    (weights,) = arrays(run / "analysis" / "train", "sample_weight")
    assert weights.shape == (90,)


def test_tables_of_batch_weights_of_the_random_control_and_of_no_weighting(data, run):
    """18 captions of dev in two batches of 9."""
    split = read_split(data, "dev")
    config = load_model(run).config
    known = SplitEmbeddings(*arrays(run / "analysis" / "dev", "image_embeddings", "text_embeddings"))
    tables, documents = weight_tables(run, changed(config, sample_weights="mithun"), known, split)
    order = np.random.default_rng(0).permutation(len(split.captions))
    for pairs in (order[:9], order[9:]):
        scores = known.images[split.image_of_text[pairs]].astype(float) @ known.texts[pairs].T.astype(float)
        expected = others.rank_weights(scores.tolist(), split.image_of_text[pairs].tolist(), 9.0)
        np.testing.assert_allclose(tables["sample_weight"][pairs], expected, rtol=1e-4)
    assert tables.keys() == {"sample_weight"}
    assert documents["weighting"]["sample_weights"] == "mithun"
    kinds = [changed(config, sample_weights=kind) for kind in ("diversity", "random", "none")]
    method, control, none = (weight_tables(run, kind, known, split)[0] for kind in kinds)
    np.testing.assert_allclose(np.sort(control["sample_weight"]), np.sort(method["sample_weight"]), rtol=1e-5)
    assert not np.allclose(control["sample_weight"], method["sample_weight"])
    np.testing.assert_array_equal(control["weight_diversity"], method["weight_diversity"])
    assert none == {}


@pytest.mark.parametrize("kind", ["diversity", "hal"])
def test_runs_with_several_embeddings_have_weights_too(data, tmp_path, kind):
    run = start_run(weighted(data, sample_weights=kind, embeddings=2, epochs=1), tmp_path, quiet())
    folder = run / "analysis" / "dev"
    (weights,) = arrays(folder, "sample_weight")
    assert weights.shape == (18,)
    assert weights.mean() == pytest.approx(1.0, rel=1e-4)
    assert weights.std() > 0
    assert (folder / "weight_diversity.npy").exists() == (kind == "diversity")


def test_a_truncated_text_space_is_named(run, data, complaint):
    file = run / "text_space.json"
    with overwritten(file, file.read_bytes()[:-2]):
        assert file.name in complaint(main, [str(run), "--split", "dev", "--data", str(data)])


def written():
    branches, _ = two_branches(6)
    graph = some_concepts().graph(threshold=0.3, rescaled=True)
    arrays, documents = writing.concept_tables(branches, some_concepts(), graph)
    plain = {"image_embeddings": branches.images, "text_embeddings": branches.texts}
    return plain | arrays, json.loads(json.dumps(documents["concepts"]))


def test_analyses_with_concepts_have_version_2_and_others_version_1(tmp_path):
    """A reader of version 1 would take the ranks of the mixture for those of the instance branch."""
    assert json.loads((fill_analysis(tmp_path / "plain") / "manifest.json").read_text())["version"] == 1
    assert open_analysis(tmp_path / "plain", "test").concepts is None
    both = open_analysis(write_run(tmp_path, "both", concepts=CONCEPTS, images=30), "dev", verify=True)
    assert (both.manifest["version"], both.manifest["beta"]) == (2, 0.6)
    assert both.concepts.words == ["dog", "grass", "ball", "red", "run"]


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_concatenated_branches_score_as_the_mixture(beta):
    branches, _ = two_branches(6)
    first = (branches.images, branches.texts)
    second = branches.second
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
def test_invalid_concept_tables_are_refused_by_name(change, message):
    arrays, document = written()
    change(arrays, document)
    assert_refused(message, read_concept_tables, arrays, document, 0.9, "here")


def test_large_attention_keeps_only_the_strongest_and_invalid_values_are_refused(monkeypatch):
    for beta in (None, "0.9", True, 1.2, float("nan")):
        assert_refused("key beta: is", read_concept_tables, *written(), beta, "here")
    monkeypatch.setattr(writing, "ATTENTION_BYTES", 0)
    arrays, document = written()
    arrays["concept_image_strongest"] = arrays["concept_image_strongest"] + 3
    message = r"concept_image_strongest\.npy: .* expected 0 to 4"
    assert_refused(message, read_concept_tables, arrays, document, 0.9, "here")
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


def test_cluster_tables_by_hand():
    """Pair 0 is between the axes, nearer to the first; the classifier has the axes in reverse order. Image 1 and
    caption 1 are the second axis. If there is a concept branch, its embeddings are classified."""
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


def test_cluster_tables_come_from_the_best_save_or_else_the_state(whole):
    names = {name for name in TABLES if name.startswith("cluster_")}
    analysis = open_analysis(whole, "dev")
    prototypes = read_prototypes(whole, load_model(whole).fingerprint)
    assert set(analysis.arrays) >= names
    texts = torch.from_numpy(analysis.text_embeddings.copy())
    pairs = normalise(torch.from_numpy(analysis.image_embeddings[analysis.image_of_text]) + texts)
    concepts = torch.from_numpy(analysis.concepts.text_embeddings.copy())
    for name, rows, table in (("pair", pairs, "centroids"), ("text", concepts, "classifier")):
        labels = analysis.array(f"cluster_{name}_labels").tolist()
        assert labels == (rows @ prototypes[table].T).argmax(1).tolist()
    assert_refused("has saved a better model", read_prototypes, whole, "0" * 12)  # with other labels
    shutil.rmtree(whole / "best")
    evaluate_split(whole, load_model(whole), read_split(FINISHED_RUNS / "data", "dev"), "dev")
    assert set(open_analysis(whole, "dev").arrays) >= names
    plain = FINISHED_RUNS / "checkpoints" / "weighted"
    assert read_prototypes(plain, load_model(plain).fingerprint) is None
    assert not names & set(open_analysis(plain, "dev").arrays)
