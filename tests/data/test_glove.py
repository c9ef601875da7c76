"""Word vectors: every way a GloVe file can be odd, and vectors learned from captions."""

import os

import numpy as np
import pytest

from coder_core.data.dataset import read_split
from coder_core.data.glove import learn_word_vectors, read_word_vectors
from coder_core.data.words import Vocabulary
from tests.support.precomp_folders import real_flickr8k, refusal

WORDS = ["<pad>", "<unknown>", "dog", "cat", "runs"]


def write(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_vectors_and_coverage(tmp_path):
    path = write(tmp_path, "dog 1 2 3\nbird 4 5 6\ncat -1 0.5 1e-3\n")
    vectors = read_word_vectors(path, WORDS, counts=[0, 0, 6, 3, 1])
    np.testing.assert_allclose(vectors.matrix, [[0] * 3, [0] * 3, [1, 2, 3], [-1, 0.5, 1e-3], [0] * 3])
    assert vectors.matrix.dtype == np.float32
    assert vectors.covered.tolist() == [False, False, True, True, False]
    assert vectors.coverage == pytest.approx(2 / 3)
    assert vectors.token_coverage == pytest.approx(0.9)
    (warning,) = vectors.faults
    assert "2 of 3 words, 67% (90% of the running text)" in warning.found


@pytest.mark.parametrize("header", ["3 2\n", "\ufeff3 2\n", "400000 2\r\n"])
def test_a_word2vec_header_is_accepted(tmp_path, header):
    vectors = read_word_vectors(write(tmp_path, header + "dog 1 2\ncat 3 4\nruns 5 6\n"), WORDS)
    assert vectors.matrix.shape == (5, 2)
    assert vectors.coverage == 1
    assert [fault.severity for fault in vectors.faults] == ["note"]


def test_line_ends_of_windows_and_fasttext(tmp_path):
    vectors = read_word_vectors(write(tmp_path, "dog 1 2 \r\ncat 3 4 \nruns 5 6"), WORDS)
    np.testing.assert_array_equal(vectors.matrix[2:], [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("line", ["cat 1", "bird 1", "cat 1.0 2.0 3.0", "bird 1.0 2.0 3.0", "cat", ""])
def test_another_width_is_an_error_with_its_line(tmp_path, line):
    path = write(tmp_path, f"dog 1.0 2.0\n{line}\nruns 1.0 2.0\n")
    assert "vectors.txt line 2: " in str(refusal(read_word_vectors, path, WORDS))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e40", "x", "1_0x"])
def test_numbers_that_are_none_are_an_error(tmp_path, value):
    path = write(tmp_path, f"dog 1 2\ncat 1 {value}\n")
    assert f"line 2: '{value}' is not a finite number" in str(refusal(read_word_vectors, path, WORDS))


def test_a_file_of_another_dimension_is_refused_when_one_is_asked(tmp_path):
    path = write(tmp_path, "dog 1 2\n")
    assert "vectors of 2 numbers; expected 300" in str(refusal(read_word_vectors, path, WORDS, dimension=300))


def test_the_first_of_two_equal_words_counts(tmp_path):
    vectors = read_word_vectors(write(tmp_path, "dog 1 2\ncat 3 4\ndog 5 6\nruns 1 1\ncat 7 8\n"), WORDS)
    np.testing.assert_array_equal(vectors.matrix[2:4], [[1, 2], [3, 4]])
    assert "2 words stand there again" in vectors.faults[0].found


def test_words_with_spaces_are_split_from_the_right(tmp_path):
    text = "dog 1 2\n. . . 0.5 0.5\nat name@domain.com 0.1 0.2\ncat runs 7 7\nruns 3 3\n"
    vectors = read_word_vectors(write(tmp_path, text), [*WORDS, "at", ". . ."])
    assert vectors.covered.tolist() == [False, False, True, False, True, False, True]
    np.testing.assert_allclose(vectors.matrix[[2, 4, 6]], [[1, 2], [3, 3], [0.5, 0.5]])


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04\0\0\0", b"\x80\x04\x95\0\0", b"x" * 3_000_000, b"dog\n"])
def test_what_is_not_such_a_file(tmp_path, data):
    assert "vectors.txt" in str(refusal(read_word_vectors, write(tmp_path, data), WORDS))


def test_a_missing_file(tmp_path):
    assert "cannot be opened" in str(refusal(read_word_vectors, tmp_path / "none", WORDS))
    assert "cannot be opened" in str(refusal(read_word_vectors, tmp_path, WORDS))
    os.mkfifo(tmp_path / "pipe")
    assert "cannot be opened: not a plain file" in str(refusal(read_word_vectors, tmp_path / "pipe", WORDS))


def test_a_word_that_is_not_utf8_disturbs_nobody(tmp_path):
    assert read_word_vectors(write(tmp_path, b"caf\xe9 1 2\ndog 3 4\n"), ["dog"]).coverage == 1


def test_learned_vectors_put_words_of_equal_use_side_by_side():
    """dog and cat stand in the same places, car and bus in others."""
    captions = [
        f"the {animal} eats {food}" for animal in ("dog", "cat") for food in ("meat", "fish", "bread")
    ] * 5
    captions += [
        f"a red {thing} drives along {road}" for thing in ("car", "bus") for road in ("roads", "streets")
    ] * 5
    vocabulary = Vocabulary.build(captions, threshold=1)
    vectors = learn_word_vectors(captions, vocabulary, dimension=6, seed=0)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    dog, cat, car, bus = (unit[vocabulary.number[word]] for word in ("dog", "cat", "car", "bus"))
    assert min(dog @ cat, car @ bus) > 0.9
    assert dog @ car < 0.5


def test_learned_vectors_have_the_shape_and_scale_promised():
    captions = ["a dog runs", "a cat runs", "two dogs"] * 3
    vocabulary = Vocabulary.build(captions, threshold=1)
    vectors = learn_word_vectors(captions, vocabulary, dimension=50, seed=1)
    assert (vectors.shape, vectors.dtype) == ((len(vocabulary), 50), np.float32)
    assert not vectors[0].any()
    assert (vectors[1:] ** 2).sum(1).mean() == pytest.approx(1, rel=1e-5)
    np.testing.assert_array_equal(vectors, learn_word_vectors(captions, vocabulary, dimension=50, seed=1))
    with pytest.raises(ValueError, match="at least 1"):
        learn_word_vectors(captions, vocabulary, dimension=0, seed=1)


def test_captions_of_one_word_teach_nothing_and_break_nothing():
    vocabulary = Vocabulary.build(["dog", "cat"], threshold=1)
    assert not learn_word_vectors(["dog", "cat"], vocabulary, dimension=4, seed=0).any()


def test_real_vectors_and_learned_ones_agree_on_neighbours():
    folder = real_flickr8k()
    captions = read_split(folder / "f8k_precomp", "train", check_values=False).captions
    vocabulary = Vocabulary.build(captions)
    given = read_word_vectors(
        folder / "glove_50d_flickr8k_words.txt", vocabulary.words, counts=vocabulary.counts
    )
    assert given.matrix.shape == (len(vocabulary), 50)
    assert given.token_coverage > 0.96
    learned = learn_word_vectors(captions, vocabulary, dimension=100, seed=0)
    for matrix in (given.matrix, learned):
        unit = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
        near = np.argsort(-unit @ unit[vocabulary.number["red"]])[:9]
        assert len({"blue", "yellow", "green", "orange", "white"} & {vocabulary.words[i] for i in near}) >= 3
