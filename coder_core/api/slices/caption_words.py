"""The words of captions as arrays: how many a caption has, how many of a kind, and which captions have a word.

Splitting a million captions into words takes seconds, so the arrays of a large split are stored beside the run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from coder_core.api.run import Run
from coder_core.api.sides import Array
from coder_core.console.faults import InputError
from coder_core.data.content.duplicates import WORD, plain_text
from coder_core.data.words import SPOKEN_WORD, spoken
from coder_core.runs.derived.store import derived_folder, read_as, write_derived

KIND = "words"
VERSION = 2
STORED_ABOVE = 100_000  # captions
_END = "\n"  # of a caption
_WORD_OR_END = re.compile(f"{WORD.pattern}|{_END}")
_SPOKEN_OR_END = re.compile(f"{SPOKEN_WORD.pattern}|{_END}")
SPLIT_AT_ONCE = 4_096  # captions


class WordIndex(NamedTuple):
    """The captions of every word of a vocabulary, one word after the other."""

    captions: Array  # (p,) int32, ascending for each word
    ends: Array  # (v + 1,) int64; word i is in captions[ends[i] : ends[i + 1]]


@dataclass(frozen=True)
class CaptionWords:
    """All words of m captions.

    >>> words = CaptionWords.of(["two dogs and two cats", "a cat"])
    >>> words.lengths, words.counts({"two"}), words.rows["cat"].tolist()
    (array([5, 2]), array([2, 0]), [1])
    """

    vocabulary: list[str]  # the different words, in the order of their first caption
    ids: Array  # (total,) int32 rows of the vocabulary, all captions one after the other
    starts: Array  # (m + 1,) int64; caption j is ids[starts[j] : starts[j + 1]]
    stored_index: WordIndex | None = None  # None: computed when it is first needed

    @classmethod
    def of(cls, captions: Sequence[str]) -> CaptionWords:
        """Split captions as `tokenise` does."""
        return cls._split(captions, spoken, _SPOKEN_OR_END)

    @classmethod
    def of_content(cls, captions: Sequence[str]) -> CaptionWords:
        """Split captions as `caption_words` does.

        >>> CaptionWords.of_content(["A dog’s ball", "", "the ball"]).vocabulary
        ['a', "dog's", 'ball', 'the']
        """
        return cls._split(captions, plain_text, _WORD_OR_END)

    @classmethod
    def _split(
        cls, captions: Sequence[str], plain: Callable[[str], str], pattern: re.Pattern[str]
    ) -> CaptionWords:
        """Split captions into the words that `pattern`, which also finds `_END`, has in their `plain` text: many at once."""
        number: defaultdict[str, int] = defaultdict(count().__next__)
        end = number[_END]
        parts = [np.empty(0, np.int32)]
        for start in range(0, len(captions), SPLIT_AT_ONCE):
            part = captions[start : start + SPLIT_AT_ONCE]
            text = plain("".join(caption.replace(_END, " ") + _END for caption in part))
            parts.append(np.array([number[word] for word in pattern.findall(text)], np.int32))

        ids = np.concatenate(parts)
        ends = np.flatnonzero(ids == end)
        starts = np.append(0, ends - np.arange(len(ends)))
        return cls(list(number)[1:], ids[ids != end] - 1, starts)

    @property
    def lengths(self) -> Array:
        """(m,) int64 words of every caption."""
        return np.diff(self.starts)

    def counts(self, kind: set[str] | frozenset[str], *, digits: bool = False) -> Array:
        """Return (m,) int64: the words of every caption that are of a kind or, with `digits`, begin with a digit."""
        of_kind = [word in kind or (digits and word[0].isdigit()) for word in self.vocabulary]
        before = np.concatenate([[0], np.cumsum(np.array(of_kind, bool)[self.ids])])
        return np.asarray(before[self.starts[1:]] - before[self.starts[:-1]])

    @cached_property
    def index(self) -> WordIndex:
        """The captions of every word, from all pairs of a word and a caption, sorted."""
        if self.stored_index is not None:
            return self.stored_index
        order = np.argsort(self.ids, kind="stable")
        word = self.ids[order]
        caption = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), self.lengths)[order]
        is_first = np.ones(len(word), dtype=bool)
        is_first[1:] = (word[1:] != word[:-1]) | (caption[1:] != caption[:-1])
        ends = np.searchsorted(word[is_first], np.arange(len(self.vocabulary) + 1))
        return WordIndex(caption[is_first], ends)

    @cached_property
    def rows(self) -> Mapping[str, Array]:
        """Mapping from a word to the numbers of the captions that have it, ascending."""
        return _Rows(self.vocabulary, self.index)


class _Rows(Mapping[str, Array]):
    """Mapping from a word to the captions that have it."""

    def __init__(self, vocabulary: Sequence[str], index: WordIndex) -> None:
        self._number = {word: number for number, word in enumerate(vocabulary)}
        self._index = index

    def __getitem__(self, word: str) -> Array:
        number = self._number[word]
        captions, ends = self._index
        return np.asarray(captions[ends[number] : ends[number + 1]])

    def __contains__(self, word: object) -> bool:
        return word in self._number

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)

    def __len__(self) -> int:
        return len(self._number)


def words_of_split(run: Run, split: str) -> CaptionWords:
    """Return the words of a split's captions. Those of a large split are read from beside the run, if they are stored
    there, and else stored."""
    captions = run.captions(split)
    if len(captions) <= STORED_ABOVE:
        return CaptionWords.of(captions)

    analysis = run.analysis(split)
    about = {"method": VERSION, "captions": analysis.manifest["files"]["captions.json"]["sha256"]}
    folder = derived_folder(run.path, split, KIND, about, [analysis])
    with suppress(InputError):  # damaged: computed again, and replaced
        stored = read_as(folder, _build)
        if stored is not None and len(stored.starts) == len(captions) + 1:
            return stored

    words = CaptionWords.of(captions)
    vocabulary = np.frombuffer("\n".join(words.vocabulary).encode(), np.uint8)
    arrays = {"vocabulary": vocabulary, "ids": words.ids, "starts": words.starts}
    of_index = {"index_captions": words.index.captions, "index_ends": words.index.ends}
    with suppress(OSError, InputError):
        write_derived(folder, arrays | of_index)
    return words


def _build(arrays: dict[str, Any], _: dict[str, Any]) -> CaptionWords:
    vocabulary = arrays["vocabulary"].tobytes().decode().split("\n")
    index = WordIndex(arrays["index_captions"], arrays["index_ends"])
    words = CaptionWords(vocabulary, arrays["ids"], arrays["starts"], index)
    captions = len(words.starts) - 1
    are_sound = (
        _are_parts(words.starts, len(words.ids))
        and _are_parts(index.ends, len(index.captions))
        and len(index.ends) == len(vocabulary) + 1
        and _are_rows(words.ids, len(vocabulary))
        and _are_rows(index.captions, captions)
    )
    if not are_sound:
        raise ValueError("the words do not fit the captions")
    return words


def _are_parts(ends: Array, total: int) -> bool:
    """True if these are the ends of consecutive parts of `total` values, after a 0."""
    return ends[0] == 0 and ends[-1] == total and bool((np.diff(ends) >= 0).all())


def _are_rows(numbers: Array, count: int) -> bool:
    """True if all numbers are rows of a table of `count` rows."""
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < count)
