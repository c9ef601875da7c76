"""Number of other images that a caption fits, against loops."""

import numpy as np
import pytest

from coder_core.geometry import caption_likeness
from coder_core.geometry.caption_likeness import caption_vectors, fitting_images, likeness_to_images


@pytest.mark.parametrize("tile", [1, 50, 1_000_000])
def test_counts_equal_those_of_loops_in_tiles_of_any_size(tile, monkeypatch):
    monkeypatch.setattr(caption_likeness, "TILE_ELEMENTS", tile)
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


def test_a_caption_that_others_share_fits_their_images():
    captions = [
        "a dog runs on grass",
        "a brown dog runs on the green grass",
        "a dog runs on the grass",
        "the dog on grass",
        "two men play chess in a park",
        "chess players sit in a park",
    ]
    vectors = caption_vectors(captions)
    counts = fitting_images(vectors, np.array([0, 0, 1, 1, 2, 2]), 3)
    assert counts.tolist() == [1, 1, 1, 1, 0, 0]


def test_captions_that_share_no_words_have_no_space():
    assert caption_vectors(["red", "green", "blue"]) is None
