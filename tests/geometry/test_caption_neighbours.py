"""Neighbours of captions: exact, approximate, without the caption's own image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder_core.geometry.caption_neighbours import caption_neighbours


def cloud(seed: int, captions: int, images: int, size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(captions, size)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, random.integers(images, size=captions)


def brute(vectors: np.ndarray, owner: np.ndarray, row: int, count: int) -> list[int]:
    others = [j for j in range(len(vectors)) if owner[j] != owner[row]]
    return sorted(others, key=lambda j: -float(vectors[row] @ vectors[j]))[:count]


@given(
    seed=st.integers(0, 10_000),
    captions=st.integers(1, 30),
    images=st.integers(1, 12),
    count=st.integers(1, 9),
)
def test_exact_neighbours_are_those_of_every_comparison(
    seed: int, captions: int, images: int, count: int
) -> None:
    vectors, owner = cloud(seed, captions, images)
    found = caption_neighbours(vectors, owner, count)
    assert found.shape == (captions, count)
    for row in range(captions):
        expected = brute(vectors, owner, row, count)
        assert found[row].tolist() == expected + [-1] * (count - len(expected))


@pytest.mark.parametrize("exact", [True, False])
def test_a_caption_that_says_nothing_has_no_neighbours_and_is_nobodys(exact: bool) -> None:
    vectors, owner = cloud(2, 40, 40)
    owner = np.arange(40)
    vectors[[3, 17]] = 0
    found = caption_neighbours(vectors, owner, 10, exact=exact)
    assert (found[[3, 17]] == -1).all()
    assert not np.isin(found, [3, 17]).any()
    assert (found[0] >= 0).all()


def test_no_caption_says_anything() -> None:
    assert (caption_neighbours(np.zeros((4, 3), np.float32), np.arange(4), 2) == -1).all()


def test_hnsw_finds_nearly_all_and_the_same_every_time() -> None:
    vectors, owner = cloud(5, 3000, 600, size=16)
    exact = caption_neighbours(vectors, owner, 50)
    first, second = (caption_neighbours(vectors, owner, 50, exact=False) for _ in range(2))
    shared = np.mean([len(np.intersect1d(a, b)) / 50 for a, b in zip(exact, first, strict=True)])
    assert shared > 0.99
    assert np.array_equal(first, second)
    assert not (owner[first] == owner[:, None])[first >= 0].any()


@pytest.mark.parametrize("exact", [True, False])
def test_progress_rises_to_the_end(exact: bool) -> None:
    told: list[tuple[int, int]] = []
    vectors, owner = cloud(1, 1500, 300)
    caption_neighbours(
        vectors, owner, 5, exact=exact, progress=lambda done, total: told.append((done, total))
    )
    done = [one for one, _ in told]
    assert done == sorted(done)
    assert told[-1][0] == told[-1][1]
