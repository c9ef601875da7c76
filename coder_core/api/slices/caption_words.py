"""The words of captions as arrays: how many a caption has, how many of a kind, and which captions have a word.

Splitting a million captions into words takes seconds, so the arrays of a large split are stored beside the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coder_core.api.run import Run
from coder_core.api.sides import Array
from coder_core.console.faults import InputError
from coder_core.data.words import tokenise
from coder_core.runs.derived.store import derived_folder, read_as, write_derived

KIND = "words"
VERSION = 1
STORED_ABOVE = 100_000  # captions


@dataclass(frozen=True)
class CaptionWords:
    """All words of m captions.

    >>> words = CaptionWords.of(["two dogs and two cats", "a cat"])
    >>> words.lengths, words.counts({"two"}), words.rows["cat"]
    (array([5, 2]), array([2, 0]), array([1]))
    """

    vocabulary: list[str]  # the different words, in the order of their first caption
    ids: Array  # (total,) int32 rows of the vocabulary, all captions one after the other
    starts: Array  # (m + 1,) int64; caption j is ids[starts[j] : starts[j + 1]]

    @classmethod
    def of(cls, captions: Sequence[str]) -> CaptionWords:
        """Split captions into words."""
        number: dict[str, int] = {}
        ids: list[int] = []
        starts = np.zeros(len(captions) + 1, np.int64)
        for row, caption in enumerate(captions, start=1):
            ids += [number.setdefault(word, len(number)) for word in tokenise(caption)]
            starts[row] = len(ids)
        return cls(list(number), np.array(ids, np.int32), starts)

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
    def rows(self) -> Mapping[str, Array]:
        """Mapping from a word to the numbers of the captions that have it, ascending."""
        return _Rows(self)


class _Rows(Mapping[str, Array]):
    """Mapping from a word to the captions that have it, from all pairs of a word and a caption, sorted."""

    def __init__(self, words: CaptionWords) -> None:
        self._number = {word: number for number, word in enumerate(words.vocabulary)}
        order = np.argsort(words.ids, kind="stable")
        word = words.ids[order]
        caption = np.repeat(np.arange(len(words.starts) - 1, dtype=np.int32), words.lengths)[order]
        is_first = np.ones(len(word), dtype=bool)
        is_first[1:] = (word[1:] != word[:-1]) | (caption[1:] != caption[:-1])
        self._captions = caption[is_first]
        self._ends = np.searchsorted(word[is_first], np.arange(len(self._number) + 1))

    def __getitem__(self, word: str) -> Array:
        number = self._number[word]
        return np.asarray(self._captions[self._ends[number] : self._ends[number + 1]])

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
    with suppress(OSError, InputError):
        write_derived(folder, {"vocabulary": vocabulary, "ids": words.ids, "starts": words.starts})
    return words


def _build(arrays: dict[str, Any], _: dict[str, Any]) -> CaptionWords:
    vocabulary = arrays["vocabulary"].tobytes().decode().split("\n")
    words = CaptionWords(vocabulary, arrays["ids"], arrays["starts"])
    is_sound = (
        words.starts[0] == 0
        and words.starts[-1] == len(words.ids)
        and bool((np.diff(words.starts) >= 0).all())
        and bool(((words.ids >= 0) & (words.ids < len(vocabulary))).all())
    )
    if not is_sound:
        raise ValueError("the words do not fit the captions")
    return words
