"""Likely matches: guesses from the captions alone, against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import Run, open_run, sampling
from coder_core.api.retrieval.likely import LikelyMatches, likely_matches, sampled_space, text_vectors
from coder_core.api.sides import Direction
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_run(tmp_path_factory.mktemp("lab"), "b", noise=2.0, images=30, pictures=False))


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_likeness_is_the_largest_cosine_between_captions_of_both(run: Run, direction: str) -> None:
    vectors = text_vectors(run, "dev")
    assert vectors is not None
    owner = run.image_of_text("dev")
    guesses = likely_matches(run, "dev", direction, vectors)  # type: ignore[arg-type]
    best = np.asarray(run.analysis("dev").text_best if direction == "t2i" else run.analysis("dev").image_best)
    for query, results in enumerate(best):
        own = [query] if direction == "t2i" else np.flatnonzero(owner == query)
        for place, result in enumerate(results):
            others = np.flatnonzero(owner == result) if direction == "t2i" else [result]
            expected = max(vectors[a] @ vectors[b] for a in own for b in others)
            assert guesses.likeness[query, place] == pytest.approx(expected, abs=1e-6)
            same = owner[query] == result if direction == "t2i" else owner[result] == query
            assert guesses.match[query, place] == same
    labelled, with_likely = guesses.recall(1)
    name = f"{direction}_r1"
    assert labelled == pytest.approx(100 * (run.ranks("dev")[direction] == 0).mean())
    assert labelled == pytest.approx(run.metrics("dev")[name])
    assert with_likely >= labelled


def test_a_likely_result_counts_beside_the_labels_only() -> None:
    guesses = LikelyMatches(
        likeness=np.array([[1.0, 0.2], [0.6, 0.9], [0.4, 0.7], [0.1, 0.1], [0.9, 0.9]]),
        match=np.array([[True, False], [False, True], [False, False], [False, False], [False, False]]),
        ranks=np.array([0, 1, 5, 7, -1]),  # the last is an image without captions
    )
    assert guesses.likely(0.5).tolist() == [
        [False] * 2,
        [True, False],
        [False, True],
        [False] * 2,
        [True] * 2,
    ]
    assert guesses.probably_right(1, 0.5).tolist() == [False, True, False, False, False]
    assert guesses.probably_right(2, 0.5).tolist() == [False, False, True, False, False]
    assert guesses.recall(1, 0.5) == (25.0, 50.0)
    assert guesses.recall(2, 0.5) == (50.0, 75.0)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_a_sample_of_the_queries_is_guessed_about_as_the_whole_is(
    run: Run, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a space fitted to a sample of the captions, of which only those that are compared are encoded."""
    assert run.query_sample("dev") is None
    monkeypatch.setattr(sampling, "SCORES_AT_MOST", 30 * 150 - 1)
    monkeypatch.setattr(sampling, "QUERIES_AT_MOST", 40)
    sample, fitted = run.query_sample("dev"), run.sample("dev")
    assert sample is not None
    assert fitted is not None
    assert (len(sample.images), len(sample.texts)) == (8, 40)
    queries = sample.texts if direction == "t2i" else sample.images
    space = sampled_space(run, "dev", fitted)
    assert space is not None
    whole = likely_matches(run, "dev", direction, space.encode(run.captions("dev")))
    guesses = likely_matches(run, "dev", direction, space, queries)
    np.testing.assert_allclose(guesses.likeness[queries], whole.likeness[queries], atol=1e-6)
    np.testing.assert_array_equal(guesses.match[queries], whole.match[queries])
    others = np.setdiff1d(np.arange(len(whole.ranks)), queries)
    assert (guesses.likeness[others] == -1).all()
    assert not guesses.match[others].any()
    assert not guesses.likely()[others].any()
    assert guesses.recall(1, 0.5) == pytest.approx(whole.recall(1, 0.5, queries))
    assert guesses.recall(1, 0.5, others) == (pytest.approx(np.nan, nan_ok=True),) * 2
    assert guesses.recall(1, 0.5, queries[:3]) == pytest.approx(whole.recall(1, 0.5, queries[:3]))


def test_images_without_captions_are_like_nothing(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path, "gaps", images=6, pictures=False))
    vectors = text_vectors(run, "dev")
    assert vectors is not None
    owner = run.image_of_text("dev")
    kept = owner.copy()
    kept[owner == 2] = 3  # nothing is left that describes image 2
    run.image_of_text = lambda split: kept  # type: ignore[method-assign]
    guesses = likely_matches(run, "dev", "t2i", vectors)
    best = np.asarray(run.analysis("dev").text_best)
    assert (guesses.likeness[best == 2] == -1).all()
