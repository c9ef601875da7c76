"""A whole data set read as training would, with everything there is to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coder_core.console.faults import Fault
from coder_core.data.agreement import compare_splits
from coder_core.data.dataset import Split, available_splits, read_split
from coder_core.data.glove import WordVectors, read_word_vectors
from coder_core.data.raw_split import collect
from coder_core.data.words import Tokens, Vocabulary

DEV_NAMES = ("dev", "val")
SEVERITIES = ("error", "warning", "note")


@dataclass
class Survey:
    """Everything `survey` found.

    Args:
        splits: the splits that could be read, train first.
        faults: errors, warnings and notes of all splits and files, errors first.
        vocabulary: of the train captions, or None when there are none.
        tokens: split name → its captions as numbers.
        vectors: of the vocabulary's words, when a file was given and could be read.
    """

    splits: list[Split] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    vocabulary: Vocabulary | None = None
    tokens: dict[str, Tokens] = field(default_factory=dict)
    vectors: WordVectors | None = None

    @property
    def usable(self) -> bool:
        """False when training or evaluation would refuse the data."""
        return self.count("error") == 0

    def count(self, severity: str) -> int:
        """How many faults are an "error", a "warning" or a "note"."""
        return sum(fault.severity == severity for fault in self.faults)


def survey(
    path: Path,
    *,
    pictures: Path | None = None,
    word_vectors: Path | None = None,
    word_threshold: int = 4,
    check_values: bool = True,
) -> Survey:
    """Read all splits of the data set at `path` and collect what there is to say; bad data raises nothing.

    Args:
        path: the data set, as for `read_split`.
        pictures: folder of the picture files.
        word_vectors: a text file of word vectors.
        word_threshold: how often train captions must hold a word.
        check_values: read every feature value.
    """
    found = Survey()
    names = collect(lambda: available_splits(path), found.faults) or []
    if names:
        found.faults += _missing(path, names)
    for name in names:
        split = collect(
            lambda name=name: read_split(path, name, pictures=pictures, check_values=check_values),  # type: ignore[misc]
            found.faults,
        )
        if split is not None:
            found.splits.append(split)
            found.faults += split.faults
    found.faults += compare_splits(found.splits)
    _count_words(found, word_threshold, word_vectors)
    found.faults = sorted(dict.fromkeys(found.faults), key=lambda fault: SEVERITIES.index(fault.severity))
    return found


def _missing(path: Path, names: Sequence[str]) -> list[Fault]:
    """What training needs and is not there."""
    faults = []
    if "train" not in names:
        listed = ", ".join(names)
        faults.append(Fault(str(path), f"there is no train split, only {listed}", "train", "add the train files"))
    if not set(DEV_NAMES) & set(names):
        text = "there is no dev split, so no epoch can be chosen as the best"
        faults.append(Fault(str(path), text, "dev", "set some images aside", severity="warning"))
    return faults


def _count_words(found: Survey, threshold: int, word_vectors: Path | None) -> None:
    train = next((split for split in found.splits if split.name == "train"), None)
    if train is None:
        return
    words = collect(lambda: Vocabulary.build(train.captions, threshold=threshold), found.faults)
    found.vocabulary = words
    if words is None:
        return
    for split in found.splits:
        found.tokens[split.name] = words.encode(split.captions)
        found.faults += _all_unknown(split, found.tokens[split.name])
    if word_vectors is not None:
        read = collect(lambda: read_word_vectors(word_vectors, words.words, counts=words.counts), found.faults)
        found.vectors = read
        found.faults += read.faults if read else []


def _all_unknown(split: Split, tokens: Tokens) -> list[Fault]:
    captions = tokens.all_unknown()
    if not len(captions):
        return []
    first = ", ".join(map(str, captions[:10] + 1))
    text = f"{len(captions):,} captions ({len(captions) / len(tokens):.1%}) hold no known word; the first: {first}"
    return [Fault(split.source["captions"], text, severity="warning")]
