"""The concepts of a run: their co-occurrence in captions as a graph (CODER supplement A.2; rescaled as in CVSE 2020),
their word vectors, and the two files that store them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coder_core.console.faults import InputError
from coder_core.model.concepts.lemmas import Kind
from coder_core.model.concepts.vocabulary import KINDS, Concept, ConceptVocabulary, Source

GraphNorm = Literal["columns", "rows-columns", "cvse"]
# CVSE: P → 5^(P − 0.02) − 5^(−0.02)
RESCALE_BASE = 5.0
RESCALE_SHIFT = 0.02


def count_together(captions: Sequence[Sequence[int]], concepts: int) -> tuple[np.ndarray, np.ndarray]:
    """Count captions, int64: B_ij (g, g) name both concept i and concept j, N_i (g,) name concept i.

    `captions` are lists of concept numbers. Repeats in a caption count once, so that B_ij / N_i is a probability.
    B_ii = 0: the graph's loops come from the + I of Â.
    """
    from scipy import sparse

    named = [sorted(set(caption)) for caption in captions]
    starts = np.cumsum([0, *map(len, named)])
    columns = np.fromiter((concept for caption in named for concept in caption), np.int64, starts[-1])
    ones = np.ones(len(columns), np.int64)
    occurs = sparse.csr_matrix((ones, columns, starts), shape=(len(named), concepts))
    together = np.asarray((occurs.T @ occurs).todense(), dtype=np.int64)
    occurrences = together.diagonal().copy()
    np.fill_diagonal(together, 0)
    return together, occurrences


def conditional(together: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return P_ij = B_ij / N_i, (g, g) float64: the probability of concept j in a caption that names concept i. (The
    paper's prose swaps i and j.) The row of a concept in no caption is zero."""
    return np.asarray(together / np.maximum(occurrences, 1)[:, None], dtype=np.float64)


def rescale(probability: np.ndarray) -> np.ndarray:
    """Return 5^(P − 0.02) − 5^(−0.02): 0 stays 0, and a threshold of 0.3 corresponds to P = 0.168."""
    return np.asarray(RESCALE_BASE ** (probability - RESCALE_SHIFT) - RESCALE_BASE**-RESCALE_SHIFT)


def connect(probability: np.ndarray, *, threshold: float) -> np.ndarray:
    """Return H, (g, g) float64: H_ij = 1 where P_ij ≥ threshold, otherwise 0."""
    return (probability >= threshold).astype(np.float64)


def normalise_graph(edges: np.ndarray, norm: GraphNorm = "columns") -> np.ndarray:
    """Normalise (g, g) H to Â by one of three readings of D^(−1/2) H D^(−1/2) + I: "columns", D_jj = Σ_i H_ij on both
    sides; "rows-columns", row sums on the left and column sums on the right; "cvse", D^(−1/2) (H + I) D^(−1/2) with the
    row sums of H + I.

    H is not symmetric: many rare concepts have an edge to a frequent one but none back, so many columns have degree
    zero. D^(−1/2) is zero there, so "columns" drops every edge from such a concept; the other two keep all edges.
    """
    loops = np.eye(len(edges))
    if norm == "cvse":
        root = _inverse_root((edges + loops).sum(1))
        return np.asarray(root[:, None] * (edges + loops) * root[None, :], dtype=np.float32)
    right = _inverse_root(edges.sum(0))
    left = right if norm == "columns" else _inverse_root(edges.sum(1))
    return np.asarray(left[:, None] * edges * right[None, :] + loops, dtype=np.float32)


def _inverse_root(degree: np.ndarray) -> np.ndarray:
    """Return D^(−1/2) as a vector, 0 for degree 0."""
    return np.where(degree > 0, 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)


FORMAT = "coder-concepts-1"
NAMES = "concepts.json"
ARRAYS = "concepts.safetensors"


@dataclass(frozen=True)
class Concepts:
    """The concepts of a run."""

    vocabulary: ConceptVocabulary
    together: np.ndarray  # (g, g) int64, number of train captions that name both
    occurrences: np.ndarray  # (g,) int64, number of train captions that name each
    vectors: np.ndarray  # (g, C) float32 word vectors

    def __len__(self) -> int:
        return len(self.vocabulary)

    def graph(
        self, *, threshold: float = 0.3, rescaled: bool = True, norm: GraphNorm = "columns"
    ) -> np.ndarray:
        """Return Â, (g, g) float32, from the counts (`normalise_graph`). `threshold`: ε of the graph. It applies to the
        probabilities, `rescaled` as in CVSE or, in CODER's literal reading, raw."""
        probability = conditional(self.together, self.occurrences)
        edges = connect(rescale(probability) if rescaled else probability, threshold=threshold)
        return normalise_graph(edges, norm)

    def to_files(self) -> dict[str, bytes | str]:
        """Return concepts.json and concepts.safetensors: name → content."""
        entries = [asdict(concept) for concept in self.vocabulary.concepts]
        document = {"format": FORMAT, "source": self.vocabulary.source, "concepts": entries}
        arrays = {"together": self.together, "occurrences": self.occurrences, "vectors": self.vectors}
        return {NAMES: json.dumps(document, ensure_ascii=False, indent=0), ARRAYS: save(arrays)}

    @classmethod
    def from_files(cls, names: bytes, arrays: bytes, folder: str) -> Concepts:
        """Read concepts.json and concepts.safetensors; `folder` is for messages. InputError: a file is damaged or of
        another format, or the two do not match."""
        file = f"{folder}/{NAMES}"
        try:
            vocabulary = _read_names(names)
            file = f"{folder}/{ARRAYS}"
            tensors = load(arrays)
        except (ValueError, RecursionError, SafetensorError) as error:
            raise InputError.at(file, f"cannot be read: {error}", f'the format "{FORMAT}"') from None
        count = len(vocabulary)
        size = (0, *getattr(tensors.get("vectors"), "shape", ()))[-1]
        expected = {"together": f"int64{[count] * 2}", "occurrences": f"int64[{count}]"}
        expected["vectors"] = f"float32{[count, size]}"
        actual = {name: f"{array.dtype}{list(array.shape)}" for name, array in sorted(tensors.items())}
        if actual != expected:
            held, needed = (" ".join(map(" ".join, forms.items())) for forms in (actual, expected))
            raise InputError.at(file, f"contains {held}", needed)
        return cls(vocabulary, **tensors)


def _read_names(content: bytes) -> ConceptVocabulary:
    match json.loads(content):
        case {"format": form, "source": str(source), "concepts": [_, _, *_] as entries} if (
            form == FORMAT and source in get_args(Source)
        ):
            return ConceptVocabulary(tuple(map(_read_concept, entries)), cast(Source, source))
    raise ValueError("not a run's list of two or more concepts")


def _read_concept(entry: Any) -> Concept:
    match entry:
        case {"word": str(word), "kind": str(kind), "count": int(count), "forms": [*forms]} if (
            kind in KINDS and all(isinstance(form, str) for form in forms)
        ):
            return Concept(word, cast(Kind, kind), count, tuple(forms))
    raise ValueError(f"{entry!r:.80} is not a concept with word, kind, count and forms")
