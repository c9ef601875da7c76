"""The bootstrap: recalls from hits, intervals against loops over drawn images, seeds, and what counts as noise."""

import numpy as np
import pytest

from coder_core.evaluation import bootstrap
from coder_core.evaluation.bootstrap import (
    Difference,
    count_hits,
    difference,
    mean_change,
    mean_intervals,
    recall_differences,
    recall_intervals,
    recalls,
)


def random_ranks(seed, images=30, better=0):
    """Draw ranks, lower by `better`, of images with one to three captions and of captions; the last image has none."""
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(images - 1), np.random.default_rng(99).integers(1, 4, images - 1))
    image_ranks = np.append(random.integers(0, 25, images - 1), -1)
    text_ranks = random.integers(0, 25, len(owner))
    image_ranks = np.where(image_ranks < 0, -1, np.maximum(image_ranks - better, 0))
    return image_ranks, np.maximum(text_ranks - better, 0), owner


def loops(images, image_ranks, text_ranks, owner):
    """Return R@sum over a list of images, each as often as it was drawn, and their captions."""
    total = 0.0
    captions_of = {i: [j for j in range(len(owner)) if owner[j] == i] for i in set(images)}
    for k in (1, 5, 10):
        of_images = [image_ranks[i] < k for i in images if image_ranks[i] >= 0]
        captions = [text_ranks[j] < k for i in images for j in captions_of[i]]
        total += 100 * sum(of_images) / len(of_images) + 100 * sum(captions) / len(captions)
    return float(total)


def test_recalls_by_hand_and_draws_without_queries_are_left_out():
    """Image 0 found at rank 1, image 1 at rank 6; three captions at ranks 1, 3 and 20."""
    counted = count_hits(np.array([0, 5]), np.array([0, 2, 19]), np.array([0, 0, 1]))
    assert counted.hits.tolist() == [[1, 1, 1, 1, 2, 2], [0, 0, 1, 0, 0, 0]]
    assert counted.queries.tolist() == [[1, 2], [1, 1]]
    expected = 100 * (1 / 2 + 1 / 2 + 1 + 1 / 3 + 2 / 3 + 2 / 3)
    sums = recalls(np.array([[1.0, 1.0], [2.0, 0.0]]), counted)[:, -1]
    assert sums.tolist() == pytest.approx([expected, 100 * (3 + 1 / 2 + 1 + 1)])
    # All queries of the slice are found, and most images have no query in it: no draw can find fewer
    for images in (1, 2, 3):
        counted = count_hits(np.repeat([0, -1], [images, 50]), np.zeros(images, int), np.arange(images))
        intervals = recall_intervals(counted)[:, 1:]
        np.testing.assert_array_equal(intervals, [[100.0, 100.0]] * 6 + [[600.0, 600.0]])
        change = recall_differences(counted, bootstrap.Hits(0 * counted.hits, counted.queries))["rsum"]
        assert (change.low, change.high) == (600, 600)


def test_draws_and_intervals_match_resampling_in_loops():
    """Images are drawn with their captions; intervals agree up to the randomness of the draws."""
    ours = random_ranks(1, better=3)
    theirs = random_ranks(2)
    random = np.random.default_rng(0)
    draws = [random.integers(0, 30, 30) for _ in range(1000)]
    redrawn = np.array([[loops(images.tolist(), *ranks) for ranks in (ours, theirs)] for images in draws])
    weights = np.stack([np.bincount(images, minlength=30) for images in draws]).astype(float)
    for ranks, sums in zip((ours, theirs), redrawn.T, strict=True):
        np.testing.assert_allclose(recalls(weights, count_hits(*ranks))[:, -1], sums)
    actual = difference([count_hits(*ours)], [count_hits(*theirs)], draws=3000)
    assert actual.mean == pytest.approx(loops(list(range(30)), *ours) - loops(list(range(30)), *theirs))
    low, high = np.percentile(redrawn[:, 0] - redrawn[:, 1], [2.5, 97.5])
    assert (actual.low, actual.high) == pytest.approx((low, high), abs=0.1 * (high - low))
    assert not actual.seeds


def test_differences_are_paired_and_drawing_seeds_widens_intervals():
    """Differences are paired: a run compared with itself differs by zero in every draw."""
    ranks = random_ranks(3)
    one = count_hits(*ranks)
    another = count_hits(*random_ranks(8))
    actual = difference([one], [one])
    assert (actual.mean, actual.low, actual.high) == pytest.approx((0, 0, 0), abs=1e-9)
    assert not actual.beyond_noise
    assert difference([one], [another]) == difference([one], [another])  # the same draws every time
    elsewhere = count_hits(*ranks[:2], np.append(1, ranks[2][1:]))
    for compare in (lambda: difference([one], [elsewhere]), lambda: recall_differences(one, elsewhere)):
        with pytest.raises(ValueError, match="different captions"):
            compare()
    ranks = random_ranks(4, images=200)
    base = count_hits(*ranks)
    large = count_hits(*random_ranks(4, images=200, better=8))
    ranks[0][0] = 0
    changes = (difference([counted], [base]).beyond_noise for counted in (large, count_hits(*ranks)))
    assert list(changes) == [True, False]
    # Two seeds that differ a lot: drawing seeds as well widens the interval
    good, bad, base = (count_hits(*random_ranks(5, images=200, better=better)) for better in (12, 0, 4))
    one = difference([good, bad], [base])
    both = difference([good, bad], [base, base])
    assert (one.seeds, both.seeds) == (False, True)
    assert both.mean == pytest.approx(one.mean)
    assert both.high - both.low > 2 * (one.high - one.low)


def test_the_seven_differences_match_separate_calculations(monkeypatch):
    """R@sum is that of `difference`; drawing equal images together gives about the same intervals as redrawing."""
    rng = np.random.default_rng(5)
    owner = np.repeat(np.arange(300), 5)
    runs = [count_hits(rng.geometric(p, 300) - 1, rng.geometric(p, 1500) - 1, owner) for p in (0.3, 0.25)]
    seven = recall_differences(*runs)
    assert tuple(seven) == bootstrap.RECALLS
    whole = difference([runs[0]], [runs[1]])
    intervals = {name: (change.mean, change.low, change.high) for name, change in seven.items()}
    assert intervals["rsum"] == pytest.approx((whole.mean, whole.low, whole.high), abs=1e-9)
    alone = recall_intervals(runs[0])
    measured = alone[:, 0] - recall_intervals(runs[1])[:, 0]
    np.testing.assert_allclose([mean for mean, _, _ in intervals.values()], measured, atol=1e-9)
    monkeypatch.setattr(bootstrap, "CELLS", 100_000)
    for limit in ("MANY", "VERY_MANY"):
        monkeypatch.setattr(bootstrap, limit, 100)
        for name, change in recall_differences(*runs).items():
            mean, *ends = intervals[name]
            assert change.mean == pytest.approx(mean, abs=1e-9)
            assert [change.low, change.high] == pytest.approx(ends, abs=0.1 * (ends[1] - ends[0]))
    ends = recall_intervals(runs[0])  # equal hits are drawn together now
    np.testing.assert_allclose(ends[:, 0], alone[:, 0], atol=1e-9)
    assert (abs(ends - alone)[:, 1:] < 0.1 * (alone[:, 2:] - alone[:, 1:2])).all()


def test_the_change_of_a_mean_is_a_paired_bootstrap_over_images():
    """Loops over the same draws, with some queries left out of the mean after."""
    random = np.random.default_rng(4)
    images = random.integers(0, 12, 40)
    before = random.random(40) < 0.4
    after = before | (random.random(40) < 0.2)
    counted = random.random(40) < 0.9
    measured, low, high = mean_change(before, after, counted, images)
    assert measured == pytest.approx(after[counted].mean() - before.mean())
    same = mean_change(before, before, np.ones(40, bool), images)
    np.testing.assert_array_equal(same, 0)
    groups = np.unique(images)
    draws = random.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=4000)
    changes = []
    for draw in draws:
        weight = draw[np.searchsorted(groups, images)]
        kept = weight * counted
        changes.append((kept * after).sum() / kept.sum() - (weight * before).sum() / weight.sum())
    np.testing.assert_allclose([low, high], np.percentile(changes, [2.5, 97.5]), atol=0.02)


def test_intervals_are_those_of_a_binomial_and_the_same_in_every_version():
    """Half of 400 queries are found. 95% of the draws of so many have 181 to 220 found ones, 45.25% to 55%."""
    half = np.repeat([0, 20], 200)
    counted = count_hits(half, half, np.arange(400))
    nothing = count_hits(np.full(400, 20), np.full(400, 20), np.arange(400))
    assert recall_intervals(counted)[0].tolist() == pytest.approx([50, 45.25, 55])
    change = difference([counted], [nothing])
    assert (change.mean, change.low, change.high) == pytest.approx((300, 271.5, 330))
    one = recall_differences(counted, nothing)["t2i_r10"]
    assert (one.mean, one.low, one.high, one.seeds) == (50, pytest.approx(45.25), pytest.approx(55), False)


def test_intervals_of_means_are_those_of_a_change_from_zero():
    """Two values of every query; some queries are about the same image and are drawn together."""
    random = np.random.default_rng(6)
    images = random.integers(0, 15, 40)
    values = random.random((40, 2))
    actual = mean_intervals(values, images)
    for column, interval in enumerate(actual):
        expected = mean_change(np.zeros(40), values[:, column], np.ones(40, bool), images)
        np.testing.assert_allclose(interval, expected, atol=1e-12)


def test_a_single_query_has_a_mean_and_nothing_counted_has_none():
    one = np.zeros(1, int)
    assert mean_change(np.zeros(1), np.ones(1), np.ones(1, bool), one).tolist() == [1, 1, 1]
    assert mean_change(np.ones(1), np.ones(1), np.zeros(1, bool), one).tolist() == [-1, -1, -1]
    assert mean_intervals(np.array([[0.25, 1.0]]), one).tolist() == [[0.25] * 3, [1.0] * 3]


def test_an_interval_that_touches_zero_may_be_noise():
    ends = [(0, 2), (-2, 0), (-1, 1), (0.5, 2), (-2, -0.5)]
    beyond = [Difference(0.0, low, high, seeds=False).beyond_noise for low, high in ends]
    assert beyond == [False, False, False, True, True]


def test_seeds_are_drawn_only_if_both_rows_have_several():
    good, bad, base = (count_hits(*random_ranks(5, better=better)) for better in (12, 0, 4))
    assert not difference([good], [base, base], draws=50).seeds
    assert difference([good, bad], [base, base], draws=50).seeds


def test_a_direction_without_queries_has_no_difference():
    """A search log may ask by captions only."""
    asked = count_hits(np.full(3, -1), np.array([0, 0, 9]), np.arange(3))
    worse = count_hits(np.full(3, -1), np.array([0, 9, 9]), np.arange(3))
    changes = recall_differences(asked, worse)
    assert list(changes) == ["t2i_r1", "t2i_r5", "t2i_r10"]
    assert changes["t2i_r1"].mean == pytest.approx(100 / 3)
    assert changes["t2i_r10"].mean == pytest.approx(0)
