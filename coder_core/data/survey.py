"""Read a whole data set as training would, and collect its faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coder_core.console.faults import Fault, collect
from coder_core.console.progress import Progress, named, silent
from coder_core.data.captioned.checking import decode_all
from coder_core.data.captioned.reading import CaptionedSplit, read_captioned
from coder_core.data.dataset import available_splits, read_split
from coder_core.data.formats import ReadingArguments
from coder_core.data.glove import WordVectors, read_word_vectors
from coder_core.data.split import Split, compare_splits
from coder_core.data.words import Tokens, Vocabulary

DEV_NAMES = ("dev", "val")
SEVERITIES = ("error", "warning", "note")


@dataclass
class Survey:
    """A data set and its faults.

    Args:
        splits: the splits that could be read, train first; or pictures: those of a data set of pictures.
        faults: errors, warnings and notes of all splits and files, errors first.
        vocabulary: of the train captions, or None when there are none.
        tokens: split name → its captions as numbers.
        vectors: of the vocabulary's words, when a file was given and could be read.
    """

    splits: list[Split] = field(default_factory=list)
    pictures: list[CaptionedSplit] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    vocabulary: Vocabulary | None = None
    tokens: dict[str, Tokens] = field(default_factory=dict)
    vectors: WordVectors | None = None

    @property
    def usable(self) -> bool:
        """False when training or evaluation would refuse the data."""
        return self.count("error") == 0

    def count(self, severity: str) -> int:
        """Count the faults that are an "error", a "warning" or a "note"."""
        return sum(fault.severity == severity for fault in self.faults)


def survey(
    path: Path,
    *,
    pictures: Path | None = None,
    word_vectors: Path | None = None,
    word_size: int | None = None,
    word_threshold: int = 4,
    check_values: bool = True,
) -> Survey:
    """Read all splits of the data set at `path` and collect their faults instead of raising them.

    Args:
        path: the data set, as for `read_split`.
        pictures: folder of the picture files.
        word_vectors: a text file of word vectors.
        word_size: numbers a word that the file must have; any when None.
        word_threshold: how often train captions must hold a word.
        check_values: read every feature value.
    """
    result = Survey()
    names = collect(lambda: available_splits(path), result.faults) or []
    if names:
        result.faults += _missing(path, names)
    for name in names:
        split = collect(
            lambda name=name: read_split(path, name, pictures=pictures, check_values=check_values),  # type: ignore[misc]
            result.faults,
        )
        if split is not None:
            result.splits.append(split)
            result.faults += split.faults
    result.faults += compare_splits(result.splits)
    _count_words(result, word_threshold, word_vectors, word_size)
    result.faults = sorted(dict.fromkeys(result.faults), key=lambda fault: SEVERITIES.index(fault.severity))
    return result


def survey_pictures(
    path: Path,
    reading: ReadingArguments,
    *,
    pictures: Path | None = None,
    word_vectors: Path | None = None,
    word_size: int | None = None,
    word_threshold: int = 4,
    check_values: bool = True,
    progress: Progress = silent,
) -> Survey:
    """Read all splits of a data set of pictures with captions and collect their faults instead of raising them.

    Args:
        path: the data set.
        reading: its layout, and how images are dealt out where it has no splits.
        pictures: folder of the picture files.
        word_vectors: a text file of word vectors.
        word_size: numbers a word that the file must have; any when None.
        word_threshold: how often train captions must hold a word.
        check_values: decode every picture.
        progress: shows how many of a split's pictures are decoded.
    """
    result = Survey()
    data = collect(lambda: read_captioned(path, reading, pictures=pictures), result.faults)
    if data is not None:
        result.pictures, result.faults = data.splits, result.faults + data.faults
        for split in data.splits if check_values else ():
            show = named(progress, f"{split.name} pictures")
            result.faults += decode_all(split, skip_broken=reading.skip_broken, progress=show)
    _count_words(result, word_threshold, word_vectors, word_size)
    result.faults = sorted(dict.fromkeys(result.faults), key=lambda fault: SEVERITIES.index(fault.severity))
    return result


def _missing(path: Path, names: Sequence[str]) -> list[Fault]:
    """Faults for splits that training needs."""
    faults: list[Fault] = []
    if "train" not in names:
        collect(lambda: read_split(path, "train"), faults)  # refused in the words of training
    if not set(DEV_NAMES) & set(names):
        text = "there is no dev split, so no epoch can be chosen as the best"
        faults.append(Fault(str(path), text, "dev", "set some images aside", severity="warning"))
    return faults


def _count_words(result: Survey, threshold: int, word_vectors: Path | None, word_size: int | None) -> None:
    splits = result.splits or result.pictures
    train = next((split for split in splits if split.name == "train"), None)
    if train is None:
        return
    words = result.vocabulary = collect(
        lambda: Vocabulary.build(train.captions, threshold=threshold), result.faults
    )
    if words is None:
        return
    for split in splits:
        result.tokens[split.name] = words.encode(split.captions)
        result.faults += _all_unknown(split, result.tokens[split.name])
    if word_vectors is not None:
        result.vectors = collect(
            lambda: read_word_vectors(word_vectors, words.words, counts=words.counts, dimension=word_size),
            result.faults,
        )
        result.faults += result.vectors.faults if result.vectors else []


def _all_unknown(split: Split | CaptionedSplit, tokens: Tokens) -> list[Fault]:
    captions = tokens.all_unknown()
    if not len(captions):
        return []
    first = ", ".join(map(str, captions[:10] + 1))
    text = f"{len(captions):,} captions ({len(captions) / len(tokens):.1%}) hold no known word; the first: {first}"
    return [Fault(split.source["captions"], text, severity="warning")]
