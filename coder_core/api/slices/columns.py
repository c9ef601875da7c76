"""Facts about the captions of a split that slices may ask for: words and their kinds, clusters, concepts, diversity, tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from coder_core.api.clusters import prototypes
from coder_core.api.run import Run
from coder_core.api.slices.expressions import Columns
from coder_core.data.words import tokenise

NUMBERS = """two three four five six seven eight nine ten eleven twelve dozen dozens several many few couple pair both
half single double triple multiple numerous another"""  # "one" is mostly a pronoun ("one of them")
COLOURS = """black white grey gray red blue green yellow orange brown pink purple violet gold golden silver beige tan
navy maroon turquoise teal cream blond blonde brunette khaki crimson scarlet lavender colored coloured colorful
colourful multicolored striped plaid"""
SPATIAL = """above across against along alongside among around atop before behind below beneath beside between beyond
bottom front inside left near next opposite outside over right through top toward towards under underneath upon facing
middle edge corner foreground background"""
NEGATIONS = "no not n't without nobody nothing none neither nor never cannot empty missing"
KINDS = {
    "numbers": frozenset(NUMBERS.split()),
    "colours": frozenset(COLOURS.split()),
    "spatial": frozenset(SPATIAL.split()),
    "negations": frozenset(NEGATIONS.split()),
}
TENTHS = 10
NEIGHBOURS, IMAGE_NEIGHBOURS = 50, 10


def slice_columns(run: Run, split: str, *, tags: Mapping[int, Sequence[str]] | None = None) -> Columns:
    """The columns of a split that slices are made of.

    Args:
        run: whose clusters, concepts and diversity they are.
        tags: caption → tags, from reviews.

    Returns:
        numbers: length, numbers, colours, spatial, negations, image, rank (of the caption's image, from 1), tenth (1
        to 10 by diversity of the caption, 1 the least; where the split is small enough to measure it), cluster (of a
        run with prototypes). sets: words, tags, neighbours (of caption 12: the 50 captions nearest to it in the run's
        space, and itself), image_neighbours (of image 12: the captions of the 10 images nearest to it, and its own).
        texts: caption. labels: concept (of a run with a concept branch: the one that the caption's
        attention is highest on, the first of equal ones; whether the caption holds its word plays no part).
    """
    captions, owner = run.captions(split), run.image_of_text(split)
    tokens = [tokenise(caption) for caption in captions]
    numbers = {
        "length": np.array([len(words) for words in tokens]),
        "image": owner,
        "rank": run.ranks(split)["t2i"] + 1,
        **{kind: np.array([_count(words, kind) for words in tokens]) for kind in KINDS},
    }
    if run.sample(split) is None:
        order = np.argsort(run.diversity(split)["diversity"].to_numpy(), kind="stable")
        numbers["tenth"] = np.empty(len(captions), np.int64)
        numbers["tenth"][order] = np.arange(len(captions)) * TENTHS // len(captions) + 1
    if (clusters := prototypes(run, split)) is not None:
        numbers["cluster"] = clusters.pairs
    sets: dict[str, Mapping[str, np.ndarray]] = {"words": _rows(tokens)}
    if run.scores(split) is None:
        images, texts = (np.asarray(vectors) for vectors in run.scoring(split))
        sets["neighbours"] = _Neighbours(texts, NEIGHBOURS, np.arange(len(texts)))
        sets["image_neighbours"] = _Neighbours(images, IMAGE_NEIGHBOURS, owner)
    if tags is not None:
        sets["tags"] = _rows([tag.casefold() for tag in tags.get(row, ())] for row in range(len(captions)))
    labels = {}
    if (view := run.concepts(split)) is not None:
        names = view.names
        labels["concept"] = _rows([names[number].casefold()] for number in view.strongest("text").tolist())
    return Columns(len(captions), numbers, sets, {"caption": captions}, labels)


class _Neighbours(Mapping[str, np.ndarray]):
    """Number of a sample → the captions of the samples nearest to it, computed on demand.

    Args:
        vectors: (k, D) of the samples, unit rows. count: how many are near, beside the sample itself.
        sample_of_text: (m,) the sample of every caption.
    """

    def __init__(self, vectors: np.ndarray, count: int, sample_of_text: np.ndarray) -> None:
        self._vectors, self._count, self._sample_of_text = vectors, count, sample_of_text

    def __getitem__(self, number: str) -> np.ndarray:
        if not number.isdecimal() or int(number) >= len(self._vectors):
            raise KeyError(number)
        cosines = self._vectors @ self._vectors[int(number)]
        nearest = np.argsort(-cosines, kind="stable")[: self._count + 1]
        return np.flatnonzero(np.isin(self._sample_of_text, nearest))

    def __iter__(self) -> Iterator[str]:
        return map(str, range(len(self._vectors)))

    def __len__(self) -> int:
        return len(self._vectors)


def _count(words: Sequence[str], kind: str) -> int:
    """Number of words of a kind; digits are numbers, too."""
    return sum(word in KINDS[kind] or (kind == "numbers" and word[0].isdigit()) for word in words)


def _rows(members: Iterable[Iterable[str]]) -> dict[str, np.ndarray]:
    """member → sorted rows that hold it."""
    rows: dict[str, list[int]] = {}
    for row, names in enumerate(members):
        for name in set(names):
            rows.setdefault(name, []).append(row)
    return {name: np.array(numbers) for name, numbers in rows.items()}
