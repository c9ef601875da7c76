"""The concepts of a run with their co-occurrence and word vectors, and the two files that store them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coder_core.console.faults import Fault, InputError
from coder_core.model.concepts.cooccurrence import GraphNorm, concept_graph
from coder_core.model.concepts.lemmas import Kind
from coder_core.model.concepts.vocabulary import KINDS, Concept, ConceptVocabulary, Source

FORMAT = "coder-concepts-1"
NAMES, ARRAYS = "concepts.json", "concepts.safetensors"


@dataclass(frozen=True)
class Concepts:
    """The concepts of a run.

    Args:
        vocabulary: their names, kinds and forms.
        together: (g, g) int64, train captions that name both.
        occurrences: (g,) int64, train captions that name each.
        vectors: (g, C) float32 word vectors.
    """

    vocabulary: ConceptVocabulary
    together: np.ndarray
    occurrences: np.ndarray
    vectors: np.ndarray

    def __len__(self) -> int:
        return len(self.vocabulary)

    def graph(self, *, threshold: float, rescaled: bool, norm: GraphNorm = "columns") -> np.ndarray:
        """Â, (g, g) float32."""
        return concept_graph(
            self.together, self.occurrences, threshold=threshold, rescaled=rescaled, norm=norm
        )

    def to_files(self) -> dict[str, bytes | str]:
        """concepts.json and concepts.safetensors."""
        entries = [asdict(concept) for concept in self.vocabulary.concepts]
        document = {"format": FORMAT, "source": self.vocabulary.source, "concepts": entries}
        arrays = {"together": self.together, "occurrences": self.occurrences, "vectors": self.vectors}
        return {NAMES: json.dumps(document, ensure_ascii=False, indent=0), ARRAYS: save(arrays)}

    @classmethod
    def from_files(cls, names: bytes, arrays: bytes, folder: str) -> Concepts:
        """Read concepts.json and concepts.safetensors; `folder` is for messages.

        Raises:
            InputError: a file is damaged or of another format, or the two do not match.
        """
        try:
            vocabulary = _read_names(names)
        except (ValueError, RecursionError) as error:
            raise InputError(
                Fault(f"{folder}/{NAMES}", f"cannot be read: {error}", f'the format "{FORMAT}"')
            ) from None
        try:
            tensors = load(arrays)
        except SafetensorError as error:
            raise InputError(Fault(f"{folder}/{ARRAYS}", f"cannot be read: {error}")) from None
        count, size = len(vocabulary), (0, *getattr(tensors.get("vectors"), "shape", ()))[-1]
        expected = {
            "together": f"int64{[count] * 2}",
            "occurrences": f"int64[{count}]",
            "vectors": f"float32{[count, size]}",
        }
        layout = {name: f"{array.dtype}{list(array.shape)}" for name, array in sorted(tensors.items())}
        if layout != expected:
            contents, wanted = (
                " ".join(f"{k} {v}" for k, v in arrays.items()) for arrays in (layout, expected)
            )
            raise InputError(Fault(f"{folder}/{ARRAYS}", f"holds {contents}", wanted))
        return cls(vocabulary, **tensors)


def _read_names(content: bytes) -> ConceptVocabulary:
    match json.loads(content):
        case {"format": str(form), "source": str(source), "concepts": [_, _, *_] as entries} if (
            form == FORMAT
        ):
            if source in get_args(Source):
                return ConceptVocabulary(tuple(map(_read_concept, entries)), cast(Source, source))
    raise ValueError("not a run's list of two or more concepts")


def _read_concept(entry: Any) -> Concept:
    match entry:
        case {"word": str(word), "kind": str(kind), "count": int(count), "forms": [*forms]} if kind in KINDS:
            if all(isinstance(form, str) for form in forms):
                return Concept(word, cast(Kind, kind), count, tuple(forms))
    raise ValueError(f"{entry!r:.80} is no concept with word, kind, count and forms")
