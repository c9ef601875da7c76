"""Split captions into words and number them: the vocabulary of the train captions, flat token arrays."""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.data.lines import LONGEST_CAPTION_WORDS, parse_json_text

PAD = 0
UNKNOWN = 1
SPECIAL_WORDS = ("<pad>", "<unknown>")
FORMAT = "coder-words-1"

# "don't" → do n't, "man's" → man 's, as in the Penn Treebank and therefore in GloVe; "3.5" and "1,000" stay whole.
_WORD = re.compile(r"[^\W\d_]+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,:]\d+)+|[^\W_]+")


def tokenise(caption: str) -> list[str]:
    """Split a caption into lower-case words without punctuation. Deterministic; needs no download.

    >>> tokenise("A man's T-shirt doesn't cost 3.50 dollars!")
    ['a', 'man', "'s", 't', 'shirt', 'does', "n't", 'cost', '3.50', 'dollars']
    """
    if not caption.isascii():
        caption = unicodedata.normalize("NFC", caption).replace("’", "'")
    return _WORD.findall(caption.lower())


@dataclass(frozen=True)
class Tokens:
    """m captions as word numbers."""

    ids: np.ndarray  # (total,) int32, all captions one after the other
    offsets: np.ndarray  # (m + 1,) int64; caption j is ids[offsets[j]:offsets[j + 1]], never empty

    @property
    def lengths(self) -> np.ndarray:
        """(m,) int64 words per caption."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def unknown_share(self) -> float:
        """Return the share of the words that are not in the vocabulary."""
        return float((self.ids == UNKNOWN).mean()) if len(self.ids) else 0.0

    def all_unknown(self) -> np.ndarray:
        """Return (·,) int64 rows of the captions without a known word."""
        count = np.concatenate(([0], np.cumsum(self.ids != UNKNOWN)))
        return np.flatnonzero(count[self.offsets[1:]] == count[self.offsets[:-1]])


@dataclass(frozen=True)
class Vocabulary:
    """The words of a model, from TRAIN captions only; saved with the run."""

    words: list[str]  # words[PAD] is "<pad>", words[UNKNOWN] is "<unknown>", then the most frequent first
    counts: list[int]  # how often each word was seen in training (0 for the two special ones)
    number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", {word: index for index, word in enumerate(self.words)})

    @classmethod
    def build(cls, captions: Iterable[str], *, threshold: int = 4) -> Vocabulary:
        """Collect the words seen at least `threshold` times, most frequent first, equal counts in alphabetical order.
        ValueError: threshold is below 1. InputError: no word is seen that often."""
        if threshold < 1:
            raise ValueError(f"word threshold must be at least 1, got {threshold}")
        seen: Counter[str] = Counter()
        for caption in captions:
            seen.update(tokenise(caption))
        frequent = (word for word, count in seen.items() if count >= threshold)
        words = sorted(frequent, key=lambda word: (-seen[word], word))
        if not words:
            most = max(seen.values(), default=0)
            problem = f"no word occurs at least {threshold} times in the training captions; the highest count is {most}"
            fix = "lower the word threshold, or give more captions"
            raise InputError.at("vocabulary", problem, "at least one word", fix)
        return cls([*SPECIAL_WORDS, *words], [0, 0, *(seen[word] for word in words)])

    @classmethod
    def from_text(cls, text: str, where: str) -> Vocabulary:
        """Read what `to_text` wrote; `where` is its file, for the InputError of a damaged text."""
        content = parse_json_text(text, where, "a vocabulary of a run", "use the words.json of the run")
        if problem := _vocabulary_problem(content):
            raise InputError.at(where, problem, f'the format "{FORMAT}"', "use the words.json of the run")
        return cls(content["words"], content["counts"])

    def to_text(self) -> str:
        """Return the vocabulary as JSON."""
        document = {"format": FORMAT, "words": self.words, "counts": self.counts}
        return json.dumps(document, ensure_ascii=False, indent=0)

    def __len__(self) -> int:
        return len(self.words)

    def known_and_unknown(self, text: str) -> tuple[list[str], list[str]]:
        """Return a text's words that are in the vocabulary, and those that are not, each once."""
        words = dict.fromkeys(tokenise(text))
        known = [word for word in words if word in self.number]
        return known, [word for word in words if word not in self.number]

    def encode(self, captions: Sequence[str], *, longest: int = LONGEST_CAPTION_WORDS) -> Tokens:
        """Number every word. A caption without a word becomes one UNKNOWN; words after `longest` are cut."""
        number = self.number
        flat = array("i")
        ends = array("q", [0])
        for caption in captions:
            flat.extend([number.get(word, UNKNOWN) for word in tokenise(caption)[:longest]] or [UNKNOWN])
            ends.append(len(flat))
        return Tokens(np.array(flat, dtype=np.int32), np.array(ends, dtype=np.int64))


def _vocabulary_problem(content: Any) -> str:
    """Return the fault of a vocabulary file's content; "" if there is none."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return "is not a vocabulary file"
    words = content.get("words")
    counts = content.get("counts")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return "words is not a list of strings"
    if tuple(words[:2]) != SPECIAL_WORDS or len(set(words)) != len(words):
        return "words does not start with <pad> and <unknown>, or repeats a word"
    if not isinstance(counts, list) or list(map(type, counts)) != [int] * len(words):
        return "counts is not a list of one integer per word"
    return ""
