"""Words: tokenising, the vocabulary from train captions, and flat arrays."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data.words import PAD, UNKNOWN, Vocabulary, tokenise
from tests.support.precomp_folders import refusal

SPECIAL = ["<pad>", "<unknown>"]


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
        ("", []),
    ],
)
def test_captions_become_words(caption, words):
    assert tokenise(caption) == words


def test_the_vocabulary_holds_frequent_words_most_frequent_first():
    captions = ["a dog", "a dog", "a cat", "a bird"]
    vocabulary = Vocabulary.build(captions, threshold=1)
    assert vocabulary.words == ["<pad>", "<unknown>", "a", "dog", "bird", "cat"]
    assert vocabulary.counts == [0, 0, 4, 2, 1, 1]
    assert Vocabulary.build(captions, threshold=2).words[2:] == ["a", "dog"]
    assert (PAD, UNKNOWN, len(vocabulary)) == (0, 1, 6)
    assert refusal(Vocabulary.build, ["a dog", "a cat"]).faults[0].place == "vocabulary"
    with pytest.raises(ValueError, match="got 0"):
        Vocabulary.build(["a"], threshold=0)


def test_captions_become_flat_numbers_and_none_is_empty():
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


@settings(max_examples=25)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_any_text_is_encoded_caption_by_caption_and_a_vocabulary_is_read_back(captions):
    vocabulary = Vocabulary.build([*captions, "a"], threshold=1)
    assert Vocabulary.from_text(vocabulary.to_text(), "words.json") == vocabulary
    tokens = vocabulary.encode(captions)
    assert len(tokens) == len(captions)
    for j, caption in enumerate(captions):
        words = tokenise(caption)
        assert all(word and not word.isspace() and " " not in word for word in words)
        numbers = tokens.ids[tokens.offsets[j] : tokens.offsets[j + 1]]
        assert [vocabulary.words[number] for number in numbers] == (words[:200] or ["<unknown>"])


def test_a_damaged_vocabulary_is_refused():
    good = {"format": "coder-words-1", "words": [*SPECIAL, "a"], "counts": [0, 0, 4]}
    changes = [{"format": "other"}, {"words": ["a", "b", "c"]}, {"words": [*SPECIAL, 3]}, {"counts": [1]}]
    changes += [{"counts": [0, 0, "4"]}, {"words": [*SPECIAL, "a", "a"], "counts": [0, 0, 1, 1]}]
    for text in (*(json.dumps(good | change) for change in changes), json.dumps(good)[:-1], "[]"):
        assert refusal(Vocabulary.from_text, text, "words.json").faults[0].place == "words.json"
