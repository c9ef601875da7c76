"""Groups of near-duplicate pictures and captions with their likeness, and the words that carry a caption's content."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from sys import intern

import numpy as np

CPU = "cpu"
PRODUCTS_AT_ONCE = 2**26  # of hashes on another device: 256 MiB
HASH_DISTANCE = 14
PICTURE_LIKENESS = 0.88
"""Two pictures are near-duplicates if at most 14 of 64 bits of their hashes differ and the correlation of their tiny
images is at least this. Flickr8k's 7,000 train and dev pictures have five such pairs: one copy and four bursts."""
SPELLED_ALIKE = 80.0  # of 100, least similarity of a word and a possible misspelling of it
SHORTEST_WORD = 4
FEWEST_WORDS = 3
MOST_WORDS = 100
MOST_WORDS_COMPARED = 1_000  # at one position of otherwise equal captions

WORD = re.compile(r"\w+(?:['’-]\w+)*")
ARTICLES = frozenset({"a", "an", "the"})

EMPTY_WORDS = frozenset(Path(__file__).with_name("empty_words.txt").read_text("utf-8").split())
"""English function words, and nouns and verbs that do not describe a picture."""

Groups = list[tuple[np.ndarray, float]]
"""For every group: its rows, ascending, and the likeness of the least similar pair that joined it (1: identical)."""


def caption_words(caption: str) -> list[str]:
    """Split a caption into words without case and punctuation, in Unicode's form NFKC.

    >>> caption_words("A DOG’s ball, on the grass.")
    ['a', "dog's", 'ball', 'on', 'the', 'grass']
    """
    return WORD.findall(plain_text(caption))


def plain_text(text: str) -> str:
    """Return a text without case, in Unicode's form NFKC, with one kind of apostrophe: what `caption_words` splits."""
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def content_words(caption: str) -> int:
    """Count the words that describe something: those not in `EMPTY_WORDS`.

    >>> content_words("There is something in this picture .")
    0
    >>> content_words("a red ball on the grass")
    3
    """
    return sum(word not in EMPTY_WORDS for word in caption_words(caption))


def duplicate_pictures(hashes: np.ndarray, tiny: np.ndarray, device: str = CPU) -> Groups:
    """Find groups of near-duplicates among n pictures by hashes (n, 8) uint8 and tiny images (n, T): unit rows, or zero
    rows for pictures to ignore. `device`: where all hashes are compared, with the same result."""
    rows = np.flatnonzero(tiny.any(1))
    compared = np.ascontiguousarray(hashes[rows])
    first, second = _near_hashes(compared) if device == CPU else _near_hashes_on(device, compared)
    first = rows[first]
    second = rows[second]
    likeness = np.zeros(len(first), np.float32)
    for start in range(0, len(first), 4_096):
        part = slice(start, start + 4_096)
        likeness[part] = np.einsum("pt,pt->p", tiny[first[part]].astype(np.float32), tiny[second[part]])
    alike = likeness >= PICTURE_LIKENESS
    return _groups(len(hashes), first[alike], second[alike], np.minimum(likeness[alike], 1))


def _near_hashes(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of every two hashes, (n, 8), of which at most `HASH_DISTANCE` bits differ, the lower row first."""
    import faiss

    index = faiss.IndexBinaryFlat(8 * hashes.shape[1])
    index.add(hashes)
    limits, _, neighbours = index.range_search(hashes, HASH_DISTANCE + 1)
    first = np.repeat(np.arange(len(hashes)), (limits[1:] - limits[:-1]).astype(np.int64))
    once = first < neighbours
    return first[once], neighbours[once]


def _near_hashes_on(device: str, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same, computed by PyTorch on a device: with ±1 for each bit, the product of two hashes is the number
    of equal bits minus that of different ones."""
    import torch

    signs = torch.from_numpy(np.float32(np.unpackbits(hashes, axis=1))).to(device) * 2 - 1
    least = signs.shape[1] - 2 * HASH_DISTANCE
    step = max(1, PRODUCTS_AT_ONCE // max(1, len(signs)))
    pairs = [np.empty((0, 2), np.int64)]
    for start in range(0, len(signs), step):
        products = signs[start : start + step] @ signs[start:].T
        near = (products >= least).nonzero().cpu().numpy()
        pairs.append(near[near[:, 0] < near[:, 1]] + start)
    found = np.concatenate(pairs)
    return found[:, 0], found[:, 1]


def duplicate_captions(captions: Sequence[str]) -> Groups:
    """Find groups of captions that are equal except for case, punctuation, articles and the spelling of one word. Takes
    linear time: captions that differ in one word share the hash of their other words."""
    from rapidfuzz.fuzz import ratio

    words = [tuple(intern(word) for word in caption_words(text) if word not in ARTICLES) for text in captions]
    distinct: dict[tuple[str, ...], int] = {}
    owner = np.array([distinct.setdefault(key, len(distinct)) for key in words], np.int64)
    keys = list(distinct)
    pairs: list[tuple[int, int, float]] = []
    for members in _equal_but_one(keys):
        for position, one in enumerate(members):
            for other in members[:position]:
                left, right = _different(keys[one], keys[other])
                if min(len(left), len(right)) >= SHORTEST_WORD and ratio(left, right) >= SPELLED_ALIKE:
                    pairs.append((one, other, ratio(" ".join(keys[one]), " ".join(keys[other])) / 100))
    first_row = np.full(len(keys), len(words), np.int64)
    np.minimum.at(first_row, owner, np.arange(len(words)))
    worded = np.array([bool(key) for key in words], bool)
    repeated = np.flatnonzero(worded & (first_row[owner] != np.arange(len(words))))
    ends = np.array([(first_row[one], first_row[other]) for one, other, _ in pairs], np.int64).reshape(-1, 2)
    return _groups(
        len(words),
        np.concatenate([first_row[owner[repeated]], ends[:, 0]]),
        np.concatenate([repeated, ends[:, 1]]),
        np.concatenate([np.ones(len(repeated)), [likeness for _, _, likeness in pairs]]),
    )


def _equal_but_one(keys: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """Group captions whose words are equal except at one position."""
    some = [number for number, key in enumerate(keys) if FEWEST_WORDS <= len(key) <= MOST_WORDS]
    hashes = (hash((k, keys[n][:k], keys[n][k + 1 :])) for n in some for k in range(len(keys[n])))
    signatures = np.fromiter(hashes, np.int64)
    order = np.argsort(signatures, kind="stable")
    members = np.repeat(some, [len(keys[number]) for number in some])[order]
    _, starts, sizes = np.unique(signatures[order], return_index=True, return_counts=True)
    several = sizes > 1
    ends = starts + np.minimum(sizes, MOST_WORDS_COMPARED)
    return [members[start:end].tolist() for start, end in zip(starts[several], ends[several], strict=True)]


def _different(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, str]:
    """Return the words of two captions at the only position where they differ; ("", "") if there is not exactly one."""
    different = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    return different[0] if len(one) == len(other) and len(different) == 1 else ("", "")


def _groups(count: int, first: np.ndarray, second: np.ndarray, likeness: np.ndarray) -> Groups:
    """Join pairs of rows into connected groups, the largest first."""
    if not len(first):
        return []
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(first), np.int8), (first, second)), shape=(count, count))
    label = connected_components(graph, directed=False)[1]
    least = np.ones(count)
    np.minimum.at(least, label[first], likeness)
    joined = np.unique(np.concatenate([first, second]))
    order = joined[np.argsort(label[joined], kind="stable")]
    starts = np.flatnonzero(np.r_[True, np.diff(label[order]) > 0])
    groups = [(np.sort(rows), float(least[label[rows[0]]])) for rows in np.split(order, starts[1:])]
    return sorted(groups, key=lambda group: (-len(group[0]), int(group[0][0])))
