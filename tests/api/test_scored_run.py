"""A run whose analysis holds scores gives the same answers as one with the embeddings they come from."""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from coder_core.api import LossSettings, Run, compare, joint_space, margins, occurrences, open_run, similarity
from coder_core.api.data_quality import small_losses
from coder_core.api.retrieval import found_by
from coder_core.files.sealed import write_sealed
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import unit, write_embeddings

CHOICES = [{"candidates": "batch", "batch_size": 8}, {"candidates": "bank", "bank_size": 20}, {}]


def written(root, name, *, scored):
    """Write and open a run of 24 images with two captions each; those of image 5 belong to image 6."""
    random = np.random.default_rng(3)
    v, w = (random.normal(size=(count, 6)) for count in (24, 48))
    owner = random.permutation(np.repeat(np.arange(24), 2))
    owner[owner == 5] = 6
    v, w = unit(v), unit(w + 0.8 * v[owner])
    folder = write_sealed(root / name, {"config.toml": 'name = "x"\n'})
    write_embeddings(folder, v, w, owner, **({"scores": v @ w.T} if scored else {}))
    return open_run(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run with scores and with embeddings."""
    root = tmp_path_factory.mktemp("runs")
    return written(root, "scored", scored=True), written(root, "plain", scored=False)


def close(first, second):
    pd.testing.assert_frame_equal(first, second, check_exact=False, atol=1e-5, rtol=1e-5)


def test_scored_and_embedded_runs_agree_and_embedding_questions_are_refused(runs):
    scored, plain = runs
    assert scored.metrics == plain.metrics == scored.summary.metrics != {}
    assert [scored.count("dev", kind) for kind in ("image", "text")] == [24, 48]
    assert scored.first_captions("dev").tolist() == plain.first_captions("dev").tolist()
    np.testing.assert_allclose(*(run.similarity([1, 5], [0, 3, 4], split="dev") for run in runs), atol=1e-6)
    assert set(compare(scored, plain, "dev")["outcome"]) <= {"both right", "both wrong"}
    for direction in ("i2t", "t2i"):
        close(*(margins(run, "dev", direction) for run in runs))
        counts = occurrences(scored, "dev", direction)
        assert counts.equals(occurrences(plain, "dev", direction))
        assert counts["count"].sum() == 10 * (48 if direction == "t2i" else 23)  # image 5 is not a query
        found = [found_by(plain, "dev", direction, row) for row in range(len(counts))]
        assert [len(queries) for queries in found] == counts["count"].tolist()
    for modality in ("image", "text"):
        for query in (0, 7):
            close(*(run.search(query, split="dev", modality=modality, top=5) for run in runs))
    distances = [joint_space.score_separation(run, "dev").mean_distance for run in runs]
    assert distances[0] == pytest.approx(distances[1], abs=1e-6)
    counted, known = (joint_space.score_distributions(run, "dev") for run in runs)
    assert abs(counted.positive - known.positive).sum() <= 2
    for question in (joint_space.modality_gap, Run.embeddings, Run.part):
        assert_refused("scores pair by pair", question, scored, "dev")
    assert not scored.reads_pictures("dev")
    assert_refused("too many regions in split 'dev'", scored.search, "a red star", split="dev")


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("function", ["std", "entropy"])
@pytest.mark.parametrize("choice", CHOICES)
def test_diversity_of_a_scored_run_equals_that_of_embeddings(runs, modality, function, choice):
    settings = {"modality": modality, "function": function, **choice}
    close(*(run.diversity("dev", **settings) for run in runs))
    close(*(run.diversity("dev", sample=run.sample("dev", scores=200), **settings) for run in runs))
    one, other = (run.anchor(3, split="dev", **settings) for run in runs)
    for name in ("similarities", "positives", "plain", "scaled", "diversity", "spread"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-5, err_msg=name)


def test_losses_of_all_pairs_are_those_of_full_batches(runs, monkeypatch):
    """48 pairs are two batches of 47; one pair alone would have no loss."""
    monkeypatch.setattr("coder_core.api.data_quality.TRAIN", "dev")
    monkeypatch.setattr("coder_core.api.data_quality.PAIRS", 47)
    losses = [small_losses(run).sort_values("caption", ignore_index=True) for run in runs]
    close(*(table.drop(columns="scorer") for table in losses))
    assert losses[0]["score"].min() > 1e-3


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("source", ["seed", "hardest", "split"])
def test_matrices_of_a_scored_run_equal_those_of_embeddings(runs, direction, source):
    batches = [similarity.choose_samples(run, "dev", similarity.SampleChoice(source, 16)) for run in runs]
    assert batches[0].texts.tolist() == batches[1].texts.tolist()
    batch = batches[0]
    loss = LossSettings()
    sides = [similarity.matrix_sides(run, "dev", batch, direction) for run in runs]
    np.testing.assert_allclose(*(similarity.shown_spread(s, loss) for s in sides), atol=1e-6)
    one, other = (similarity.scaled_matrix(s, loss, cells=8) for s in sides)
    for field in ("similarity", "exponent", "change", "share"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=1e-4, err_msg=field)
    first, second = (similarity.hardest_in_cell(s, one, 1, 2) for s in sides)
    assert first == second
    pairs = (similarity.open_pair(s, one, first, paired=batch.paired) for s in sides)
    numbers, expected = (asdict(replace(pair, loss=0)) for pair in pairs)
    assert numbers == pytest.approx(expected, rel=1e-5, abs=1e-4, nan_ok=True)
    for by in ("diversity", "cluster") if source != "hardest" else ():
        of_images = similarity.matrix_sides(runs[0], "dev", batch, "i2t")
        in_order = similarity.ordered(batch, of_images, by, direction, loss)
        assert sorted(in_order.texts) == sorted(batch.texts)
        assert in_order.texts.tolist() != batch.texts.tolist()
