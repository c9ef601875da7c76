"""The split of an image: a value of the data, a word in the name of a file or folder, or else a hash of its name."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from coder_core.config.data import OTHER_DEV_NAMES, ReadingArguments
from coder_core.console.faults import InputError
from coder_core.data.lines import composed, shown
from coder_core.data.pictures import ENDINGS

SPLIT_NAMES = {name: name for name in ("train", "dev", "test")}
SPLIT_NAMES |= {"training": "train", "restval": "train", "testing": "test"}
SPLIT_NAMES |= dict.fromkeys(OTHER_DEV_NAMES, "dev")
SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # of a split that the data names
FIRST = {"train": 0, "dev": 1, "test": 2}  # order of the splits
# words of a file or folder name: letters of one case, or capitalised
WORDS = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_KIND = "set|data|dataset|split|part|image|img|picture|photo|caption|cap|annotation|text|file|list|shard"
_SPLIT = "train|training|restval|val|valid|validate|validation|dev|devel|development|test|testing"
# "train", "trainset", "traindata", "devsets", "imagestrain", "validations" …
SPLIT_WORD = re.compile(rf"(?:(?:{_KIND})s?)?({_SPLIT})s?(?:(?:{_KIND})s?)?")
SPELLINGS = {"devel": "dev", "development": "dev"}


def split_name(word: str) -> str:
    """Normalise a split's name: "val" and "validation" are "dev", "restval" is "train"."""
    word = word.strip().lower()
    return SPLIT_NAMES.get(word, word)


def split_value(value: Any, where: str) -> str:
    """Return the split in a field of the data; "" for an empty one. InputError: it is not the name of a split."""
    if value is None or value == "":
        return ""
    if isinstance(value, str) and SPLIT_NAME.fullmatch(name := split_name(value)):
        return name
    kind = "" if isinstance(value, str) else f", of type {type(value).__name__}"
    problem = f"the split is {shown(str(value))}{kind}"
    raise InputError.at(where, problem, 'a name such as "train", "dev" or "test"', "write the split's name")


def splits_named(name: str) -> set[str]:
    """Return the splits that the words of a file or folder name stand for.

    >>> sorted(splits_named("cc3m-train-0001")), sorted(splits_named("valdata")), sorted(splits_named("retrieval"))
    (['train'], ['dev'], [])
    """
    words = {word.lower() for word in WORDS.findall(name)}
    matches = [match[1] for word in words if (match := SPLIT_WORD.fullmatch(word))]
    return {split_name(SPELLINGS.get(word, word)) for word in matches}


def split_in(*names: str) -> str:
    """Return the split that the first of these names with a split's word stands for; "" without one, or if that name
    stands for more than one split."""
    for name in names:
        named = splits_named(name)
        if named:
            return named.pop() if len(named) == 1 else ""
    return ""


def split_of_path(path: PurePath) -> str:
    """Return the split that a relative path stands for, by its file name or else by the nearest folder."""
    return split_in(path.name, *(parent.name for parent in path.parents))


def splits_mentioned(names: Iterable[str]) -> list[str]:
    """List the words for splits in these names, each once, for a warning about splits that are not used."""
    return sorted({split for name in names for split in splits_named(name)}, key=lambda split: FIRST[split])


def dealt_split(name: str, reading: ReadingArguments, group: str = "") -> str:
    """Assign an image to a split, for data without splits, by a hash of the seed and the id of its group, or else its
    name, so that adding pictures moves none. The name's folder and ending are ignored, so packing the pictures into
    another container moves none either."""
    base = composed(name).rpartition("/")[2]
    stem, dot, ending = base.rpartition(".")
    identity = group or (stem if f"{dot}{ending}".lower() in ENDINGS else base)
    key = f"{reading.split_seed}\0{identity}".encode("utf-8", "surrogatepass")
    share = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
    if share < reading.test_share:
        return "test"
    return "dev" if share < reading.test_share + reading.dev_share else "train"
