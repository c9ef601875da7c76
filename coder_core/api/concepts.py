"""The concept branch of a run: its concepts, attention to them, their graph and its layout. CODER section 3.2.2."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from coder_core.api.sides import Array, Modality, slices
from coder_core.console.faults import InputError
from coder_core.runs.analysis.concepts import ConceptTables

PIECE = 8_192  # rows of attention in memory at once

Strength = Literal["captions", "edges", "read"]
ROW = 10  # concepts without an edge per row below the others
# y of the lowest of these rows, and the distance between rows
LOW = 0.02
STEP = 0.115
APART = 3.0  # largest distance in steps between unconnected parts of the graph
ROOM = (0.085, 0.105)  # width and height of a mark with its name
STEPS = 150
_TINY = 1e-9


class ConceptView:
    """The concept branch on one split. CODER section 3.2.2, supplement A.2. `beta`: weight of the instance branch in a
    score; the concept branch has the rest. `words`: g names. `kinds`: g times "object", "property" or "motion"."""

    def __init__(self, tables: ConceptTables) -> None:
        self._tables = tables
        self.beta = tables.beta
        self.words = tables.words
        self.kinds = tables.kinds

    @property
    def names(self) -> list[str]:
        """The g words; a word that is a concept of several kinds is followed by its kind in brackets."""
        count = Counter(self.words)
        return [w if count[w] == 1 else f"{w} ({k})" for w, k in zip(self.words, self.kinds, strict=True)]

    def count(self, modality: Modality) -> int:
        """Return the number of images or captions."""
        images = self._tables.image_embeddings
        texts = self._tables.text_embeddings
        return len(images if modality == "image" else texts)

    @property
    def whole(self) -> bool:
        """True if the attention to every concept was kept, False if only the strongest of every sample."""
        return all(f"concept_{modality}_attention" in self._tables.arrays for modality in ("image", "text"))

    def rows(self, modality: Modality, numbers: Array | slice) -> Array:
        """Return (k, g) float32 attention of some images or captions; 0 where it was not kept."""
        return self._tables.attention(modality, numbers)

    def pieces(self, modality: Modality) -> Iterator[Array]:
        """Iterate over `rows` of all images or captions, piece by piece."""
        return (self.rows(modality, part) for part in slices(self.count(modality), PIECE))

    def table(self) -> pd.DataFrame:
        """Return one row per concept: concept, word, kind, count (train captions), forms, reads and read_by (edges)."""
        edges = self._edges()
        columns = {
            "concept": np.arange(len(self.words)),
            "word": self.words,
            "kind": self.kinds,
            "count": self._tables.counts,
            "forms": [", ".join(forms) for forms in self._tables.forms],
            "reads": edges.sum(1),
            "read_by": edges.sum(0),
        }
        return pd.DataFrame(columns)

    def edges(self) -> pd.DataFrame:
        """Return one row per edge of the graph: concept, neighbour, weight (Â), together (train captions with both),
        probability (of the neighbour in a caption with the concept); strongest first."""
        concept, neighbour = np.nonzero(self._edges())
        together = np.asarray(self._tables.together)[concept, neighbour]
        frame = pd.DataFrame({"concept": concept, "neighbour": neighbour})
        frame["weight"] = np.asarray(self._tables.graph)[concept, neighbour]
        frame["together"] = together
        frame["probability"] = together / np.maximum(np.asarray(self._tables.counts), 1)[concept]
        return frame.sort_values(["weight", "together"], ascending=False, kind="stable", ignore_index=True)

    def readers(
        self, concept: int, modality: Modality, *, top: int = 10, within: Array | None = None
    ) -> pd.DataFrame:
        """List the images or captions (only those `within`) that attend to a concept most: sample, attention.
        InputError: no such concept."""
        if not 0 <= concept < len(self.words):
            raise InputError.at(f"concept {concept}", "is not in the run", f"0 to {len(self.words) - 1}")
        attention = np.concatenate([rows[:, concept] for rows in self.pieces(modality)])
        order = np.argsort(-attention, kind="stable")
        order = (order if within is None else order[np.isin(order, within)])[:top]
        return pd.DataFrame({"sample": order, "attention": attention[order]})

    def _edges(self) -> Array:
        """Return (g, g) bool, the edges of Â without the self-loops from its + I."""
        graph = np.asarray(self._tables.graph).copy()
        np.fill_diagonal(graph, 0)
        return np.asarray(graph > 0)


@dataclass(frozen=True)
class AttentionSummary:
    """The attention of k images or captions."""

    samples: Array  # (k,) their numbers
    # (k,) exp of the entropy of the attention, the effective number of concepts: from 1 (one concept has all the
    # attention) to g (all have the same)
    perplexity: Array
    first: Array  # (k,) the concept with most attention
    share: Array  # (k,) its attention
    mean: Array  # (g,) mean attention of a concept; sums to 1

    @property
    def named(self) -> int:
        """Number of concepts that at least one sample attends to most."""
        return len(np.unique(self.first))


@dataclass(frozen=True)
class SharedAttention:
    """The attention that captions share with their image: Σ_c min(image_c, caption_c), from 0 to 1."""

    texts: Array  # (k,) numbers of the captions
    own: Array  # (k,) with their own image
    other: Array  # (k,) with another image drawn at random: agreement by chance


def summarise_attention(
    view: ConceptView, modality: Modality, samples: Array | None = None
) -> AttentionSummary:
    """Summarise the attention of some samples (None: all), piece by piece. Rows are divided by their sums, because they
    were rounded to half precision and may hold only the strongest concepts."""
    numbers = np.arange(view.count(modality)) if samples is None else np.asarray(samples)
    perplexity = np.ones(len(numbers))
    first = np.zeros(len(numbers), np.int64)
    share = np.zeros(len(numbers))
    total = np.zeros(len(view.words))
    for piece in slices(len(numbers), PIECE):
        rows = _shares(view.rows(modality, numbers[piece]))
        perplexity[piece] = np.exp(-(rows * np.log(np.maximum(rows, 1e-12))).sum(1))
        first[piece] = rows.argmax(1)
        share[piece] = rows.max(1)
        total += rows.sum(0)
    return AttentionSummary(numbers, perplexity, first, share, total / max(len(numbers), 1))


def shared_attention(view: ConceptView, image_of_text: Array, texts: Array | None = None) -> SharedAttention:
    """Compute the attention that captions (None: all) share with their images; `image_of_text` is (m,) of the split."""
    owner = np.asarray(image_of_text)
    numbers = np.arange(len(owner)) if texts is None else np.asarray(texts)
    images = view.count("image")
    away = np.random.default_rng(0).integers(1, max(images, 2), len(numbers))
    strangers = (owner[numbers] + away) % images
    own = np.zeros(len(numbers))
    other = np.zeros(len(numbers))
    for piece in slices(len(numbers), PIECE):
        words = _shares(view.rows("text", numbers[piece]))
        own[piece] = np.minimum(words, _shares(view.rows("image", owner[numbers[piece]]))).sum(1)
        other[piece] = np.minimum(words, _shares(view.rows("image", strangers[piece]))).sum(1)
    return SharedAttention(numbers, own, other)


def _shares(rows: Array) -> Array:
    """Divide rows by their sums."""
    exact = rows.astype(np.float64)
    return np.asarray(exact / np.maximum(exact.sum(1, keepdims=True), 1e-12))


@dataclass(frozen=True)
class ConceptGraph:
    """Concepts and the edges among them."""

    nodes: pd.DataFrame  # concept, word, kind, count, reads, read_by, x and y from 0 to 1
    edges: pd.DataFrame  # as in `ConceptView.edges`, among these nodes


def strongest(table: pd.DataFrame, by: Strength, kind: str, count: int) -> Array:
    """Return the strongest concepts of a kind ("" for all), strongest first. `table`: from `ConceptView.table`, with a
    column "read" if `by` is "read". `by`: train captions with the concept, edges from and to it, or attention to it."""
    table = table[table["kind"] == kind] if kind else table
    columns = {"captions": ["count"], "edges": ["reads", "read_by"], "read": ["read"]}[by]
    order = np.argsort(-table[columns].sum(axis=1).to_numpy(), kind="stable")[:count]
    return np.asarray(table["concept"].to_numpy()[order])


def neighbourhood(edges: pd.DataFrame, concept: int, count: int) -> Array:
    """Return a concept and those it has an edge to or from, strongest first; at most `count` in all."""
    away = edges.loc[edges["concept"] == concept, ["neighbour", "weight", "together"]].to_numpy()
    back = edges.loc[edges["neighbour"] == concept, ["concept", "weight", "together"]].to_numpy()
    linked = np.concatenate([away, back])
    order = np.lexsort((-linked[:, 2], -linked[:, 1]))
    numbers = list(dict.fromkeys([concept, *linked[order, 0].astype(int).tolist()]))
    return np.array(numbers[:count])


def graph_of(view: ConceptView, concepts: Array) -> ConceptGraph:
    """Return these concepts with the edges among them and their positions in a drawing, which are deterministic.
    Concepts without an edge here are placed in rows at the bottom."""
    table = view.table()
    edges = view.edges()
    among = edges[edges["concept"].isin(concepts) & edges["neighbour"].isin(concepts)].reset_index(drop=True)
    nodes = table.iloc[np.asarray(concepts, dtype=int)].reset_index(drop=True)
    joined = nodes["concept"].isin({*among["concept"], *among["neighbour"]}).to_numpy()
    spots = np.zeros((len(nodes), 2))
    alone = np.flatnonzero(~joined)
    rows = -(-len(alone) // ROW)
    row, column = np.divmod(np.arange(len(alone)), ROW)
    spots[alone] = np.stack([(column + 0.5) / ROW, LOW + STEP * (rows - 1 - row)], axis=1)
    if joined.any():
        floor = LOW + STEP * rows + (0.05 if rows else 0.0)
        spots[joined] = _springs(nodes["concept"][joined].tolist(), among, floor)
    return ConceptGraph(nodes.assign(x=spots[:, 0], y=spots[:, 1]), among)


def _springs(ids: list[int], edges: pd.DataFrame, floor: float) -> Array:
    """Return (k, 2) positions in [0, 1] × [floor, 1]: distances follow the path lengths, then names are moved apart."""
    reach = np.array([1.0, 1.0 - floor])
    spots = _by_distance(_steps(ids, edges))
    low = spots.min(0)
    extent = np.ptp(spots, axis=0)
    spots = np.where(extent > 0, (spots - low) / np.maximum(extent, _TINY), 0.5) * reach
    return _apart(spots, reach) + np.array([0.0, floor])


def _steps(ids: list[int], edges: pd.DataFrame) -> Array:
    """Return (k, k) numbers of edges on shortest paths; at most `APART` between unconnected parts."""
    from scipy.sparse.csgraph import shortest_path  # a quarter of a second to import

    joined = np.zeros((len(ids), len(ids)))
    joined[[ids.index(i) for i in edges["concept"]], [ids.index(i) for i in edges["neighbour"]]] = 1.0
    steps = shortest_path(joined, directed=False, unweighted=True)
    reachable = np.isfinite(steps)
    return np.asarray(np.where(reachable, steps, min(steps[reachable].max() + 1.0, APART)))


def _by_distance(steps: Array) -> Array:
    """Return (k, 2) positions whose distances approximate the steps, short ones best: stress majorisation with weights
    1 / steps² (Gansner, Koren and North 2004), started from classical scaling."""
    count = len(steps)
    if count == 1:
        return np.zeros((1, 2))
    centred = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * centred @ steps**2 @ centred)
    spots = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # Separate the leaves of one hub, which all start at one position
    spots = spots + 0.05 * np.random.default_rng(0).normal(size=spots.shape)
    weights = np.maximum(steps, 1.0) ** -2.0 * (1.0 - np.eye(count))
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(STEPS):
        between = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
        pull = weights * steps / np.maximum(between, _TINY)
        spots = inverse @ ((np.diag(pull.sum(1)) - pull) @ spots)
    return np.asarray(spots)


def _apart(spots: Array, reach: Array) -> Array:
    """Push marks apart in the shorter direction, until no two overlap with their names or the steps are used up."""
    spots = spots.copy()
    order = np.sign(np.arange(len(spots))[:, None] - np.arange(len(spots)))[..., None]
    for _ in range(STEPS):
        between = spots[:, None] - spots[None]
        short = np.array(ROOM) - np.abs(between)
        overlap = (short > 0).all(-1)
        np.fill_diagonal(overlap, False)
        if not overlap.any():
            break
        sideways = short[..., 0] * ROOM[1] < short[..., 1] * ROOM[0]
        direction = np.where(between == 0, order, np.sign(between))
        push = direction * short * overlap[..., None] / 2
        push *= np.stack([sideways, ~sideways], axis=-1)
        spots = np.clip(spots + 0.6 * push.sum(1), 0.0, reach)
    return spots
