"""Read a whole data set as training would, collect its faults, and describe it in plain values."""

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault, collect
from coder_core.console.output import Progress
from coder_core.data.captioned.checking import decode_all
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.dataset import available_splits, find_features, read_split, unread_captions
from coder_core.data.lines import count_cases
from coder_core.data.split import Split, compare_splits, fingerprint, with_groups
from coder_core.data.words import Tokens, Vocabulary, WordVectors, read_word_vectors

DEV_NAMES = ("dev", "val")
SEVERITIES = ("error", "warning", "note")


@dataclass
class Survey:
    """A data set and its faults."""

    splits: list[Split | CaptionedSplit] = field(default_factory=list)  # that could be read, train first
    faults: list[Fault] = field(default_factory=list)  # of all splits and files, errors first
    vocabulary: Vocabulary | None = None  # of the train captions, or None if there are none
    tokens: dict[str, Tokens] = field(default_factory=dict)  # split name → its captions as numbers
    vectors: WordVectors | None = None  # of the vocabulary's words, if a file was given and could be read

    @property
    def usable(self) -> bool:
        """False if training or evaluation would refuse the data."""
        return all(fault.severity != "error" for fault in self.faults)


@dataclass(frozen=True)
class Checks:
    """What to check beyond headers, names and captions."""

    word_vectors: Path | None  # file of word vectors for the vocabulary
    word_size: int | None  # required dimension of the word vectors; None accepts any
    word_threshold: int  # least count of a vocabulary word in the train captions
    values: bool  # read every feature value, or decode every picture


def survey(
    path: Path,
    reading: ReadingArguments,
    pictures: Path | None,
    checks: Checks,
    progress: Progress,
    *,
    of_pictures: bool,
) -> Survey:
    """Read all splits of the data set at `path` and collect their faults instead of raising them. `of_pictures`: they are
    pictures with captions, not features."""
    result = Survey()
    if not of_pictures:
        _read_features(result, path, reading, pictures, checks.values)
    elif data := collect(lambda: read_captioned(path, reading, pictures=pictures), result.faults):
        names = [split.name for split in data.splits]
        if "train" not in names:
            expected = f"one of {', '.join(names)}, which coder-lab embed pictures and look read"
            fix = "name a split train to train on it"
            result.faults.append(Fault(str(path), 'there is no split "train"', expected, fix))
        _check_dev(result, path, names)
        result.splits += data.splits
        result.faults += data.faults
        if checks.values:
            result.faults += decode_all(data.splits, skip_broken=reading.skip_broken, progress=progress)

    faults = _count_words(result, checks)
    if of_pictures:  # pretrained towers need no vocabulary
        faults = [replace(fault, severity="warning") for fault in faults]

    result.faults += faults
    result.faults = sorted(dict.fromkeys(result.faults), key=lambda fault: SEVERITIES.index(fault.severity))
    return result


def _read_features(
    result: Survey, path: Path, reading: ReadingArguments, pictures: Path | None, check_values: bool
) -> None:
    names = collect(lambda: available_splits(path), result.faults) or []
    if names and (layout := find_features(path)[1]).is_dir():
        result.faults += unread_captions(layout)
    if names and "train" not in names:
        collect(lambda: read_split(path, "train"), result.faults)

    _check_dev(result, path, names)
    splits: list[Split] = []
    for name in names:
        read = partial(read_split, path, name, pictures=pictures, check_values=check_values)
        if split := collect(read, result.faults):
            splits.append(split)

    by_name = {split.name: split for split in splits}
    grouped = collect(lambda: with_groups(by_name, reading), result.faults) or by_name
    splits = list(grouped.values())
    result.faults += [fault for split in splits for fault in split.faults]
    result.splits += splits
    result.faults += compare_splits(splits)


def _check_dev(result: Survey, path: Path, names: list[str]) -> None:
    """Add a warning if there is no dev split."""
    if names and not set(DEV_NAMES) & set(names):
        text = "there is no dev split, so no epoch can be chosen as the best"
        result.faults.append(Fault(str(path), text, "a dev split", "set images aside", severity="warning"))


def _count_words(result: Survey, checks: Checks) -> list[Fault]:
    """Build the vocabulary of the train captions and look its words up; return the faults."""
    faults: list[Fault] = []
    train = next((split.captions for split in result.splits if split.name == "train"), None)
    if train is None:
        return faults

    words = collect(lambda: Vocabulary.build(train, threshold=checks.word_threshold), faults)
    result.vocabulary = words
    if words is None:
        return faults
    for split in result.splits:
        tokens = result.tokens[split.name] = words.encode(split.captions)
        unknown = tokens.all_unknown()
        problem = f"captions ({len(unknown) / len(tokens):.1%}) contain no known word"
        faults += count_cases(split.source["captions"], problem, (unknown + 1).tolist())

    if checks.word_vectors is not None:
        read = partial(
            read_word_vectors,
            checks.word_vectors,
            words.words,
            counts=words.counts,
            dimension=checks.word_size,
        )
        result.vectors = collect(read, faults)
        faults += result.vectors.faults if result.vectors else []

    return faults


def describe_survey(survey: Survey, batch_size: int) -> dict[str, Any]:
    """Describe a survey as a JSON document: counts, shapes, bytes, words; `batch_size` is for the memory estimate."""
    coverage = None
    if vectors := survey.vectors:
        shares = {"words": vectors.coverage, "running_text": vectors.token_coverage}
        coverage = {"size": vectors.matrix.shape[1], **shares}
    return {
        "usable": survey.usable,
        "splits": [_describe_split(split, survey, batch_size) for split in survey.splits],
        "vocabulary": None if survey.vocabulary is None else len(survey.vocabulary),
        "word_vectors": coverage,
        "faults": [asdict(fault) for fault in survey.faults],
    }


def _describe_split(split: Split | CaptionedSplit, survey: Survey, batch_size: int) -> dict[str, Any]:
    images = split.n_images if isinstance(split, Split) else len(split.rows)
    each = np.bincount(split.image_of_text, minlength=images)
    counts = {
        "name": split.name,
        "images": images,
        "captions": len(split.captions),
        "captions_an_image": [int(each.min()), float(each.mean()), int(each.max())],
        "pictures": split.source.get("pictures"),
        "source": split.source,
    }
    layout = {"layout": split.source.get("layout")}
    files = _describe_features(split, batch_size) if isinstance(split, Split) else layout
    tokens = survey.tokens.get(split.name)
    words = _describe_words(tokens) if tokens else {}
    return {**counts, **files, **words}


def _describe_features(split: Split, batch_size: int) -> dict[str, Any]:
    return {
        "shape": list(split.features.shape),
        "dtype": str(split.features.dtype),
        "bytes_on_disk": int(split.features.nbytes),
        "bytes_a_batch": batch_size * split.regions * split.feature_size * 4,
        "named": split.image_names is not None,
        "fingerprint": fingerprint(split),
    }


def _describe_words(tokens: Tokens) -> dict[str, Any]:
    return {
        "words_a_caption": [float(value) for value in np.percentile(tokens.lengths, [0, 50, 99, 100])],
        "mean_words_a_caption": float(tokens.lengths.mean()),
        "unknown_words": tokens.unknown_share(),
        "bytes_of_words": int(tokens.ids.nbytes + tokens.offsets.nbytes),
    }
