"""The concepts of a run with their co-occurrence and word vectors, and the two files that store them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coder_core.concepts.cooccurrence import concept_graph
from coder_core.concepts.vocabulary import KINDS, Concept, ConceptVocabulary, Source
from coder_core.console.faults import Fault, InputError

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

    def graph(self, *, threshold: float, rescaled: bool) -> np.ndarray:
        """Â, (g, g) float32."""
        return concept_graph(self.together, self.occurrences, threshold=threshold, rescaled=rescaled)

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
            document: Any = json.loads(names)
        except (ValueError, RecursionError) as error:
            raise InputError(Fault(f"{folder}/{NAMES}", f"cannot be read as JSON: {error}")) from None
        try:
            tensors = load(arrays)
        except SafetensorError as error:
            raise InputError(Fault(f"{folder}/{ARRAYS}", f"cannot be read: {error}")) from None
        problem = _names_problem(document)
        if problem:
            raise InputError(Fault(f"{folder}/{NAMES}", problem, f'the format "{FORMAT}"'))
        entries = [
            Concept(entry["word"], entry["kind"], entry["count"], tuple(entry["forms"]))
            for entry in document["concepts"]
        ]
        problem = _arrays_problem(tensors, len(entries))
        if problem:
            raise InputError(Fault(f"{folder}/{ARRAYS}", problem, f"arrays of {len(entries)} concepts"))
        vocabulary = ConceptVocabulary(tuple(entries), document["source"])
        return cls(vocabulary, tensors["together"], tensors["occurrences"], tensors["vectors"])


def _names_problem(document: Any) -> str:
    if (
        not isinstance(document, dict)
        or document.get("format") != FORMAT
        or document.get("source") not in get_args(Source)
    ):
        return "is not a run's list of concepts"
    entries = document.get("concepts")
    if not isinstance(entries, list) or len(entries) < 2:
        return "holds fewer than two concepts"
    for entry in entries:
        is_concept = isinstance(entry, dict) and isinstance(entry.get("word"), str) and entry.get("kind") in KINDS
        forms = entry.get("forms") if is_concept else None
        if not isinstance(forms, list) or not all(isinstance(form, str) for form in forms):
            return "holds a concept without word, kind or forms"
        if type(entry.get("count")) is not int:
            return f"gives {entry['word']!r} no count"
    return ""


def _arrays_problem(arrays: dict[str, np.ndarray], count: int) -> str:
    if set(arrays) != {"together", "occurrences", "vectors"}:
        return f"holds {', '.join(sorted(arrays)) or 'nothing'}"
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes["together"] != (count, count) or shapes["occurrences"] != (count,) or shapes["vectors"][:1] != (count,):
        return f"holds shapes {', '.join(map(str, shapes.values()))}"
    kinds = arrays["together"].dtype.kind + arrays["occurrences"].dtype.kind + arrays["vectors"].dtype.str
    return "" if kinds == "ii<f4" else "holds numbers of another type"
