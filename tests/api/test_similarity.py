"""Similarity matrices: their samples, every cell against loops, blocks against single cells, numbers of one pair."""

import numpy as np
import pytest
import torch

from coder_core.api import LossSettings, matrix_samples, open_run, similarity
from coder_core.api.sampling import whole_split
from coder_core.api.sides import Sides
from coder_core.api.similarity import open_pair
from coder_core.objectives.diversity_contrastive import diversity_contrastive
from tests.reference.scaling import scaled as reference
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import import_clip, synthetic

DIRECTIONS = ("i2t", "t2i")
LOSS = LossSettings(temperature=0.08, gamma=0.25, epsilon=0.15)
WITHIN = np.array([3, 10, 11, 14, 75, 149])  # captions of a slice, of four images
BLOCKS = (7, ["first caption", "first image"], "captions {0} … {1} (2)")


def choose(run, source, **settings):
    return matrix_samples.choose_samples(run, "dev", matrix_samples.SampleChoice(source, **settings))


def test_a_seed_is_reproducible_and_numbers_or_words_select_pairs(run):
    one, same, other = (choose(run, "seed", size=20, seed=seed) for seed in (1, 1, 2))
    assert one.texts.tolist() == same.texts.tolist() != other.texts.tolist()
    assert len(set(one.texts.tolist())) == 20
    np.testing.assert_array_equal(one.images, run.image_of_text("dev")[one.texts])
    assert "20 of 150" in one.about
    assert len(choose(run, "seed", size=9_999).texts) == 150
    assert_refused("has 1 pair", choose, run, "seed", size=1)
    selections = {"3, 7": [3, 7], "0-3": [0, 1, 2, 3], "5 – 6; 2": [5, 6, 2], "1,1,2": [1, 2]}
    for chosen, texts in (selections | {"29, scene": [*range(145, 150)]}).items():
        assert choose(run, "chosen", chosen=chosen).texts.tolist() == texts
    faults = {"": "no pair", "zebra": "no pair", "7": "1 pair", "149-150": "caption 150: .* 0 to 149"}
    for chosen, fact in (faults | {"5-3": "'5-3'", "1-2-3": "'1-2-3'", "9" * 50: "'9{40}'"}).items():
        assert_refused(fact, choose, run, "chosen", chosen=chosen)


@pytest.mark.parametrize("within", [None, WITHIN])
def test_the_hardest_pairs_include_the_images_that_beat_them(run, within):
    rows = np.arange(150) if within is None else within
    batch = choose(run, "hardest", size=20, within=within)
    v, w = run.embeddings("dev")
    scores = w[rows] @ v.T
    owner = run.image_of_text("dev")[rows]
    own = scores[np.arange(len(rows)), owner].copy()
    scores[np.arange(len(rows)), owner] = -np.inf
    worst = int((scores.max(1) - own).argmax())
    assert batch.texts[0] == rows[worst]
    assert len(set(batch.texts.tolist())) == len(batch.texts) == min(20, len(rows))
    assert within is not None or scores[worst].argmax() in batch.images


def test_the_hardest_pairs_are_ordered_by_their_gap_to_the_best_other_image(run):
    """Each is followed by the first caption of that image; whether its own image is second changes nothing."""
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    scores = w @ v.T
    gaps = {}
    for text, image in enumerate(owner.tolist()):
        others = np.delete(np.arange(len(v)), image)
        rival = int(others[scores[text, others].argmax()])
        gaps[text] = (
            float(scores[text, rival] - scores[text, image]),
            int(np.flatnonzero(owner == rival)[0]),
        )
    expected = []
    for text in sorted(gaps, key=lambda text: -gaps[text][0]):
        expected += [text, gaps[text][1]]
    expected = list(dict.fromkeys(expected))[:150]
    assert choose(run, "hardest", size=150).texts.tolist() == expected


@pytest.mark.parametrize(("within", "shape", "most"), [(None, (30, 150), 500), (WITHIN, (4, 6), 12)])
def test_a_split_or_slice_that_is_too_large_is_sampled(run, within, shape, most, monkeypatch):
    batch = choose(run, "split", within=within)
    owner = run.image_of_text("dev")
    assert (len(batch.images), len(batch.texts), batch.paired) == (*shape, False)
    assert f"{shape[0]} images" in batch.about
    monkeypatch.setattr(matrix_samples, "SCORES_AT_MOST", most)
    batch = choose(run, "split", seed=3, within=within)
    assert len(batch.images) * len(batch.texts) <= most
    assert f"{len(batch.images)} of {shape[0]} images" in batch.about
    pairs = np.arange(150) if within is None else within
    assert batch.texts.tolist() == [text for text in pairs if owner[text] in batch.images]


@pytest.mark.parametrize("source", ["seed", "hardest", "chosen", "split"])
def test_samples_of_a_slice_are_pairs_of_the_slice(run, source):
    batch = choose(run, source, size=5, within=WITHIN, chosen="scene")
    assert set(batch.texts.tolist()) <= set(WITHIN.tolist())
    assert len(batch.texts) == (6 if source == "split" else 5)
    assert set(batch.images.tolist()) == set(run.image_of_text("dev")[batch.texts].tolist())
    if source == "chosen":  # chosen numbers may be outside the slice
        batch = choose(run, source, chosen="0-3", within=WITHIN[:1])
        assert batch.texts.tolist() == [0, 1, 2, 3]
        assert "4 of the 4 pairs" in batch.about
    else:
        for alone, fact in ((WITHIN[:0], "no pair"), (WITHIN[:1], "1 pair"), (WITHIN[1:4], "single image")):
            assert_refused(f"the slice: .*{fact}", choose, run, source, within=alone)


@pytest.mark.parametrize("source", ["seed", "split"])
@pytest.mark.parametrize("by", ["diversity", "cluster"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_ordering_keeps_every_sample(run, source, by, direction):
    batch = choose(run, source, size=25)
    of_images = similarity.matrix_sides(run, "dev", batch, "i2t")
    ordered = similarity.ordered(batch, of_images, by, direction, LOSS)
    for before, after in ((batch.images, ordered.images), (batch.texts, ordered.texts)):
        assert before.tolist() != after.tolist()
        np.testing.assert_array_equal(np.sort(before), np.sort(after))
    owner = run.image_of_text("dev")[ordered.texts]
    if ordered.paired:
        np.testing.assert_array_equal(ordered.images, owner)
    if by == "diversity":
        anchors = similarity.matrix_sides(run, "dev", batch, direction)
        diversity = similarity.shown_diversity(anchors, LOSS).diversity
        side = "images" if direction == "i2t" and source == "split" else "texts"
        order = np.argsort(diversity, kind="stable")
        np.testing.assert_array_equal(getattr(ordered, side), getattr(batch, side)[order])
        if source == "split" and direction == "t2i":
            means = [diversity[batch.texts // 5 == image].mean() for image in ordered.images]
            assert (np.diff(means) > -1e-9).all()
            return
    if source == "split":
        np.testing.assert_array_equal(owner, np.repeat(ordered.images, 5))


def test_similar_vectors_are_ordered_next_to_each_other(monkeypatch):
    """Three tight, shuffled groups: the order by tree and the order by angle keep each group together."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(3), 10))
    vectors = np.eye(8)[group] + 0.02 * rng.normal(size=(30, 8))
    for limit in (2_000, 10):
        monkeypatch.setattr(similarity, "TREE_AT_MOST", limit)
        ordered = group[similarity._alike(vectors)]
        changes = int((np.diff(ordered) != 0).sum()) + int(ordered[0] != ordered[-1])
        assert changes <= 3  # three groups on a circle


def problem(images=9, modality="image"):
    return whole_split(*synthetic(images, noise=1.0)).sides(modality)


def pairs(count=12):
    """Return a batch of pairs in which two images occur twice."""
    v, w, owner = synthetic(count - 2, noise=1.0)
    texts = np.array([0, 1, 5, 6, *range(10, 5 * (count - 4) + 10, 5)])[:count]
    return Sides(v[owner[texts]], w[texts], owner[texts], owner[texts])


@pytest.mark.parametrize("modality", ["image", "text"])
def test_every_cell_matches_reference_loops(modality):
    s = problem(modality=modality)
    scaled = similarity.scale(s, similarity.shown_diversity(s, LOSS), LOSS)
    scores = s.anchors.astype(np.float64) @ s.candidates.T.astype(np.float64)
    negative = s.anchor_images[:, None] != s.candidate_images[None]
    values = reference(scores, negative, temperature=0.08, gamma=0.25, epsilon=0.15)
    diversity, exponent, plain, share = values
    assert (scaled.row_step, scaled.column_step) == (1, 1)
    np.testing.assert_allclose(scaled.spread.diversity, diversity, rtol=1e-6)
    np.testing.assert_array_equal(scaled.spread.negatives, negative.sum(1))
    np.testing.assert_allclose(scaled.similarity, scores, atol=1e-6)
    np.testing.assert_allclose(scaled.exponent, exponent, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scaled.change, exponent - plain, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(scaled.share, share, rtol=1e-4, atol=1e-7)
    small = LossSettings(temperature=0.001, gamma=-1.0, epsilon=0.1)  # nothing overflows
    scaled = similarity.scale(s, similarity.shown_diversity(s, small), small)
    np.testing.assert_allclose(np.nansum(scaled.share, 1), 1.0, rtol=1e-4)
    with pytest.raises(ValueError, match="temperature"):
        similarity.scale(s, scaled.spread, LossSettings(temperature=0.0))


@pytest.mark.parametrize("tile", [1, 37, 1_000_000])
@pytest.mark.parametrize(("images", "cells"), [(9, 4), (10, 7), (8, 8), (5, 2)])
def test_blocks_are_the_means_of_their_cells(images, cells, tile, monkeypatch):
    s = problem(images)
    spread = similarity.shown_diversity(s, LOSS)
    sharp = similarity.scale(s, spread, LOSS, cells=10_000)
    monkeypatch.setattr(similarity, "TILE", tile)
    blocks = similarity.scale(s, spread, LOSS, cells=cells)
    r = blocks.row_step
    c = blocks.column_step
    assert max(blocks.similarity.shape) <= cells
    for name in ("similarity", "exponent", "change", "share"):
        cell = getattr(sharp, name)
        block = getattr(blocks, name)
        for i, j in np.ndindex(block.shape):
            part = cell[i * r : (i + 1) * r, j * c : (j + 1) * c]
            expected = np.nan if np.isnan(part).all() else np.nanmean(part)
            np.testing.assert_allclose(block[i, j], expected, rtol=1e-4, atol=1e-6)


def test_a_large_matrix_is_computed_in_tiles(monkeypatch):
    """No intermediate array is larger than a tile, a hundredth of the matrix."""
    s = problem(400)
    spread = similarity.shown_diversity(s, LOSS)
    sizes = []
    shares = similarity.shares
    monkeypatch.setattr(similarity, "TILE", 8_000)
    monkeypatch.setattr(similarity, "shares", lambda tile: sizes.append(tile.size) or shares(tile))
    scaled = similarity.scale(s, spread, LOSS)
    assert max(sizes) <= 8_000
    assert sum(sizes) == 400 * 2_000
    assert scaled.similarity.shape == (200, 250)


def test_one_pair_by_hand_and_diagonal_pairs_have_the_training_loss():
    """Anchor (1, 0) has the positive (1, 0) and negatives with cosines 0.6 and 0.0: mean 0.3, deviation 0.3."""
    v = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], np.float32)
    s = Sides(v, v, np.arange(3), np.arange(3))
    loss = LossSettings(temperature=0.1, gamma=0.3, epsilon=0.1)
    spread = similarity.shown_diversity(s, loss)
    scaled = similarity.scale(s, spread, loss)
    pair = open_pair(s, scaled, (0, 1), paired=True)
    raw = 1 + np.exp(-0.1 / 0.3)
    total = 1 + np.exp(3.0) + np.exp(-3.0)
    numbers = {"negatives": 2, "spread": 0.3, "raw": raw, "diversity": raw / pair.largest, "plain": 3.0}
    numbers |= {"exponent": 3.0 / pair.diversity, "total_plain": total, "share_plain": np.exp(3.0) / total}
    numbers |= {"share": np.exp(pair.exponent) / pair.total, "positive": 1.0}
    for name, value in numbers.items():
        assert getattr(pair, name) == pytest.approx(value, rel=1e-5), name
    with pytest.raises(IndexError):
        open_pair(s, scaled, (3, 0), paired=True)
    # The loss of every diagonal pair is that of the objective on the same scores
    s = pairs()
    spread = similarity.shown_diversity(s, LOSS)
    scores = torch.from_numpy(s.anchors.astype(np.float64) @ s.candidates.T.astype(np.float64))
    negatives = torch.from_numpy(s.anchor_images[:, None] != s.candidate_images[None])
    scaled = similarity.scale(s, spread, LOSS)
    opened = [open_pair(s, scaled, (k, k), paired=True) for k in range(len(s.anchors))]
    settings = {"temperature": 0.08, "margin": 0.25}
    for name, diversity in {"loss_value": torch.from_numpy(spread.diversity), "loss_plain": None}.items():
        losses = diversity_contrastive(scores, scores.diagonal(), negatives, diversity=diversity, **settings)
        np.testing.assert_allclose([getattr(pair, name) for pair in opened], losses.numpy(), rtol=1e-5)
    for cell in np.ndindex(scaled.similarity.shape):
        pair = open_pair(s, scaled, cell, paired=True)
        assert pair.own == np.isnan(scaled.exponent[cell])
        for name in ("similarity", "exponent", "share"):
            expected = getattr(scaled, name)[cell]
            np.testing.assert_allclose(getattr(pair, name), expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("source", ["seed", "split"])
def test_cells_match_the_similarities_of_the_run(run, source, direction):
    batch = choose(run, source, size=12)
    of_images = similarity.matrix_sides(run, "dev", batch, "i2t")
    batch = similarity.ordered(batch, of_images, "diversity", direction, run.loss)
    in_order = similarity.matrix_sides(run, "dev", batch, direction)
    scaled = similarity.scaled_matrix(in_order, run.loss)
    expected = run.similarity(batch.images, batch.texts, split="dev")
    np.testing.assert_allclose(scaled.similarity, expected if direction == "i2t" else expected.T, atol=1e-6)
    assert (np.diff(scaled.spread.diversity) >= 0).all()  # the most ambiguous anchor first
    cell = similarity.positions(batch, direction, int(batch.images[3]), int(batch.texts[7]))
    assert cell == ((3, 7) if direction == "i2t" else (7, 3))
    assert similarity.hardest_in_cell(in_order, scaled, 3, 9) == (3, 9)
    pair = open_pair(in_order, scaled, cell, paired=batch.paired)
    np.testing.assert_allclose(pair.similarity, scaled.similarity[cell], atol=1e-6)
    for text in np.setdiff1d(np.arange(150), batch.texts)[:1].tolist():
        assert similarity.positions(batch, direction, int(batch.images[0]), text) is None
    entropy = similarity.scaled_matrix(in_order, LossSettings(function="entropy"))
    assert (entropy.spread.spread > 3).all()
    assert (scaled.spread.spread < 1).all()


def test_a_block_opens_at_its_most_similar_negative(run):
    batch = choose(run, "split")
    in_order = similarity.matrix_sides(run, "dev", batch, "i2t")
    scaled = similarity.scaled_matrix(in_order, run.loss, cells=7)
    assert (scaled.row_step, scaled.column_step) == (5, 22)
    cell = similarity.hardest_in_cell(in_order, scaled, 1, 2)
    rows = np.arange(5, 10)
    columns = np.arange(44, 66)
    part = run.similarity(rows, columns, split="dev")
    part[rows[:, None] == run.image_of_text("dev")[None, columns]] = -1
    assert part[cell[0] - 5, cell[1] - 44] == part.max()


@pytest.mark.parametrize(("cells", "columns", "first"), [BLOCKS, (256, ["caption", "image"], "caption {0}")])
def test_table_and_labels_cover_every_cell(run, cells, columns, first):
    batch = choose(run, "seed", size=12)
    sides = similarity.matrix_sides(run, "dev", batch, "t2i")
    scaled = similarity.scaled_matrix(sides, LossSettings(), cells=cells)
    table, labels = (make(scaled, batch, "t2i") for make in (similarity.matrix_table, similarity.labels))
    assert len(table) == scaled.similarity.size
    row = table.iloc[scaled.similarity.shape[1] + 2]
    assert (row.iloc[0], row.iloc[1]) == (batch.texts[scaled.row_step], batch.images[2 * scaled.column_step])
    np.testing.assert_allclose(row["similarity"], scaled.similarity[1, 2])
    np.testing.assert_array_equal(table["share"].isna(), np.isnan(scaled.share).ravel())
    assert tuple(map(len, labels)) == scaled.similarity.shape
    assert (list(table)[:2], labels[0][0]) == (columns, first.format(*batch.texts))
    assert cells == 7 or labels[1][0] == f"image {batch.images[0]}"


def test_starting_values_follow_from_quantiles_of_the_similarities(tmp_path):
    """γ is between negatives and positives, μ a third of the distance between their medians."""
    run, alone = (open_run(import_clip(tmp_path / "runs", f"clip-{n}", images=n)) for n in (24, 1))
    v, w = (np.asarray(rows, np.float64) for rows in run.embeddings("dev"))
    is_own = np.arange(24)[:, None] == run.image_of_text("dev")
    scores = v @ w.T
    middle, top = np.quantile(scores[~is_own], [0.5, 0.99])
    positive = np.median(scores[is_own])
    values = similarity.values_from_similarities(run, "dev")
    medians = values.negatives, values.negatives_top, values.positives
    assert medians == pytest.approx((middle, top, positive), abs=1e-6)
    expected = (top + positive) / 2, (positive - middle) / 3
    assert (values.loss.gamma, values.loss.temperature) == pytest.approx(expected, abs=0.0025)
    assert values.loss.gamma < 0.1 < LossSettings().gamma
    sampled = similarity.values_from_similarities(run, "dev", pairs=1000)
    assert sampled.negatives == pytest.approx(middle, abs=0.02)
    values = similarity.values_from_similarities(alone, "dev")  # no negatives
    assert (values.loss, np.isnan(values.negatives)) == (LossSettings(), True)


def test_long_captions_are_shortened_in_labels():
    assert similarity._labels(np.array([0]), "caption", 1, ["x " * 60]) == [f"caption 0: {'x ' * 39}…"]
    assert similarity._labels(np.array([0]), "caption", 1, ["x " * 40]) == [f"caption 0: {'x ' * 39}x"]
    blocks = similarity._labels(np.array([4, 5, 9, 2, 7]), "image", 2, [])
    assert blocks == ["images 4 … 5 (2)", "images 9 … 2 (2)", "images 7 … 7 (1)"]
