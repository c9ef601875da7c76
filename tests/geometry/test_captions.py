"""Captions in a text space: neighbours exact and approximate, images that a caption fits, against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
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


def brute(vectors: np.ndarray, owner: np.ndarray, row: int, count: int) -> list[int]:
    others = [j for j in range(len(vectors)) if owner[j] != owner[row]]
    return sorted(others, key=lambda j: -float(vectors[row] @ vectors[j]))[:count]


@given(
    seed=st.integers(0, 10_000), texts=st.integers(1, 30), images=st.integers(1, 12), count=st.integers(1, 9)
)
def test_exact_neighbours_are_those_of_every_comparison(
    seed: int, texts: int, images: int, count: int
) -> None:
    vectors, owner = cloud(seed, texts, images)
    found = caption_neighbours(vectors, owner, count)
    assert found.shape == (texts, count)
    for row in range(texts):
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


@pytest.mark.parametrize("tile", [1, 50, 1_000_000])
def test_counts_equal_those_of_loops_in_tiles_of_any_size(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captions, "TILE_ELEMENTS", tile)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(23, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    image_of_text = rng.integers(0, 9, 23)
    image_of_text[image_of_text == 4] = 5  # image 4 has no captions
    counts = fitting_images(vectors, image_of_text, 9, likeness=0.6)
    for text in range(23):
        alike = {
            int(image_of_text[other])
            for other in range(23)
            if image_of_text[other] != image_of_text[text] and vectors[text] @ vectors[other] >= 0.6
        }
        assert counts[text] == len(alike)
    for rows, likeness in likeness_to_images(vectors, vectors, image_of_text, 9):
        assert (likeness[:, 4] == -1).all()
        for query in range(rows.start, rows.stop):
            for image in set(image_of_text):
                own = [vectors[query] @ vectors[text] for text in np.flatnonzero(image_of_text == image)]
                assert likeness[query - rows.start, image] == pytest.approx(max(own), abs=1e-6)


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


def test_captions_that_share_no_words_have_no_space() -> None:
    assert caption_vectors(["red", "green", "blue"]) is None
