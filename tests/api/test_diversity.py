"""Diversity of a run in NumPy against the objectives in torch and against loops; samples, banks, opened anchors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from coder_core.api import diversity as maths
from coder_core.api.sampling import draw_sample, sample_of, whole_split
from coder_core.objectives import diversity as objectives
from coder_core.ops.diversity_scaling import squash
from tests.support.run_folders import synthetic

CANDIDATES = ("split", "batch", "bank")
both_modalities = pytest.mark.parametrize("modality", ["image", "text"])


def uneven(images=23, seed=3, fewest=1):
    """Return embeddings of images with `fewest` to six captions each, in random order."""
    v, w, _ = synthetic(images, noise=1.0, seed=seed)
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.full(rng.integers(fewest, 7), image) for image in range(images)])
    return v, w[: len(owner)], rng.permutation(owner)


@both_modalities
@pytest.mark.parametrize("tile", [70, None])
def test_spread_over_a_split_matches_the_objective(modality, tile, monkeypatch):
    for name in ("TILE_ELEMENTS", "TILE") if tile else ():
        monkeypatch.setattr(maths, name, tile)
    v, w, owner = uneven()
    s = whole_split(v, w, owner).sides(modality)
    scores = torch.from_numpy((v @ w.T).astype(np.float64))
    negatives = torch.from_numpy(np.arange(len(v))[:, None] != owner[None, :])
    of_anchors = (scores, negatives) if modality == "image" else (scores.T, negatives.T)
    for epsilon in (0.02, 0.1, 1.0):
        diversity = maths.normalise_in_draw(squash(maths.spread_over(s, "std", 1.0), epsilon))
        expected = objectives.diversity_std(*of_anchors, epsilon=epsilon)
        np.testing.assert_allclose(diversity, expected.numpy(), atol=2e-6)
        assert diversity.max() == 1.0
        assert diversity.min() > 0.5
    for temperature in (0.02, 1.0):
        expected = objectives.negative_spread(*of_anchors, "entropy", temperature=temperature)
        np.testing.assert_allclose(maths.spread_over(s, "entropy", temperature), expected.numpy(), atol=2e-5)


@both_modalities
@pytest.mark.parametrize("size", [2, 7, 128])
def test_spread_in_batches_uses_only_negatives_of_the_batch(modality, size):
    """Images without captions are anchors too, with any caption as their partner."""
    v, w, owner = uneven(fewest=0)
    part = whole_split(v, w, owner)
    captioned = np.isin(np.arange(23), owner)
    settings = maths.DiversitySettings(modality, candidates="batch", batch_size=size, seed=5)
    draw = maths.draw_batches(part, settings)
    spread = maths.anchor_spreads(part, settings)
    assert ((owner[draw.pair_text] == draw.pair_image) == captioned[draw.pair_image]).all()
    assert captioned.sum() < 23
    anchors, candidates = (v, w[draw.pair_text]) if modality == "image" else (w, v[draw.pair_image])
    raw = squash(spread, 0.1)
    normalised = maths.normalise_in_draw(raw, draw)
    for anchor in range(len(spread)):
        pairs = draw.batches[draw.batch_of[anchor]]
        assert anchor in pairs
        values = (candidates[pairs] @ anchors[anchor])[
            owner[draw.pair_text[pairs]] != draw.pair_image[anchor]
        ]
        assert spread[anchor] == pytest.approx(values.std() if len(values) else 0.0, abs=1e-6)
        assert normalised[anchor] == raw[anchor] / raw[pairs].max()
    np.testing.assert_array_equal(draw.batches, maths.draw_batches(part, settings).batches)
    assert not np.array_equal(draw.batches, maths.draw_batches(part, replace(settings, seed=2)).batches)
    assert {len(set(batch.tolist())) for batch in draw.batches} == {min(size, len(spread))}  # all are full
    with pytest.raises(ValueError, match="at least 2"):
        maths.draw_batches(part, replace(settings, batch_size=1))


def test_zero_spread_gives_the_smallest_diversity_and_weights_are_gradients():
    """raw(SD = 0) is exactly 1, and there is no warning."""
    with pytest.raises(ValueError, match="modality"):
        maths.DiversitySettings("images")
    assert squash(np.array([0.0]), 0.1)[0] == 1.0
    v, w, owner = synthetic(40, noise=1.0)
    spread = maths.spread_over(whole_split(v, w, owner).sides("text"), "std", 1.0)
    vague = np.arange(len(w)) % 5 == 4
    assert spread[vague].max() < spread[~vague].min()
    with pytest.raises(ValueError, match="epsilon must be > 0, got 0"):
        squash(np.ones(3), 0)
    # ∂/∂S of μ·log(1 + Σ exp((S − γ)/μ)) is the weight; a small diversity adds to it above γ only
    similarities = np.array([0.9, 0.3, -0.2])
    mu = 0.1
    gamma = 0.3
    step = 1e-6

    def loss(s):
        return float(mu * np.log1p(np.exp((s - gamma) / mu).sum()))

    slopes = [(loss(similarities + step * e) - loss(similarities - step * e)) / (2 * step) for e in np.eye(3)]
    weights = maths.negative_weights(similarities, temperature=mu, gamma=gamma)
    np.testing.assert_allclose(weights, slopes, atol=1e-7)
    for similarity, more in ((0.5, True), (0.1, False)):
        alone = np.array([similarity])
        plain, scaled = (maths.negative_weights(alone, temperature=t, gamma=gamma) for t in (mu, 0.6 * mu))
        assert bool(scaled > plain) is more


@both_modalities
@pytest.mark.parametrize("size", [1, 17, 10_000])
def test_bank_spread_uses_a_random_subset_of_pairs(run, modality, size):
    """Compare with loops over the pairs in the bank; pairs of the anchor's own image are not negatives."""
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    settings = maths.DiversitySettings(modality, candidates="bank", bank_size=size, seed=4)
    pairs = maths.draw_bank(run.part("dev"), replace(settings, modality="image"))
    assert len(set(pairs.tolist())) == min(size, len(w))
    spread = maths.anchor_spreads(run.part("dev"), settings)
    for number in (0, 13):
        image = number if modality == "image" else owner[number]
        negatives = [p for p in pairs.tolist() if owner[p] != image]
        scores = w[negatives] @ v[number] if modality == "image" else v[owner[negatives]] @ w[number]
        assert spread[number] == pytest.approx(np.std(scores) if negatives else 0.0, abs=1e-6)
    with pytest.raises(ValueError, match="bank_size must be at least 1, got"):
        maths.draw_bank(run.part("dev"), replace(settings, bank_size=0))


def test_a_sample_contains_exactly_the_captions_of_its_images(run):
    owner = np.random.default_rng(0).integers(0, 1000, 4000)
    sample, again = (draw_sample(1000, owner, scores=40_000) for _ in range(2))
    assert (sample.of_images, sample.of_texts) == (1000, 4000)
    np.testing.assert_array_equal(sample.texts, np.flatnonzero(np.isin(owner, sample.images)))
    assert 80 < len(sample.images) <= 100
    assert not np.array_equal(sample.images, np.arange(len(sample.images)))  # not the first ones
    np.testing.assert_array_equal(again.images, sample.images)
    even = np.repeat(np.arange(30), 5)
    assert draw_sample(30, even, scores=30 * 150) is None  # the whole split is within the bound
    assert draw_sample(30, even, scores=30 * 150 - 1) is not None
    halves = (sample_of(rows, 30, even) for rows in np.split(np.arange(30), 2))
    anchors = [run.diversity("dev", sample=half, modality="image")["anchor"].tolist() for half in halves]
    assert anchors == [[*range(15)], [*range(15, 30)]]


@both_modalities
@pytest.mark.parametrize("candidates", CANDIDATES)
@pytest.mark.parametrize("scores", [600, None])
def test_an_anchor_agrees_with_the_diversity_table_of_its_split_or_sample(run, modality, candidates, scores):
    """Rows keep their numbers in the split; the spread is of the sample's negatives only."""
    sample = run.sample("dev", scores=scores) if scores else None
    is_image = modality == "image"
    settings = {"modality": modality, "candidates": candidates, "batch_size": 6, "bank_size": 20, "seed": 2}
    table = run.diversity("dev", sample=sample, **settings)
    whole = run.diversity("dev", modality=modality)
    sides = (sample.images, sample.texts) if sample else (np.arange(30), np.arange(150))
    rows, opposite = sides if is_image else sides[::-1]
    np.testing.assert_array_equal(table["anchor"], rows)
    for column in ("rank", "image"):
        np.testing.assert_array_equal(table[column], whole[column].to_numpy()[rows])
    for position in (0, len(rows) - 1):
        anchor = run.anchor(int(rows[position]), split="dev", sample=sample, **settings)
        assert anchor.spread == table["spread"][position]
        assert anchor.spread == pytest.approx(anchor.similarities.std(), abs=1e-6)
        assert anchor.diversity == pytest.approx(table["diversity"][position], abs=1e-12)
        assert anchor.temperature == pytest.approx(0.1 * anchor.diversity)
        assert np.isin(anchor.candidates, opposite).all()
        assert len(anchor.positives) == (5 if is_image else 1)
        assert not run.matches("dev", "i2t" if is_image else "t2i", rows[position], anchor.candidates).any()
        nearest = anchor.nearest(3)["similarity"].tolist()
        assert nearest == sorted(anchor.similarities.tolist(), reverse=True)[:3]


@pytest.mark.parametrize("candidates", CANDIDATES)
@pytest.mark.parametrize("function", ["std", "entropy"])
def test_an_anchor_outside_the_sample_is_compared_with_the_sample(run, candidates, function):
    sample = run.sample("dev", scores=600)
    number = int(np.setdiff1d(np.arange(150), sample.texts)[0])
    sizes = {"batch_size": 6, "bank_size": 20, "temperature": 0.1}
    settings = {"candidates": candidates, "function": function, **sizes}
    anchor = run.anchor(number, split="dev", sample=sample, **settings)
    assert np.isin(anchor.candidates, sample.images).all()
    table = run.diversity("dev", sample=sample, **settings)
    draw = maths.draw_batches(run.part("dev", sample), maths.DiversitySettings(**settings))
    largest = (table["raw"] if draw is None else table["raw"][draw.batches[0]]).max()
    assert anchor.diversity == pytest.approx(min(anchor.raw / largest, 1))
    if function == "std":
        assert anchor.spread == pytest.approx(anchor.similarities.std(), abs=1e-6)
    else:
        p = np.exp(anchor.similarities / 0.1)
        p /= p.sum()
        assert anchor.spread == pytest.approx(-(p * np.log2(p)).sum(), abs=1e-4)
    assert 0.5 < anchor.diversity <= 1
    assert len(anchor.positives) == 1


def test_diversity_table_and_anchor_use_the_given_loss(run):
    table = run.diversity("dev", modality="image", epsilon=0.2)
    np.testing.assert_array_equal(table["rank"], run.ranks("dev")["i2t"] + 1)
    np.testing.assert_allclose(table["raw"], 1 + np.exp(-0.2 / table["spread"]))
    assert table["diversity"].max() == 1.0
    entropy, std = (run.diversity("dev", function=function)["spread"] for function in ("entropy", "std"))
    assert np.corrcoef(entropy, std)[0, 1] < -0.5  # they order anchors inversely
    loss = replace(run.anchor(7, split="dev").loss, temperature=0.05, gamma=0.1, epsilon=0.4)
    anchor = run.anchor(7, split="dev", loss=loss)
    assert anchor.diversity == pytest.approx(run.diversity("dev", epsilon=0.4)["diversity"][7])
    assert anchor.temperature == pytest.approx(0.05 * anchor.diversity)
    exponent = np.exp((anchor.similarities - 0.1) / 0.05)
    np.testing.assert_allclose(anchor.plain, exponent / (1 + exponent.sum()), rtol=1e-5)
