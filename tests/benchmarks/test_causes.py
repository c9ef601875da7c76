"""Injected causes: what is changed, and the truth that follows from it."""

import numpy as np
import pytest

from benchmarks import causes as benchmark
from coder_core.api.causes.budget import COPY, UNLABELLED, VAGUE, WRONG

IMAGES = 400


@pytest.fixture(scope="module")
def changed():
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(IMAGES), 5)
    captions = [f"a dog beside thing{row}" for row in range(len(owner))]
    regions = random.normal(size=(IMAGES, 36, 4)).astype(np.float16)
    names = [f"{image}.jpg" for image in range(IMAGES)]
    return benchmark.change(regions, captions, owner, names, seed=1)


def test_views_and_copies_take_over_two_captions_each(changed):
    added = benchmark.TWINS + benchmark.COPIES
    assert len(changed.names) == len(set(changed.names)) == len(changed.regions) == IMAGES + added
    counts = np.bincount(changed.owner, minlength=IMAGES + added)
    assert (counts[IMAGES:] == 2).all()
    for other in (changed.twin, changed.copy):
        paired = np.flatnonzero(other >= 0)
        np.testing.assert_array_equal(other[other[paired]], paired)
    [image] = np.flatnonzero(changed.twin[:IMAGES] >= 0)[:1]
    view = changed.regions[int(changed.twin[image])].reshape(6, 4, 4)
    np.testing.assert_array_equal(view[:, :2], changed.regions[image].reshape(6, 4, 4)[:, 2:])


def test_the_truth_of_a_miss_follows_from_the_change(changed):
    moved = changed.shows != changed.owner
    assert 0.98 < moved.sum() / benchmark.MOVED_CAPTIONS <= 1  # a few meet a caption of their own image
    assert changed.vague.sum() == benchmark.VAGUE_CAPTIONS
    assert not (moved & changed.vague).any()
    queries = np.arange(len(changed.owner))
    nowhere = np.full(len(queries), -5)
    truth = benchmark.truth_of(changed, "t2i", queries, nowhere)
    assert (truth[moved] == WRONG).all()
    assert (truth[changed.vague] == VAGUE).all()
    assert (truth[~moved & ~changed.vague] == benchmark.UNTOUCHED).all()
    own = changed.owner
    of_view = changed.twin[own] >= 0
    truth = benchmark.truth_of(
        changed, "t2i", queries, np.where(of_view, changed.twin[own], changed.copy[own])
    )
    assert (truth[of_view] == UNLABELLED).all()
    assert (truth[changed.copy[own] >= 0] == COPY).all()
    images = changed.shows[moved]
    truth = benchmark.truth_of(changed, "i2t", images, np.flatnonzero(moved))
    assert (truth == UNLABELLED).all()


def test_a_log_judges_one_image_of_every_query_right_and_no_match_wrong(changed):
    log, judgements = benchmark.log_of(changed, seed=1)
    queries, images, grades = judgements.T
    right = grades == 2
    assert len(log.captions) == benchmark.LOG_QUERIES
    np.testing.assert_array_equal(queries[right], np.arange(benchmark.LOG_QUERIES))
    np.testing.assert_array_equal(images[right], log.owner)
    assert (np.bincount(queries[~right]) == benchmark.JUDGED_WRONG).all()
    for row in (log.owner, log.shows):
        wrong = images[~right]
        of_query = row[queries[~right]]
        assert not (wrong == of_query).any()
        assert not (wrong == changed.twin[of_query]).any()
        assert not (wrong == changed.copy[of_query]).any()
