"""Captions -> numbers for a text encoder: the run's vocabulary for a BiGRU, BERT's own word pieces for BERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.console.faults import Fault
from coder_core.data.glove import learn_word_vectors, read_word_vectors
from coder_core.data.words import Tokens, Vocabulary
from coder_core.encoders.bert import load_tokenizer

RANDOM_STREAM = 3  # of the numbers that fill the vectors of words a GloVe file does not have


class CaptionReader(Protocol):
    """Turns captions into flat arrays of numbers."""

    @property
    def size(self) -> int:
        """How many different numbers there are."""

    @property
    def fixed_ends(self) -> bool:
        """Whether a caption's first and last piece must stay."""

    def encode(self, captions: Sequence[str]) -> Tokens:
        """All captions, flat."""


class WordReader:
    """Words of the run's own vocabulary."""

    fixed_ends = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @property
    def size(self) -> int:
        """Words in the vocabulary."""
        return len(self.vocabulary)

    def encode(self, captions: Sequence[str]) -> Tokens:
        """All captions, flat."""
        return self.vocabulary.encode(captions)


class PieceReader:
    """BERT's word pieces, [CLS] and [SEP] included."""

    fixed_ends = True

    def __init__(self, name: str) -> None:
        self.tokenizer: Any = load_tokenizer(name)

    @property
    def size(self) -> int:
        """Word pieces of the tokenizer."""
        return len(self.tokenizer)

    def encode(self, captions: Sequence[str]) -> Tokens:
        """All captions, flat; pieces beyond BERT's positions (512) are cut, [SEP] stays."""
        found = self.tokenizer(list(captions), truncation=True)["input_ids"]
        offsets = np.zeros(len(found) + 1, dtype=np.int64)
        np.cumsum([len(pieces) for pieces in found], out=offsets[1:])
        return Tokens(np.fromiter((piece for pieces in found for piece in pieces), np.int32, offsets[-1]), offsets)


def make_reader(config: Config, vocabulary: Vocabulary | None) -> CaptionReader:
    """The reader of a configuration; `vocabulary` is needed for a BiGRU."""
    if config.model.text_encoder == "bert":
        return PieceReader(config.model.bert)
    if vocabulary is None:
        raise ValueError("a BiGRU needs a vocabulary")
    return WordReader(vocabulary)


def starting_vectors(
    config: Config, vocabulary: Vocabulary, train_captions: Sequence[str]
) -> tuple[Tensor | None, list[Fault]]:
    """Where the word vectors start: None (random), learned from the captions, or from a GloVe file.

    Words a file does not have start random, as long as the others on average. Returns the vectors and what a person
    should know about them.
    """
    source = config.data.word_vectors
    if config.model.text_encoder == "bert" or source == "random":
        return None, []
    if source == "learned":
        vectors = learn_word_vectors(
            train_captions, vocabulary, dimension=config.model.word_size, seed=config.training.seed
        )
        return torch.from_numpy(vectors), []
    found = read_word_vectors(source, vocabulary.words, counts=vocabulary.counts, dimension=config.model.word_size)
    matrix = found.matrix.copy()
    missing = ~found.found
    if found.found.any():
        random = np.random.default_rng((config.training.seed, RANDOM_STREAM))
        matrix[missing] = random.normal(0, matrix[found.found].std(), (int(missing.sum()), matrix.shape[1]))
    matrix[0] = 0
    return torch.from_numpy(matrix), found.faults
