"""Word vectors: every way a GloVe file can be odd, and vectors learned from captions."""

import os

import numpy as np
import pytest

from coder_core.data.dataset import read_split
from coder_core.data.glove import learn_word_vectors, read_word_vectors
from coder_core.data.words import Vocabulary
from tests.support.precomp_folders import real_flickr8k, refusal

WORDS = ["<pad>", "<unknown>", "dog", "cat", "runs"]


def read(folder, content, words=WORDS, **named):
    """The vectors in a file of this content."""
    path = folder / "vectors.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_word_vectors(path, words, **named)


def test_vectors_and_coverage(tmp_path):
    vectors = read(tmp_path, "dog 1 2\n. . . 0.5 0.5\n", [". . .", "at"])  # a word is split from the right
    assert (vectors.matrix[0].tolist(), vectors.covered.tolist()) == ([0.5, 0.5], [True, False])
    vectors = read(tmp_path, "dog 1 2 3\nbird 4 5 6\ncat -1 0.5 1e-3\n", counts=[0, 0, 6, 3, 1])
    np.testing.assert_allclose(vectors.matrix, [[0] * 3, [0] * 3, [1, 2, 3], [-1, 0.5, 1e-3], [0] * 3])
    assert vectors.matrix.dtype == np.float32
    assert vectors.covered.tolist() == [False, False, True, True, False]
    assert vectors.coverage == pytest.approx(2 / 3)
    assert vectors.token_coverage == pytest.approx(0.9)
    (warning,) = vectors.faults
    assert "2 of 3 words, 67% (90% " in warning.found


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        ("dog 1 2\n. . . 5 5\nat name@x.com 1 2\ncat 3 4\ncat runs 7 7\nruns 5 6\n", 0),  # words with spaces
        ("3 2\ndog 1 2\ncat 3 4\nruns 5 6\n", 1),  # a word2vec header
        ("\ufeff3 2\ndog 1 2\ncat 3 4\nruns 5 6\n", 1),
        ("400000 2\r\ndog 1 2\ncat 3 4\nruns 5 6\n", 1),
        ("dog 1 2 \r\ncat 3 4 \nruns 5 6", 0),  # line ends of Windows and fastText
        (b"caf\xe9 1 2\ndog 1 2\ncat 3 4\nruns 5 6", 0),  # no UTF-8
        ("dog 1 2\ncat 3 4\ndog 5 6\nruns 5 6\ncat 7 8\n", 1),  # the first of two equal words
    ],
)
def test_headers_line_ends_and_repeated_words_are_accepted(tmp_path, content, notes):
    vectors = read(tmp_path, content)
    np.testing.assert_array_equal(vectors.matrix[2:], [[1, 2], [3, 4], [5, 6]])
    assert vectors.coverage == 1
    assert [fault.severity for fault in vectors.faults] == ["note"] * notes


WIDTHS = ["cat 1", "bird 1", "cat 1.0 2.0 3.0", "bird 1.0 2.0 3.0", "cat", ""]
NUMBERS = ["nan", "inf", "-inf", "1e40", "x", "1_0x"]


def test_another_width_and_numbers_that_are_none_are_an_error_with_its_line(tmp_path):
    for line in (*WIDTHS, *(f"cat 1.0 {number}" for number in NUMBERS)):
        error = refusal(read, tmp_path, f"dog 1.0 2.0\n{line}\nruns 1.0 2.0\n")
        assert error.faults[0].place == f"{tmp_path / 'vectors.txt'} line 2", line


def test_other_files_and_another_dimension_are_refused(tmp_path):
    for data in (b"", b"PK\x03\x04\0\0\0", b"\x80\x04\x95\0\0", b"x" * 3_000_000, b"dog\n"):
        assert "vectors.txt" in refusal(read, tmp_path, data).faults[0].place
    assert refusal(read, tmp_path, "dog 1 2\n", dimension=300).faults[0].expected == "300"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        assert refusal(read_word_vectors, path, WORDS).faults[0].place == str(path)


def unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def test_learned_vectors_put_words_of_equal_use_side_by_side_at_the_scale_promised():
    """dog and cat are used alike, car and bus in another way."""
    captions = [f"the {pet} eats {food}" for pet in ("dog", "cat") for food in ("meat", "fish", "bread")]
    captions += [f"a red {car} drives along {way}" for car in ("car", "bus") for way in ("roads", "streets")]
    vocabulary = Vocabulary.build(captions, threshold=1)
    vectors = learn_word_vectors(5 * captions, vocabulary, dimension=6, seed=0)
    dog, cat, car, bus = (unit(vectors)[vocabulary.number[word]] for word in ("dog", "cat", "car", "bus"))
    assert min(dog @ cat, car @ bus) > 0.9
    assert dog @ car < 0.5
    vectors = learn_word_vectors(captions, vocabulary, dimension=50, seed=1)
    assert (vectors.shape, vectors.dtype) == ((len(vocabulary), 50), np.float32)
    assert not vectors[0].any()
    assert (vectors[1:] ** 2).sum(1).mean() == pytest.approx(1, rel=1e-5)
    np.testing.assert_array_equal(vectors, learn_word_vectors(captions, vocabulary, dimension=50, seed=1))
    with pytest.raises(ValueError, match="at least 1"):
        learn_word_vectors(captions, vocabulary, dimension=0, seed=1)
    single = Vocabulary.build(["dog", "cat"], threshold=1)  # no word beside another
    assert not learn_word_vectors(["dog", "cat"], single, dimension=4, seed=0).any()


def test_real_vectors_and_learned_ones_agree_on_neighbours():
    folder = real_flickr8k()
    captions = read_split(folder / "f8k_precomp", "train", check_values=False).captions
    vocabulary = Vocabulary.build(captions)
    path = folder / "glove_50d_flickr8k_words.txt"
    given = read_word_vectors(path, vocabulary.words, counts=vocabulary.counts)
    assert given.matrix.shape == (len(vocabulary), 50)
    assert given.token_coverage > 0.96
    learned = learn_word_vectors(captions, vocabulary, dimension=100, seed=0)
    for rows in (unit(given.matrix), unit(learned)):
        near = np.argsort(-rows @ rows[vocabulary.number["red"]])[:9]
        assert len({"blue", "yellow", "green", "orange", "white"} & {vocabulary.words[i] for i in near}) >= 3
