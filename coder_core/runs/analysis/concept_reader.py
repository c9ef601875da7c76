"""The concept branch of an analysis folder, read: checked tables, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from coder_core.console.faults import Fault, InputError

CONCEPTS = "concepts"  # the document with their names


def in_one(instance: np.ndarray, concept: np.ndarray, beta: float) -> np.ndarray:
    """Both branches of k samples as one vector each, whose inner products are the mixture of CODER eq. 8.

    [√β · v^I, √(1 − β) · v^C] · [√β · w^I, √(1 − β) · w^C] = β · cos(v^I, w^I) + (1 − β) · cos(v^C, w^C).

    Args:
        instance: (k, D) unit rows.
        concept: (k, E) unit rows.
        beta: share of the instance branch, from 0 to 1.

    Returns:
        (k, D + E) float32 unit rows.
    """
    parts = [np.sqrt(beta) * np.asarray(instance), np.sqrt(1.0 - beta) * np.asarray(concept)]
    return np.concatenate(parts, axis=1, dtype=np.float32)


@dataclass(frozen=True)
class ConceptTables:
    """What a run with a concept branch says about a split; arrays are memory-mapped.

    Args:
        words: g names.
        kinds: g times "object", "property" or "motion".
        counts: g times the train captions that hold the concept.
        forms: g lists of the forms that stand for it.
        beta: share of the instance branch in a score.
        image_embeddings: (n, D) unit rows v^C.
        text_embeddings: (m, D) unit rows w^C.
        graph: (g, g) Â.
        together: (g, g) train captions that hold both.
        arrays: the attention, whole or the strongest of every row.
    """

    words: list[str]
    kinds: list[str]
    counts: list[int]
    forms: list[list[str]]
    beta: float
    image_embeddings: np.ndarray
    text_embeddings: np.ndarray
    graph: np.ndarray
    together: np.ndarray
    arrays: Mapping[str, np.ndarray]

    def attention(self, modality: Literal["image", "text"], rows: np.ndarray | slice) -> np.ndarray:
        """(k, g) float32 attention of some images or captions; where only the strongest were kept, the others are 0."""
        name = f"concept_{modality}_attention"
        if name in self.arrays:
            return np.asarray(self.arrays[name][rows], dtype=np.float32)
        columns = np.asarray(self.arrays[f"concept_{modality}_strongest"][rows], dtype=np.int64)
        found = np.zeros((len(columns), len(self.words)), np.float32)
        np.put_along_axis(found, columns, self.arrays[f"concept_{modality}_strength"][rows].astype(np.float32), 1)
        return found


def read_concept_tables(arrays: Mapping[str, np.ndarray], document: Any, beta: Any, place: str) -> ConceptTables:
    """Check the concept tables of a folder against one another and its samples.

    Args:
        arrays: all arrays of the folder.
        document: its concepts.json.
        beta: as its manifest has it.
        place: the folder, for messages.

    Raises:
        InputError: a table is missing, has other rows than the samples, names concepts that are not there, or beta is
            no share.
    """
    if not isinstance(beta, int | float) or isinstance(beta, bool) or not 0 <= beta <= 1:
        raise InputError(Fault(f"{place}/manifest.json key beta", f"is {beta!r}", "a share from 0 to 1"))
    check_shapes({name: array.shape for name, array in arrays.items()}, place)
    size = len(arrays["concept_graph"])
    for modality in ("image", "text"):
        columns = arrays.get(f"concept_{modality}_strongest")
        if columns is not None and (columns.dtype.kind != "i" or (columns.size and not _within(columns, size))):
            file = f"{place}/concept_{modality}_strongest.npy"
            raise InputError(Fault(file, "names concepts that are not there", f"0 to {size - 1}"))
    names = _names(document, size, f"{place}/{CONCEPTS}.json")
    attention = {
        name: array for name, array in arrays.items() if name.endswith(("_attention", "_strongest", "_strength"))
    }
    return ConceptTables(
        **names, beta=float(beta), image_embeddings=arrays["concept_image_embeddings"],
        text_embeddings=arrays["concept_text_embeddings"], graph=arrays["concept_graph"],
        together=arrays["concept_together"], arrays=attention,
    )  # fmt: skip


def check_shapes(shapes: Mapping[str, tuple[int, ...]], place: str) -> None:
    """Every concept table is there and has the rows and columns the others ask for.

    Raises:
        InputError: naming the first that has not.
    """
    size, *_ = shapes.get("concept_graph", (0,))
    expected: dict[str, tuple[int, ...]] = {"concept_graph": (size, size), "concept_together": (size, size)}
    width = shapes.get("concept_image_embeddings", (0, 0))[1:]
    for modality in ("image", "text"):
        rows = shapes[f"{modality}_embeddings"][0]
        expected[f"concept_{modality}_embeddings"] = (rows, *width)
        if f"concept_{modality}_attention" in shapes:
            expected[f"concept_{modality}_attention"] = (rows, size)
        else:
            kept = shapes.get(f"concept_{modality}_strongest", (0, 0))[1:]
            expected[f"concept_{modality}_strongest"] = (rows, *kept)
            expected[f"concept_{modality}_strength"] = (rows, *kept)
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            found = f"has shape {shapes[name]}" if name in shapes else "is missing"
            raise InputError(Fault(f"{place}/{name}.npy", found, f"{shape}"))


def _within(columns: np.ndarray, size: int) -> bool:
    return bool(columns.min() >= 0 and columns.max() < size)


def _names(document: Any, size: int, place: str) -> dict[str, Any]:
    kinds: dict[str, type] = {"words": str, "kinds": str, "counts": int, "forms": list}
    if not isinstance(document, dict):
        raise InputError(Fault(place, "is not a list of concepts", "words, kinds, counts and forms"))
    for key, kind in kinds.items():
        values = document.get(key)
        if not isinstance(values, list) or len(values) != size or not all(isinstance(value, kind) for value in values):
            raise InputError(Fault(f"{place} key {key}", f"does not name {size} concepts", f"{size} values"))
    return {key: document[key] for key in kinds}
