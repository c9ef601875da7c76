"""The fixed text space: TF-IDF with truncated SVD."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save

from coder_core.console.faults import InputError
from coder_core.geometry.text_space import ARRAYS, NAMES, TfidfSpace, fit_tfidf

CAPTIONS = """a red dog runs, the red dog runs fast, a blue star, one blue star and a blue ring, a red ring, the dog sits,
a cat sits near the dog, the cat runs, a star, a ring near a star""".replace("\n", " ").split(", ")


def test_captions_that_share_rare_words_are_near_and_rows_have_length_one() -> None:
    space = fit_tfidf(CAPTIONS, 4)
    rows = space.encode(CAPTIONS)
    assert rows.shape == (10, 4)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert rows[2] @ rows[3] > rows[2] @ rows[5]
    assert not space.encode(["zebra crossing", ""]).any()


def test_with_all_singular_vectors_cosines_are_those_of_tf_idf_by_hand() -> None:
    """Terms of at least two captions: sublinear counts, idf = log((1 + m) / (1 + df)) + 1, unit rows."""
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
    expected = kept / np.linalg.norm(kept, axis=0)
    np.testing.assert_allclose(space.encode(CAPTIONS), expected.T, atol=1e-5)


def test_fitting_twice_gives_the_same_space_and_its_files_give_it_back_bit_for_bit() -> None:
    first, second = fit_tfidf(CAPTIONS, 4), fit_tfidf(CAPTIONS, 4)
    files = first.to_files()
    assert files == second.to_files()
    back = TfidfSpace.from_files(str(files[NAMES]).encode(), bytes(files[ARRAYS]), "run")  # type: ignore[arg-type]
    assert np.array_equal(back.encode(CAPTIONS), first.encode(CAPTIONS))
    assert back.name == "TF-IDF of 10 words, SVD to 4"


FITTED = fit_tfidf(CAPTIONS, 4)
ARRAYS_OF_FIT = {"idf": FITTED.idf, "components": FITTED.components}


@pytest.mark.parametrize(
    ("names", "arrays", "said"),
    [
        (b"[", None, "cannot be read"),
        (None, b"no tensors", "cannot be read"),
        (b'{"format": "another", "terms": []}', None, "is not a list of words"),
        (
            b'{"format": "coder-text-space-1", "terms": ["a"]}',
            None,
            r"expected components float32\[4, 1\] idf float64\[1\]",
        ),
        (None, {"idf": np.ones(10, np.float32)}, r"holds .* idf float32\[10\]"),
        (None, {"components": np.ones((4, 10), np.int32)}, r"holds components int32\[4, 10\]"),
        (None, {"components": np.full((4, 10), np.nan, np.float32)}, "holds components not finite"),
        (None, {"components": np.ones((0, 10), np.float32)}, r"holds components float32\[0, 10\]"),
    ],
)
def test_damaged_files_are_named(
    names: bytes | None, arrays: bytes | dict[str, np.ndarray] | None, said: str
) -> None:
    whole = FITTED.to_files()
    if not isinstance(arrays, bytes):
        arrays = save(ARRAYS_OF_FIT | (arrays or {}))
    with pytest.raises(InputError, match=said):
        TfidfSpace.from_files(names or str(whole[NAMES]).encode(), arrays, "run")


def test_captions_that_share_no_words_are_refused_with_the_fix() -> None:
    with pytest.raises(InputError, match="--text-space"):
        fit_tfidf(["one", "two", "three"], 4)
