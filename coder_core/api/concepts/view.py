"""The concept branch of a run: its concepts, their graph, and the attention of every image and caption."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from coder_core.api.sides import Array, Modality, slices
from coder_core.console.faults import Fault, InputError
from coder_core.runs.analysis.concepts import ConceptTables

_PIECE = 65_536  # rows of attention in memory at once


class ConceptView:
    """The concept branch on one split. CODER section 3.2.2, supplement A.2.

    Attributes:
        beta: share of the instance branch in a score; the concept branch has the rest.
        words: g names. kinds: g times "object", "property" or "motion".
    """

    def __init__(self, tables: ConceptTables) -> None:
        self._tables = tables
        self.beta = tables.beta
        self.words = tables.words
        self.kinds = tables.kinds

    @property
    def names(self) -> list[str]:
        """The g words; one that is a concept of several kinds carries its kind in brackets."""
        count = Counter(self.words)
        return [w if count[w] == 1 else f"{w} ({k})" for w, k in zip(self.words, self.kinds, strict=True)]

    def strongest(self, modality: Modality) -> Array:
        """(rows,) the concept that every image or caption reads most, the first of equal ones."""
        rows = len(self.embeddings()[modality == "text"])
        parts = [self.rows(modality, part).argmax(1) for part in slices(rows, _PIECE)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def embeddings(self) -> tuple[Array, Array]:
        """v^C (n, D) and w^C (m, D), unit rows, read-only float32."""
        return self._tables.image_embeddings, self._tables.text_embeddings

    @property
    def whole(self) -> bool:
        """True if the attention to every concept was kept, False if only the strongest of every sample."""
        return all(f"concept_{modality}_attention" in self._tables.arrays for modality in ("image", "text"))

    def rows(self, modality: Modality, numbers: Array | slice) -> Array:
        """(k, g) float32 attention of some images or captions; what was not kept is 0."""
        return self._tables.attention(modality, numbers)

    def table(self) -> pd.DataFrame:
        """One row a concept: concept, word, kind, count (train captions), forms, reads (edges from it), read_by."""
        edges = self._edges()
        return pd.DataFrame(
            {
                "concept": np.arange(len(self.words)),
                "word": self.words,
                "kind": self.kinds,
                "count": self._tables.counts,
                "forms": [", ".join(forms) for forms in self._tables.forms],
                "reads": edges.sum(1),
                "read_by": edges.sum(0),
            }
        )

    def edges(self) -> pd.DataFrame:
        """The graph, one row an edge: concept, neighbour, weight (Â), together (train captions that hold both),
        probability (of the neighbour in a caption that holds the concept); the strongest first."""
        rows, columns = np.nonzero(self._edges())
        together = np.asarray(self._tables.together)[rows, columns]
        counts = np.maximum(np.asarray(self._tables.counts), 1)[rows]
        frame = pd.DataFrame(
            {
                "concept": rows,
                "neighbour": columns,
                "weight": np.asarray(self._tables.graph)[rows, columns],
                "together": together,
                "probability": together / counts,
            }
        )
        return frame.sort_values(["weight", "together"], ascending=False, kind="stable", ignore_index=True)

    def attention(self, modality: Modality, number: int, *, top: int = 20) -> pd.DataFrame:
        """The concepts one image or caption reads most: concept, word, kind, attention (of all concepts sums to 1).

        Raises:
            InputError: there is no such sample.
        """
        attention = self._row(modality, number)
        order = np.argsort(-attention, kind="stable")[:top]
        return self._frame(order, attention=attention[order])

    def disagreement(self, image: int, text: int, *, top: int = 20) -> pd.DataFrame:
        """Concepts that an image and a caption read differently: concept, word, kind, image, text, difference (image − text);
        the largest difference of either sign first."""
        by_image, by_text = self._row("image", image), self._row("text", text)
        difference = by_image - by_text
        order = np.argsort(-np.abs(difference), kind="stable")[:top]
        return self._frame(order, image=by_image[order], text=by_text[order], difference=difference[order])

    def readers(
        self, concept: int, modality: Modality, *, top: int = 10, within: Array | None = None
    ) -> pd.DataFrame:
        """The images or captions (of those `within`) that read a concept most: sample, attention.

        Raises:
            InputError: there is no such concept.
        """
        if not 0 <= concept < len(self.words):
            raise InputError(Fault(f"concept {concept}", "is not in the run", f"0 to {len(self.words) - 1}"))
        rows = len(self.embeddings()[modality == "text"])
        attention = np.concatenate([self.rows(modality, part)[:, concept] for part in slices(rows, _PIECE)])
        order = np.argsort(-attention, kind="stable")
        order = (order if within is None else order[np.isin(order, within)])[:top]
        return pd.DataFrame({"sample": order, "attention": attention[order]})

    def _edges(self) -> Array:
        """(g, g) bool: Â without the loops that its + I adds."""
        graph = np.asarray(self._tables.graph).copy()
        np.fill_diagonal(graph, 0)
        return np.asarray(graph > 0)

    def _row(self, modality: Modality, number: int) -> Array:
        rows = len(self.embeddings()[modality == "text"])
        if not 0 <= number < rows:
            raise InputError(Fault(f"{modality} {number}", "is not in the split", f"0 to {rows - 1}"))
        return self._tables.attention(modality, np.array([number]))[0]

    def _frame(self, order: Array, **columns: Array) -> pd.DataFrame:
        words, kinds = np.array(self.words, dtype=object)[order], np.array(self.kinds, dtype=object)[order]
        return pd.DataFrame({"concept": order, "word": words, "kind": kinds, **columns})
