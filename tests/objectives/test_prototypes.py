"""Online k-means against loops over single pairs; full clusterings and their match with the old numbers; classes."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from coder_core.geometry.kmeans import nearest_centroid
from coder_core.objectives.prototypes import (
    NO_LABEL,
    Prototypes,
    pair_vectors,
    prototype_guided,
    prototype_logits,
)
from coder_core.ops import normalise
from coder_core.training.parts import prototypes as reclustering
from coder_core.training.parts.prototypes import match_clusters, mean_cosine, recluster
from tests.reference import prototypes as reference


def directions(*degrees):
    """Return unit vectors in the plane."""
    angles = torch.deg2rad(torch.tensor(degrees, dtype=torch.float32))
    return torch.stack([angles.cos(), angles.sin()], 1)


def angle(centroid):
    return float(torch.rad2deg(torch.atan2(centroid[1], centroid[0])))


def planted(pairs, groups, size, seed, spread=0.3):
    """Return unit vectors around `groups` random directions; pair i belongs to group i % groups."""
    random = torch.Generator().manual_seed(seed)
    centres = normalise(torch.randn(groups, size, generator=random))
    noise = spread * torch.randn(pairs, size, generator=random)
    return normalise(centres.repeat(-(-pairs // groups), 1)[:pairs] + noise)


def test_by_hand():
    """Two prototypes, four pairs a pass. Seeds are the last two pairs of the first pass, at 0° and 90°. A pair at 30°
    belongs to the first, which then has one faded member (weight ½) at 0° and one at 30°."""
    clusters = Prototypes(2, 2, pairs=4, pass_pairs=4)
    clusters.update(directions(200, 250), torch.tensor([0, 1]))
    assert not clusters.ready
    clusters.update(directions(0, 90), torch.tensor([2, 3]))
    assert clusters.ready
    assert clusters.labels.tolist() == [NO_LABEL] * 4
    torch.testing.assert_close(clusters.centroids, directions(0, 90))
    assigned = clusters.assign(directions(30, 120))
    assert assigned.labels.tolist() == [0, 1]
    assert assigned.similarities.tolist() == pytest.approx([0.75**0.5, 0.75**0.5])
    clusters.update(directions(30, 120), torch.tensor([3, 0]), assigned)
    expected = normalise(0.5 * directions(0, 90) + directions(30, 120))
    torch.testing.assert_close(clusters.centroids, expected, atol=1e-5, rtol=1e-5)
    assert clusters.weights.tolist() == pytest.approx([1.5, 1.5])
    assert clusters.labels.tolist() == [1, NO_LABEL, NO_LABEL, 0]
    assert clusters.counts() == (2, 0, 1, 0)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 9), st.integers(2, 4))
def test_every_update_matches_reference_loops(seed, count, batch, batches):
    pass_pairs = batch * batches
    count = min(count, pass_pairs)
    random = np.random.default_rng(seed)
    clusters = Prototypes(count, 3, pairs=pass_pairs + 2, pass_pairs=pass_pairs).double()
    loops = reference.OnlineMeans(count, pass_pairs)
    for _ in range(3):
        for ids in random.permutation(pass_pairs + 2)[:pass_pairs].reshape(batches, batch):
            vectors = normalise(torch.from_numpy(random.normal(size=(batch, 3))))
            assigned = clusters.assign(vectors) if clusters.ready else None
            clusters.update(vectors, torch.from_numpy(ids), assigned)
            expected = loops.learn(vectors.tolist(), ids.tolist())
            assert (assigned.labels.tolist() if assigned is not None else None) == expected
    for k in range(count):
        assert clusters.centroids[k].tolist() == pytest.approx(loops.centroid(k), abs=1e-4)
        assert float(clusters.weights[k]) == pytest.approx(loops.weights[k])
        assert int(clusters.members[k]) == loops.members(k)
        assert int(clusters.idle[k]) == loops.idle[k]
    assert {i: k for i, k in enumerate(clusters.labels.tolist()) if k != NO_LABEL} == loops.label_of


def test_dead_prototypes_are_reseeded_from_large_ones_a_few_per_step():
    """Prototype 1 is at 180°, far from all pairs. After a pass without a member it takes the pair at 25°."""
    clusters = Prototypes(2, 2, pairs=8, pass_pairs=8)
    clusters.update(directions(0, 0, 0, 0, 0, 0, 0, 180), torch.arange(8))
    assert clusters.ready
    vectors = directions(0, 5, 25, 0, 0, 5, 0, 10)
    clusters.update(vectors[:4], torch.arange(4))
    assert clusters.counts() == (1, 0, 4, 0)
    clusters.update(vectors[[0, 2, 5, 7]], torch.arange(4, 8))
    assert clusters.counts().reseeded == 1
    assert angle(clusters.centroids[1]) == pytest.approx(25, abs=0.1)
    assert clusters.members.tolist() == [8, 0]
    clusters.update(vectors, torch.arange(8))
    assert clusters.labels.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert clusters.counts() == (2, 0, 7, 1)
    pairs = 64
    clusters = Prototypes(40, 8, pairs=pairs, pass_pairs=pairs)
    clusters.update(planted(pairs, 40, 8, seed=2), torch.arange(pairs))
    clusters.centroids[20:] = -clusters.centroids[:20]  # half of them far from all pairs
    vectors = planted(pairs, 4, 8, seed=3)
    reseeded = [0]
    for _ in range(8):
        clusters.update(vectors, torch.arange(pairs))
        reseeded.append(clusters.counts().reseeded)
    assert 0 < max(np.diff(reseeded)) <= pairs // 8
    assert int(clusters.members.sum()) == pairs


def test_opposite_members_pair_vectors_and_a_replaced_clustering():
    clusters = Prototypes(2, 2, pairs=2, pass_pairs=2)
    clusters.update(directions(0, 120), torch.tensor([0, 1]))
    clusters.update(directions(90, 270), torch.tensor([0, 1]))
    assert clusters.centroids.isfinite().all()
    torch.testing.assert_close(clusters.centroids.norm(dim=1), torch.ones(2))
    images = normalise(torch.randn(5, 4)).requires_grad_()
    texts = normalise(torch.randn(5, 4)).requires_grad_()
    actual = pair_vectors(images, texts)
    assert not actual.requires_grad
    for row, image, text in zip(actual.tolist(), images.tolist(), texts.tolist(), strict=True):
        assert row == pytest.approx(reference.pair_vector(image, text), abs=1e-6)
    vectors = planted(90, 5, 8, seed=9)
    clusters = Prototypes(5, 8, pairs=90, pass_pairs=90)
    clusters.update(vectors, torch.arange(90))
    clusters.update(vectors, torch.arange(90))
    centroids = recluster(vectors.numpy(), clusters.centroids.numpy(), seed=0)
    clusters.replace(torch.from_numpy(centroids), vectors)
    labels = nearest_centroid(vectors.numpy(), clusters.centroids.numpy())
    assert clusters.labels.tolist() == labels.tolist()
    assert clusters.members.tolist() == np.bincount(labels, minlength=5).tolist()
    assert clusters.weights.tolist() == clusters.members.tolist()
    means = torch.stack([vectors[labels == k].mean(0) for k in range(5)])
    torch.testing.assert_close(clusters.resultants, means.norm(dim=1))


@pytest.mark.parametrize(("count", "pass_pairs", "pairs"), [(1, 8, 8), (9, 8, 8), (4, 8, 7)])
def test_invalid_prototype_sizes_are_refused(count, pass_pairs, pairs):
    with pytest.raises(ValueError, match="prototypes"):
        Prototypes(count, 4, pairs=pairs, pass_pairs=pass_pairs)


def test_reclustering_keeps_the_numbers_and_exact_matching_is_optimal():
    for seed in range(10):
        before, after = np.random.default_rng(seed).integers(5, size=(2, 30))
        retained = (match_clusters(before, after, 5)[before] == after).sum()
        orders = map(np.array, itertools.permutations(range(5)))
        assert retained == max((order[before] == after).sum() for order in orders)
    # Ten planted groups, centroids a little off: the new ones are better and every pair keeps its number
    vectors = planted(500, 10, 16, seed=7, spread=0.1).numpy()
    rough = vectors[:10] + 0.05 * np.random.default_rng(0).normal(size=(10, 16)).astype(np.float32)
    rough /= np.linalg.norm(rough, axis=1, keepdims=True)
    before = nearest_centroid(vectors, rough)
    actual = recluster(vectors, rough, seed=3)
    assert np.array_equal(recluster(vectors, rough, seed=3), actual)
    assert np.linalg.norm(actual, axis=1) == pytest.approx(np.ones(10), abs=1e-5)
    assert (nearest_centroid(vectors, actual) == before).all()
    assert mean_cosine(vectors, actual) > mean_cosine(vectors, rough)


@pytest.mark.parametrize("exact", [True, False])
def test_matching_recovers_the_numbers_of_a_renumbered_clustering(exact, monkeypatch):
    if not exact:
        monkeypatch.setattr(reclustering, "MOST_MATCHED_EXACTLY", 1)
    random = np.random.default_rng(1)
    before = random.integers(30, size=2000)
    order = random.permutation(40)  # ten clusters are empty
    actual = match_clusters(before, order[before], 40)
    assert sorted(actual) == list(range(40))
    assert (actual[before] == order[before]).all()


def test_prototype_classification_by_hand():
    """Logits (log 3, 0): the first prototype has probability 3/4, at a temperature of one half 9/10."""
    rows = torch.tensor([[1.0, 0.0]])
    classifier = torch.tensor([[math.log(3), 5.0], [0.0, -2.0]])
    for temperature, label, expected in ((1.0, 0, 4 / 3), (1.0, 1, 4), (0.5, 0, 10 / 9)):
        logits = prototype_logits(rows, classifier, temperature=temperature)
        assert prototype_guided(logits, torch.tensor([label])).item() == pytest.approx(math.log(expected))


@given(seed=st.integers(0, 10_000), pairs=st.integers(1, 6), count=st.integers(2, 7))
def test_both_modalities_match_reference_loops(seed, pairs, count):
    generator = torch.Generator().manual_seed(seed)
    images, texts = normalise(torch.randn(2, pairs, 4, generator=generator, dtype=torch.float64))
    classifier = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(count, (pairs,), generator=generator)
    actual = sum(prototype_guided(prototype_logits(side, classifier), labels) for side in (images, texts))
    rows = classifier.tolist()
    loop = reference.cross_entropy
    triples = zip(images.tolist(), texts.tolist(), labels.tolist(), strict=True)
    expected = [loop(image, rows, label) + loop(text, rows, label) for image, text, label in triples]
    assert actual.tolist() == pytest.approx(expected, rel=1e-10)


def test_gradients_large_logits_half_precision_and_invalid_input():
    rows = torch.randn(9, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    vectors, classifier = (part.clone().requires_grad_() for part in rows.split([4, 5]))
    labels = torch.tensor([0, 4, 2, 2])
    assert gradcheck(lambda v, p: prototype_guided(prototype_logits(v, p), labels), (vectors, classifier))
    assert prototype_guided(torch.tensor([[1e4, 0.0]]), torch.tensor([1])).tolist() == [1e4]
    half = torch.randn(3, 4).bfloat16()
    logits = prototype_logits(half, half)
    assert logits.dtype == prototype_guided(logits.bfloat16(), torch.tensor([0, 1, 2])).dtype == torch.float32
    for label in (-1, 2):
        with pytest.raises(ValueError, match="labels run from 0 to 1"):
            prototype_guided(torch.zeros(1, 2), torch.tensor([label]))
    with pytest.raises(ValueError, match="temperature must be > 0"):
        prototype_logits(torch.zeros(1, 2), torch.zeros(2, 2), temperature=0.0)
