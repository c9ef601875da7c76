"""The concept branch in an analysis folder: embeddings, attention, graph, names. Arrays are called `concept_…`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from coder_core.console.faults import InputError
from coder_core.runs.analysis.tables import check_tables

CONCEPTS = "concepts"  # the document with their names
EMBEDDINGS = ("concept_image_embeddings", "concept_text_embeddings")
_NAMES: dict[str, type] = {"words": str, "kinds": str, "counts": int, "forms": list}


@dataclass(frozen=True)
class ConceptTables:
    """The concept branch's embeddings, attention and graph on a split; arrays are read-only."""

    words: list[str]  # g names
    kinds: list[str]  # of each concept, "object", "property" or "motion"
    counts: list[int]  # of each concept, the number of train captions with it
    forms: list[list[str]]  # g lists of the forms counted as the concept
    beta: float  # share of the instance branch in a score
    image_embeddings: np.ndarray  # (n, D) unit rows v^C
    text_embeddings: np.ndarray  # (m, D) unit rows w^C
    graph: np.ndarray  # (g, g) Â
    together: np.ndarray  # (g, g) numbers of train captions with both
    arrays: Mapping[str, np.ndarray]  # the attention, in full or the strongest of every row

    def attention(self, modality: Literal["image", "text"], rows: np.ndarray | slice) -> np.ndarray:
        """Return the (k, g) float32 attention of some images or captions; 0 for concepts that were not written."""
        name = f"concept_{modality}_attention"
        if name in self.arrays:
            return np.asarray(self.arrays[name][rows], dtype=np.float32)
        columns = np.asarray(self.arrays[f"concept_{modality}_strongest"][rows], dtype=np.int64)
        strength = self.arrays[f"concept_{modality}_strength"][rows].astype(np.float32)
        attention = np.zeros((len(columns), len(self.words)), np.float32)
        np.put_along_axis(attention, columns, strength, 1)
        return attention


def read_concept_tables(
    arrays: Mapping[str, np.ndarray], document: Any, beta: Any, place: str
) -> ConceptTables:
    """Check the concept tables of a folder against each other and its samples; `document` is concepts.json. InputError:
    a table is missing, its rows are not the samples, it names unknown concepts, or beta is not a share."""
    if not isinstance(beta, int | float) or isinstance(beta, bool) or not 0 <= beta <= 1:
        raise InputError.at(f"{place}/manifest.json key beta", f"is {beta!r}", "a share from 0 to 1")

    required = ["concept_graph", "concept_together", *EMBEDDINGS]
    for modality in ("image", "text"):
        if f"concept_{modality}_attention" not in arrays:
            required += [f"concept_{modality}_strongest", f"concept_{modality}_strength"]

    check_tables(arrays, required, place)
    size = len(arrays["concept_graph"])
    for name in ("concept_image_strongest", "concept_text_strongest"):
        columns = arrays.get(name)
        if columns is not None and columns.size and not (columns.min() >= 0 and columns.max() < size):
            raise InputError.at(f"{place}/{name}.npy", "names unknown concepts", f"0 to {size - 1}")

    of_attention = ("_attention", "_strongest", "_strength")
    return ConceptTables(
        **_names(document, size, f"{place}/{CONCEPTS}.json"),
        beta=float(beta),
        image_embeddings=arrays[EMBEDDINGS[0]],
        text_embeddings=arrays[EMBEDDINGS[1]],
        graph=arrays["concept_graph"],
        together=arrays["concept_together"],
        arrays={name: array for name, array in arrays.items() if name.endswith(of_attention)},
    )


def _names(document: Any, size: int, place: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InputError.at(place, "is not a list of concepts", "words, kinds, counts and forms")
    for key, kind in _NAMES.items():
        values = document.get(key)
        if not isinstance(values, list) or [type(value) for value in values] != [kind] * size:
            raise InputError.at(f"{place} key {key}", f"does not name {size} concepts", f"{size} values")
    if not all(isinstance(form, str) for forms in document["forms"] for form in forms):
        raise InputError.at(f"{place} key forms", "contains values that are not words", "arrays of words")
    return {key: document[key] for key in _NAMES}
