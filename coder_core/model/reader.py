"""Turn captions into numbers: words of the run's vocabulary for a BiGRU, word pieces for BERT and text towers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.console.faults import Fault
from coder_core.data.glove import learn_word_vectors, read_word_vectors
from coder_core.data.lines import LONGEST_CAPTION_WORDS
from coder_core.data.words import SPECIAL_WORDS, UNKNOWN, Tokens, Vocabulary, tokenise
from coder_core.model.encoders.bert import load_tokeniser
from coder_core.model.towers.halves import OwnTokeniser, TextHalf
from coder_core.model.towers.pretrained import Tokeniser

RANDOM_STREAM = 3  # random stream for words that a GloVe file lacks


@dataclass(frozen=True)
class CaptionReader:
    """Conversion of captions to flat arrays of ids."""

    encode: Callable[[Sequence[str]], Tokens]  # captions → ids
    size: int  # number of distinct ids
    fixed_ends: bool  # a caption's first and last id must not be dropped ([CLS] and [SEP])
    # text → its distinct words that are known, and those that are unknown
    known_and_unknown: Callable[[str], tuple[list[str], list[str]]]
    # text → the word or word piece of each of its ids; "" for [CLS] and [SEP]
    words: Callable[[str], list[str]]


def make_reader(
    config: Config, vocabulary: Vocabulary | None, *, download: bool = True, tower: TextHalf | None = None
) -> CaptionReader:
    """Create the reader of a configuration. `vocabulary`: needed for a BiGRU. `download`: fetch BERT's tokenizer if it
    is missing. `tower`: the run's text tower, if it has one. ValueError: a BiGRU without a vocabulary."""
    if tower is not None:
        return piece_reader(tower.tokenise)
    if config.model.text_encoder == "bert":
        return piece_reader(load_tokeniser(config.model.bert, download=download))
    if vocabulary is None:
        raise ValueError("a BiGRU needs a vocabulary")

    def words(text: str) -> list[str]:
        return tokenise(text)[:LONGEST_CAPTION_WORDS] or [SPECIAL_WORDS[UNKNOWN]]

    return CaptionReader(vocabulary.encode, len(vocabulary), False, vocabulary.known_and_unknown, words)


def piece_reader(pieces: Tokeniser | OwnTokeniser) -> CaptionReader:
    """Create a reader by the word pieces of a text tower or of BERT, including special ones at a caption's ends."""

    def encode(captions: Sequence[str]) -> Tokens:
        ids = pieces(captions)
        offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        return Tokens(np.fromiter((piece for row in ids for piece in row), np.int32, offsets[-1]), offsets)

    def known_and_unknown(text: str) -> tuple[list[str], list[str]]:
        words = list(dict.fromkeys(tokenise(text)))
        unknown = pieces.unknown(words)
        return [word for word in words if word not in unknown], unknown

    return CaptionReader(encode, len(pieces), True, known_and_unknown, pieces.pieces)


def initial_word_vectors(
    config: Config, vocabulary: Vocabulary, train_captions: Sequence[str]
) -> tuple[Tensor | None, list[Fault]]:
    """Return initial word vectors, learned from the captions or from a GloVe file (None: random), and warnings and
    notes. Words missing from the file get random vectors with the standard deviation of the others."""
    source = config.data.word_vectors
    size = config.model.word_size
    seed = config.training.seed
    if source == "random":
        return None, []
    if source == "learned":
        return torch.from_numpy(learn_word_vectors(train_captions, vocabulary, dimension=size, seed=seed)), []
    glove = read_word_vectors(source, vocabulary.words, counts=vocabulary.counts, dimension=size)
    matrix = glove.matrix.copy()
    missing = ~glove.covered
    if glove.covered.any():
        random = np.random.default_rng((seed, RANDOM_STREAM))
        matrix[missing] = random.normal(0, matrix[glove.covered].std(), (int(missing.sum()), size))
    matrix[0] = 0
    return torch.from_numpy(matrix), glove.faults
