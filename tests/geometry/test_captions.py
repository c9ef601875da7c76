"""Captions in a text space: neighbours exact and approximate, images that a caption fits, against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.geometry import captions
from coder_core.geometry.captions import (
    caption_neighbours,
    caption_vectors,
    fitting_images,
    likeness_to_images,
)


def cloud(seed: int, texts: int, images: int, size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(texts, size)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, random.integers(images, size=texts)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000), texts=st.integers(1, 30), images=st.integers(1, 12), count=st.integers(1, 9)
)
def test_exact_neighbours_are_those_of_every_comparison(
    seed: int, texts: int, images: int, count: int
) -> None:
    vectors, owner = cloud(seed, texts, images)
    neighbours = caption_neighbours(vectors, owner, count)
    assert neighbours.shape == (texts, count)
    for row in range(texts):
        others = [j for j in range(texts) if owner[j] != owner[row]]
        expected = sorted(others, key=lambda j: -float(vectors[row] @ vectors[j]))[:count]
        assert neighbours[row].tolist() == expected + [-1] * (count - len(expected))


@pytest.mark.parametrize("exact", [True, False])
def test_a_caption_of_unknown_words_has_no_neighbours_and_is_nobodys(exact: bool) -> None:
    vectors, owner = cloud(2, 40, 40)[0], np.arange(40)
    vectors[[3, 17]] = 0
    neighbours = caption_neighbours(vectors, owner, 10, exact=exact)
    assert (neighbours[[3, 17]] == -1).all()
    assert not np.isin(neighbours, [3, 17]).any()
    assert (neighbours[0] >= 0).all()
    assert (caption_neighbours(np.zeros((4, 3), np.float32), np.arange(4), 2, exact=exact) == -1).all()


def test_hnsw_finds_nearly_all_and_the_same_every_time_and_progress_rises_to_the_end() -> None:
    vectors, owner = cloud(5, 1500, 300, size=16)
    seen: list[tuple[int, int]] = []

    def neighbours(exact: bool) -> np.ndarray:
        seen.clear()
        rows = caption_neighbours(vectors, owner, 50, exact=exact, progress=lambda *now: seen.append(now))
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == seen[-1][1]
        return rows

    expected, first, second = neighbours(True), neighbours(False), neighbours(False)
    shared = np.mean([len(np.intersect1d(a, b)) / 50 for a, b in zip(expected, first, strict=True)])
    assert shared > 0.99
    assert np.array_equal(first, second)
    assert not (owner[first] == owner[:, None])[first >= 0].any()


@pytest.mark.parametrize("tile", [1, 50, 1_000_000])
def test_counts_equal_those_of_loops_in_tiles_of_any_size(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captions, "TILE_ELEMENTS", tile)
    vectors, owner = cloud(0, 23, 9, size=3)
    owner[owner == 4] = 5  # image 4 has no captions
    cosines = vectors @ vectors.T
    counts = fitting_images(vectors, owner, 9, likeness=0.6)
    for text in range(23):
        alike = np.unique(owner[(cosines[text] >= 0.6) & (owner != owner[text])])
        assert counts[text] == len(alike)
    for rows, likeness in likeness_to_images(vectors, vectors, owner, 9):
        assert (likeness[:, 4] == -1).all()
        for image in set(owner):
            expected = cosines[rows][:, owner == image].max(1)
            np.testing.assert_allclose(likeness[:, image], expected, atol=1e-6)


def test_a_caption_that_others_share_fits_their_images() -> None:
    sentences = [
        "a dog runs on grass",
        "a brown dog runs on the green grass",
        "a dog runs on the grass",
        "the dog on grass",
        "two men play chess in a park",
        "chess players sit in a park",
    ]
    vectors = caption_vectors(sentences)
    counts = fitting_images(vectors, np.array([0, 0, 1, 1, 2, 2]), 3)
    assert counts.tolist() == [1, 1, 1, 1, 0, 0]
    assert caption_vectors(["red", "green", "blue"]) is None
