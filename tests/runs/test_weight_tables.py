"""Sample weights in an analysis folder."""

import json

import numpy as np
import pytest

from coder_core.data.dataset import read_split
from coder_core.evaluate import main
from coder_core.geometry.captions import caption_neighbours
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.analysis.weights import weight_tables
from coder_core.runs.derived.neighbours import run_text_space
from coder_core.runs.load import load_model, read_config
from coder_core.training.launch import start_run
from tests.reference import batch_weights as others
from tests.reference import neighbourhood as reference
from tests.support.configs import changed
from tests.support.tiny_runs import quiet, write_tiny_data
from tests.support.weighted_runs import weighted

pytestmark = pytest.mark.usefixtures("own_threads")
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


def test_raw_scores_and_weights_are_those_of_the_loops_on_the_neighbours_in_the_split(run, data):
    split = read_split(data, "dev")
    embeddings, scores = ("image_embeddings", "text_embeddings"), ("weight_diversity", "weight_discrepancy")
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
    phases = ["tiny: placing captions in the text space", "tiny: finding semantic neighbours"]
    assert list(dict.fromkeys(phase for phase, _, _ in reports if phase)) == phases
    assert reports[-1] == (phases[-1], 90, 90)
    (weights,) = arrays(run / "analysis" / "train", "sample_weight")
    assert weights.shape == (90,)


def known_scores(run):
    return SplitEmbeddings(*arrays(run / "analysis" / "dev", "image_embeddings", "text_embeddings"))


def test_weights_of_a_batch_are_taken_in_random_batches(data, run):
    """18 captions of dev in two batches of 9."""
    split, known = read_split(data, "dev"), known_scores(run)
    config = changed(load_model(run).config, sample_weights="mithun")
    tables, documents = weight_tables(run, config, known, split)
    order = np.random.default_rng(0).permutation(len(split.captions))
    for pairs in (order[:9], order[9:]):
        scores = known.images[split.image_of_text[pairs]].astype(float) @ known.texts[pairs].T.astype(float)
        expected = others.rank_weights(scores.tolist(), split.image_of_text[pairs].tolist(), 9.0)
        np.testing.assert_allclose(tables["sample_weight"][pairs], expected, rtol=1e-4)
    assert tables.keys() == {"sample_weight"}
    assert documents["weighting"]["sample_weights"] == "mithun"


def test_random_weights_are_those_of_diversity_on_other_pairs_and_none_are_none(data, run):
    loaded, split = load_model(run), read_split(data, "dev")
    kinds = [changed(loaded.config, sample_weights=kind) for kind in ("diversity", "random", "none")]
    method, control, none = (weight_tables(run, config, known_scores(run), split)[0] for config in kinds)
    np.testing.assert_allclose(np.sort(control["sample_weight"]), np.sort(method["sample_weight"]), rtol=1e-5)
    assert not np.allclose(control["sample_weight"], method["sample_weight"])
    np.testing.assert_array_equal(control["weight_diversity"], method["weight_diversity"])
    assert none == {}


@pytest.mark.parametrize("kind", ["diversity", "hal"])
def test_a_run_with_several_embeddings_has_them_too(data, tmp_path, kind):
    run = start_run(weighted(data, sample_weights=kind, embeddings=2, epochs=1), tmp_path, quiet())
    folder = run / "analysis" / "dev"
    (weights,) = arrays(folder, "sample_weight")
    assert weights.shape == (18,)
    assert weights.mean() == pytest.approx(1.0, rel=1e-4)
    assert weights.std() > 0
    assert (folder / "weight_diversity.npy").exists() == (kind == "diversity")


def test_a_missing_text_space_is_named(run, data, capsys):
    whole = (run / "text_space.json").read_bytes()
    (run / "text_space.json").write_bytes(whole[:-2])
    try:
        assert main([str(run), "--split", "dev", "--data", str(data)]) == 1
        assert "text_space.json" in capsys.readouterr().err
    finally:
        (run / "text_space.json").write_bytes(whole)
