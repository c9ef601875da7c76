"""Captions in a text space: TF-IDF with truncated SVD, neighbours, images that a caption fits, against loops."""

import numpy as np
import pytest
from safetensors.numpy import save

from coder_core.geometry import captions
from coder_core.geometry.captions import caption_neighbours, caption_vectors, fitting_images
from coder_core.geometry.text_space import ARRAYS, NAMES, TfidfSpace, fit_tfidf
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import unit


def random_captions(seed, texts, images, size=6):
    random = np.random.default_rng(seed)
    return unit(random.normal(size=(texts, size))), random.integers(images, size=texts)


@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize(("texts", "images"), [(1, 1), (9, 1), (12, 12), (30, 4), (30, 12)])
def test_exact_neighbours_match_all_comparisons(texts, images, count):
    vectors, owner = random_captions(count, texts, images)
    neighbours = caption_neighbours(vectors, owner, count)
    assert neighbours.shape == (texts, count)
    for row in range(texts):
        others = [j for j in range(texts) if owner[j] != owner[row]]
        expected = sorted(others, key=lambda j: -float(vectors[row] @ vectors[j]))[:count]
        assert neighbours[row].tolist() == expected + [-1] * (count - len(expected))


def test_equal_cosines_are_ordered_by_number():
    vectors, _ = random_captions(7, 12, 12)
    copies = np.repeat(vectors, 3, axis=0)  # rows 3i, 3i + 1 and 3i + 2 are equal, and of different images
    neighbours = caption_neighbours(copies, np.arange(36), 8)
    for row, nearest in enumerate(neighbours):
        cosines = np.round(copies @ copies[row].astype(np.float64), captions.TIE_DECIMALS)
        others = [j for j in range(36) if j != row]
        assert nearest.tolist() == sorted(others, key=lambda j: (-cosines[j], j))[:8]


@pytest.mark.parametrize("exact_below", [0, 50])
def test_a_zero_row_has_no_neighbours(exact_below, monkeypatch):
    monkeypatch.setattr(captions, "EXACT_BELOW", exact_below)
    vectors = random_captions(2, 40, 40)[0]
    zeros = [3, 17]
    vectors[zeros] = 0
    neighbours = caption_neighbours(vectors, np.arange(40), 10)
    assert (neighbours[zeros] == -1).all()
    assert not np.isin(neighbours, zeros).any()
    assert (neighbours[0] >= 0).all()
    assert (caption_neighbours(np.zeros((4, 3), np.float32), np.arange(4), 2) == -1).all()


def test_hnsw_finds_nearly_all_neighbours_reproducibly(monkeypatch):
    vectors, owner = random_captions(5, 1500, 300, size=16)
    seen = []

    def neighbours(exact_below):
        seen.clear()
        monkeypatch.setattr(captions, "EXACT_BELOW", exact_below)
        rows = caption_neighbours(vectors, owner, 50, progress=lambda *now: seen.append(now))
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == seen[-1][1]
        return rows

    expected, first, second = map(neighbours, (2000, 0, 0))
    assert np.mean([len(np.intersect1d(a, b)) / 50 for a, b in zip(expected, first, strict=True)]) > 0.99
    assert np.array_equal(first, second)
    assert not (owner[first] == owner[:, None])[first >= 0].any()


@pytest.mark.parametrize("tile", [1, 50, 1_000_000])
def test_counts_of_fitting_images_match_loops_in_any_tile_size(tile, monkeypatch):
    monkeypatch.setattr(captions, "TILE_ELEMENTS", tile)
    vectors, owner = random_captions(0, 23, 9, size=3)
    owner[owner == 4] = 5  # image 4 has no captions
    cosines = vectors @ vectors.T
    counts = fitting_images(vectors, owner, likeness=0.6)
    for text in range(23):
        assert counts[text] == len(np.unique(owner[(cosines[text] >= 0.6) & (owner != owner[text])]))


def test_a_caption_fits_the_images_of_similar_captions():
    dogs = ["a dog runs on grass", "a brown dog runs on the green grass", "a dog runs on the grass"]
    chess = ["two men play chess in a park", "chess players sit in a park"]
    vectors = caption_vectors([*dogs, "the dog on grass", *chess])
    assert fitting_images(vectors, np.array([0, 0, 1, 1, 2, 2])).tolist() == [1, 1, 1, 1, 0, 0]
    assert caption_vectors(["red", "green", "blue"]) is None


CAPTIONS = """a red dog runs, the red dog runs fast, a blue star, one blue star and a blue ring, a red ring, the dog sits,
a cat sits near the dog, the cat runs, a star, a ring near a star""".replace("\n", " ").split(", ")


def test_tfidf_by_hand_and_the_space_is_read_back_exactly():
    space = fit_tfidf(CAPTIONS, 4)
    rows = space.encode(CAPTIONS)
    assert (rows.shape, rows.dtype) == ((10, 4), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert rows[2] @ rows[3] > rows[2] @ rows[5]
    assert not space.encode(["zebra crossing", ""]).any()
    files = space.to_files()
    assert files == fit_tfidf(CAPTIONS, 4).to_files()
    back = TfidfSpace.from_files(str(files[NAMES]).encode(), bytes(files[ARRAYS]), "run")
    assert np.array_equal(back.encode(CAPTIONS), rows)
    assert back.name == "TF-IDF of 10 words, SVD to 4"
    assert_refused("--text-space", fit_tfidf, ["one", "two", "three"], 4)
    # Terms of at least two captions: sublinear counts, idf = log((1 + m) / (1 + df)) + 1, unit rows
    space = fit_tfidf(CAPTIONS, 100)
    words = [[word for word in caption.split() if len(word) > 1] for caption in CAPTIONS]
    frequency = {word: sum(word in row for row in words) for row in words for word in row}
    terms = sorted(word for word, count in frequency.items() if count > 1)
    assert list(space.terms) == terms
    table = np.zeros((len(words), len(terms)))
    for i, row in enumerate(words):
        for j, term in enumerate(terms):
            if term in row:
                table[i, j] = (1 + np.log(row.count(term))) * (np.log(11 / (1 + frequency[term])) + 1)

    table /= np.linalg.norm(table, axis=1, keepdims=True)
    kept = space.components @ table.T  # the last singular vector is left out: one fewer than the words
    np.testing.assert_allclose(space.encode(CAPTIONS), (kept / np.linalg.norm(kept, axis=0)).T, atol=1e-5)


@pytest.mark.parametrize("count", [5, 40, 80])
@pytest.mark.filterwarnings("error")
def test_captions_of_the_same_words_give_no_warning(count):
    rows = fit_tfidf([f"scene {row % 8}, told in way {row % 5}" for row in range(count)], 9).encode(
        ["told scene"]
    )
    assert np.isfinite(rows).all()


def test_damaged_text_space_files_are_named():
    fitted = fit_tfidf(CAPTIONS, 4)
    whole = str(fitted.to_files()[NAMES]).encode()
    for names, arrays, fact in (
        (b"[", {}, "cannot be read"),
        (whole, b"no tensors", "cannot be read"),
        (b'{"format": "another", "terms": []}', {}, "is not a list of words"),
        (b'{"format": "coder-text-space-1", "terms": ["a"]}', {}, r"expected .*\[4, 1\] idf float64\[1\]"),
        (b'{"format": "coder-text-space-1", "terms": ["a", "a"]}', {}, "a word twice"),
        (whole, {"idf": np.ones(10, np.float32)}, r"contains .* idf float32\[10\]"),
        (whole, {"components": np.ones((4, 10), np.int32)}, r"contains components int32\[4, 10\]"),
        (whole, {"components": np.full((4, 10), np.nan, np.float32)}, r"float32\[4, 10\] not finite"),
        (whole, {"components": np.ones((0, 10), np.float32)}, r"contains components float32\[0, 10\]"),
    ):
        if isinstance(arrays, dict):
            arrays = save({"idf": fitted.idf, "components": fitted.components} | arrays)
        assert_refused(fact, TfidfSpace.from_files, names, arrays, "run")
