"""Finished parts of a ranking of many queries, kept beside the runs until all are there, so that an interrupted command
continues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coder_core.evaluation.ranking import QUERIES_AT_ONCE
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.sources import TILE_ELEMENTS, EmbeddingPair, Source, slices
from coder_core.files.parts import FOLDER, Keep, compute, keep_in, remove_parts


@dataclass(frozen=True)
class UnfinishedRanks:
    """Place of the finished parts of a split's ranks."""

    run: Path  # folder of the run
    split: str

    @contextmanager
    def opened(self, sources: Sequence[Source], relevance: Relevance) -> Iterator[Keep]:
        """Yield a function that keeps the parts of a ranking, which are removed at the end. A ranking of one part per
        direction is not kept: it takes minutes."""
        asking = [relation.asking for relation in (relevance.i2t, relevance.t2i)]
        if all(queries is None or len(queries) <= QUERIES_AT_ONCE for queries in asking):
            yield compute
            return

        name = f"ranks-{self.run.name}-{self.split}-{_key(sources, relevance)}"
        folder = self.run.parent / FOLDER / name

        yield keep_in(folder, "ranks")
        remove_parts(folder)


def _key(sources: Sequence[Source], relevance: Relevance) -> str:
    """Return 24 hex digits that change with any score, any right pair and any chosen query."""
    digest = hashlib.sha256()
    for source in sources:
        pair = isinstance(source, EmbeddingPair)
        digest.update(repr((pair, source.weight, source.shape)).encode())
        for matrix in (source.image, source.text) if isinstance(source, EmbeddingPair) else (source.scores,):
            rows = np.asarray(matrix)
            for part in slices(len(rows), TILE_ELEMENTS // rows.shape[1]):
                digest.update(np.ascontiguousarray(rows[part]).data)
    for relation in (relevance.i2t, relevance.t2i):
        for array in (relation.queries, relation.candidates, relation.grades, relation.asking):
            digest.update(np.ascontiguousarray(array).tobytes() if array is not None else b"all")
    return digest.hexdigest()[:24]
