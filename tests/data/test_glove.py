"""Word vectors: every way a GloVe file can be odd, and vectors learned from captions."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data import words as glove
from coder_core.data.dataset import read_split
from coder_core.data.words import PAD, UNKNOWN, Vocabulary, learn_word_vectors, read_word_vectors, tokenise
from tests.support.precomp_folders import real_flickr8k, refusal

WORDS = ["<pad>", "<unknown>", "dog", "cat", "runs"]


def read(folder, content, words=WORDS, **named):
    """Write a file with this content and return the vectors read from it."""
    path = folder / "vectors.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_word_vectors(path, words, **named)


def test_word_vectors_are_read_with_their_coverage(tmp_path):
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


def test_vectors_of_one_number_have_no_header(tmp_path):
    """ "5 1" is the word "5" with its number."""
    vectors = read(tmp_path, "5 1\na 2\n", ["5", "a"])
    assert vectors.matrix.tolist() == [[1], [2]]
    assert vectors.faults == []


LINES = ["cat 1", "bird 1", "cat 1.0 2.0 3.0", "bird 1.0 2.0 3.0", "cat", ""]
LINES += [f"cat 1.0 {number}" for number in ("nan", "inf", "-inf", "1e40", "x", "1_0x")]


def test_invalid_lines_files_and_dimensions_are_refused(tmp_path):
    for line in LINES:
        error = refusal(read, tmp_path, f"dog 1.0 2.0\n{line}\nruns 1.0 2.0\n")
        assert error.faults[0].place == f"{tmp_path / 'vectors.txt'} line 2", line
    for data in (b"", b"PK\x03\x04\0\0\0", b"\x80\x04\x95\0\0", b"x" * 3_000_000, b"dog\n"):
        assert "vectors.txt" in refusal(read, tmp_path, data).faults[0].place
    assert refusal(read, tmp_path, "dog 1 2\n", dimension=300).faults[0].expected == "300"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        assert refusal(read_word_vectors, path, WORDS).faults[0].place == str(path)


def unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def test_learned_vectors_group_words_of_equal_use_at_unit_scale():
    """dog and cat are used in one way, car and bus in another."""
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
    words = Vocabulary.build(["dog cat runs"], threshold=1)
    counts = glove._cooccurrence(["dog cat runs"], words)
    number = words.number
    assert [counts[number["dog"], number[word]] for word in ("dog", "cat", "runs")] == [0, 1, 0.5]
    single = Vocabulary.build(["dog", "cat"], threshold=1)  # no word beside another
    assert not learn_word_vectors(["dog", "cat"], single, dimension=4, seed=0).any()


def test_real_and_learned_vectors_agree_on_neighbours():
    folder = real_flickr8k()
    captions = read_split(folder / "f8k_precomp", "train", check_values=False).captions
    vocabulary = Vocabulary.build(captions)
    path = folder / "glove_50d_flickr8k_words.txt"
    given = read_word_vectors(path, vocabulary.words, counts=vocabulary.counts)
    assert given.matrix.shape == (len(vocabulary), 50)
    assert given.token_coverage > 0.96
    for rows in (unit(given.matrix), unit(learn_word_vectors(captions, vocabulary, dimension=100, seed=0))):
        near = np.argsort(-rows @ rows[vocabulary.number["red"]])[:9]
        assert len({"blue", "yellow", "green", "orange", "white"} & {vocabulary.words[i] for i in near}) >= 3


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A Dog, running !", ["a", "dog", "running"]),
        ("the man's T-shirt", ["the", "man", "'s", "t", "shirt"]),
        ("they don't, can’t", ["they", "do", "n't", "ca", "n't"]),
        ("3.50 of 1,000 on the 2nd", ["3.50", "of", "1,000", "on", "the", "2nd"]),
        ("Café ＤＯＧ Straße", ["café", "ｄｏｇ", "straße"]),
        ("cafe\u0301", ["café"]),
        ("'quoted' words' end", ["quoted", "words", "end"]),
        ("a_b #7 %{x} <b>bold</b>", ["a", "b", "7", "x", "b", "bold", "b"]),
        ("一只狗", ["一只狗"]),
        ("one\u2028two\x85three\x00four", ["one", "two", "three", "four"]),
        (". , ! ?", []),
        ("\u0301" * 10_000, []),
    ],
)
def test_captions_are_split_into_words(caption, words):
    assert tokenise(caption) == words


def test_the_vocabulary_starts_with_frequent_words_and_encodes_captions():
    vocabulary = Vocabulary.build(["a dog"], threshold=1)
    tokens = vocabulary.encode(["a dog", "!!", "a cat", "the cat", "dog " * 300])
    assert tokens.ids[:6].tolist() == [2, 3, 1, 2, 1, 1]
    assert tokens.lengths.tolist() == [2, 1, 2, 2, 200]
    assert (tokens.ids.dtype, tokens.offsets.dtype) == (np.int32, np.int64)
    assert tokens.all_unknown().tolist() == [1, 3]
    assert tokens.unknown_share() == pytest.approx(4 / 207)
    assert vocabulary.encode(["a dog a dog"], longest=3).lengths.tolist() == [3]
    known_and_unknown = ["a", "dog"], ["unicorn", "雪", "pad"]
    assert vocabulary.known_and_unknown("A dog, a unicorn: 雪 🐶 unicorn <pad>") == known_and_unknown
    assert vocabulary.known_and_unknown("🐶 ?!") == ([], [])
    captions = ["a dog", "a dog", "a cat", "a bird"]
    vocabulary = Vocabulary.build(captions, threshold=1)
    assert vocabulary.words == ["<pad>", "<unknown>", "a", "dog", "bird", "cat"]
    assert vocabulary.counts == [0, 0, 4, 2, 1, 1]
    assert Vocabulary.build(captions, threshold=2).words[2:] == ["a", "dog"]
    assert (PAD, UNKNOWN, len(vocabulary)) == (0, 1, 6)
    assert refusal(Vocabulary.build, ["a dog", "a cat"]).faults[0].place == "vocabulary"
    with pytest.raises(ValueError, match="got 0"):
        Vocabulary.build(["a"], threshold=0)
    good = {"format": "coder-words-1", "words": [*WORDS[:2], "a"], "counts": [0, 0, 4]}
    changes = [{"format": "other"}, {"words": ["a", "b", "c"]}, {"words": [*WORDS[:2], 3]}, {"counts": [1]}]
    changes += [{"counts": [0, 0, "4"]}, {"words": [*WORDS[:2], "a", "a"], "counts": [0, 0, 1, 1]}]
    for text in (*(json.dumps(good | change) for change in changes), json.dumps(good)[:-1], "[]"):
        assert refusal(Vocabulary.from_text, text, "words.json").faults[0].place == "words.json"


@settings(max_examples=25)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_any_text_is_encoded_and_vocabularies_round_trip(captions):
    vocabulary = Vocabulary.build([*captions, "a"], threshold=1)
    assert Vocabulary.from_text(vocabulary.to_text(), "words.json") == vocabulary
    tokens = vocabulary.encode(captions)
    assert len(tokens) == len(captions)
    for j, caption in enumerate(captions):
        words = tokenise(caption)
        assert all(word and not word.isspace() and " " not in word for word in words)
        numbers = tokens.ids[tokens.offsets[j] : tokens.offsets[j + 1]]
        assert [vocabulary.words[number] for number in numbers] == (words[:200] or ["<unknown>"])
