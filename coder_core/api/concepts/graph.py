"""A part of the concept graph that can be looked at: which concepts, which edges, and where each one is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from coder_core.api.concepts.view import ConceptView
from coder_core.api.sides import Array

Strength = Literal["captions", "edges", "read"]
ROW = 10  # concepts without an edge in one row below the others
LOW, STEP = 0.02, 0.085  # where their first row stands, and the next one above it
APART = 3.0  # steps between parts of the graph: enough to tell them apart
ROOM = (0.085, 0.072)  # width and height of a mark with its name
STEPS = 150
_TINY = 1e-9


@dataclass(frozen=True)
class ConceptGraph:
    """Concepts and the edges among them.

    Attributes:
        nodes: concept, word, kind, count, reads, read_by, x and y from 0 to 1.
        edges: concept, neighbour, weight, together, probability, as `ConceptView.edges`, among these nodes.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame


def strongest(table: pd.DataFrame, by: Strength, kind: str, count: int) -> Array:
    """The strongest concepts of a kind ("" for all), the strongest first.

    Args:
        table: of `ConceptView.table`, with the column "read" when that is asked for.
        by: train captions that hold the concept, edges to and from it, or the attention it gets.
    """
    strength = (
        table["reads"] + table["read_by"] if by == "edges" else table["count" if by == "captions" else "read"]
    )
    chosen = np.flatnonzero((table["kind"] == kind).to_numpy()) if kind else np.arange(len(table))
    order = np.argsort(-strength.to_numpy()[chosen], kind="stable")
    return np.asarray(table["concept"].to_numpy()[chosen[order[:count]]])


def neighbourhood(edges: pd.DataFrame, concept: int, count: int) -> Array:
    """A concept and those it has an edge to or from, the strongest first; `count` in all."""
    away = edges.loc[edges["concept"] == concept, ["neighbour", "weight", "together"]].to_numpy()
    back = edges.loc[edges["neighbour"] == concept, ["concept", "weight", "together"]].to_numpy()
    both = np.concatenate([away, back])
    order = np.lexsort((-both[:, 2], -both[:, 1]))
    numbers = list(dict.fromkeys([concept, *both[order, 0].astype(int).tolist()]))
    return np.array(numbers[:count])


def graph_of(view: ConceptView, concepts: Array) -> ConceptGraph:
    """These concepts with the edges among them and where to draw them; the same input is drawn the same.

    Concepts without an edge here stand in rows at the bottom.
    """
    table, edges = view.table(), view.edges()
    inside = edges[edges["concept"].isin(concepts) & edges["neighbour"].isin(concepts)].reset_index(drop=True)
    nodes = table.iloc[np.asarray(concepts, dtype=int)].reset_index(drop=True)
    ids = nodes["concept"].tolist()
    joined = set(inside["concept"]) | set(inside["neighbour"])
    alone = [number for number in ids if number not in joined]
    rows = -(-len(alone) // ROW)
    floor = LOW + STEP * rows + (0.05 if rows else 0.0)
    places = _springs([number for number in ids if number in joined], inside, floor)
    for place, number in enumerate(alone):
        row, column = divmod(place, ROW)
        places[number] = ((column + 0.5) / ROW, LOW + STEP * (rows - 1 - row))
    spots = np.array([places[number] for number in ids]).reshape(-1, 2)
    return ConceptGraph(nodes.assign(x=spots[:, 0], y=spots[:, 1]), inside)


def _springs(ids: list[int], edges: pd.DataFrame, floor: float) -> dict[int, tuple[float, float]]:
    """Places in [0, 1] × [floor, 1]: as far apart as the edges between them, then names moved off one another."""
    if not ids:
        return {}
    reach = np.array([1.0, 1.0 - floor])
    spots = _by_distance(_steps(ids, edges))
    low, extent = spots.min(0), np.ptp(spots, axis=0)
    spots = np.where(extent > 0, (spots - low) / np.maximum(extent, _TINY), 0.5) * reach
    spots = _apart(spots, reach) + np.array([0.0, floor])
    return {number: (float(x), float(y)) for number, (x, y) in zip(ids, spots.tolist(), strict=True)}


def _steps(ids: list[int], edges: pd.DataFrame) -> Array:
    """(k, k) edges between two concepts on the shortest way; at most three between parts that have none."""
    from scipy.sparse.csgraph import shortest_path  # a quarter of a second to import

    position = {number: i for i, number in enumerate(ids)}
    joined = np.zeros((len(ids), len(ids)))
    for concept, neighbour in edges[["concept", "neighbour"]].to_numpy().tolist():
        joined[position[concept], position[neighbour]] = 1.0
    steps = shortest_path(joined, directed=False, unweighted=True)
    reachable = np.isfinite(steps)
    return np.asarray(np.where(reachable, steps, min(steps[reachable].max() + 1.0, APART)))


def _by_distance(steps: Array) -> Array:
    """(k, 2) places whose distances are the steps, as nearly as a plane allows, near ones first: stress majorisation
    with the weights 1 / steps² (Gansner, Koren and North 2004), begun at classical scaling."""
    count = len(steps)
    if count == 1:
        return np.zeros((1, 2))
    centred = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * centred @ steps**2 @ centred)
    spots = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    spots = spots + 0.05 * np.random.default_rng(0).normal(
        size=spots.shape
    )  # leaves of one hub begin on one spot
    away = np.maximum(steps, 1.0)
    weights = away**-2.0 * (1.0 - np.eye(count))
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    for _ in range(STEPS):
        between = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
        pull = weights * steps / np.maximum(between, _TINY)
        spots = inverse @ ((np.diag(pull.sum(1)) - pull) @ spots)
    return np.asarray(spots)


def _apart(spots: Array, reach: Array) -> Array:
    """Push marks apart, along the shorter way, until no two share the room that a mark and its name need."""
    spots = spots.copy()
    for _ in range(STEPS):
        between = spots[:, None] - spots[None]
        short = np.array(ROOM) - np.abs(between)
        overlap = (short > 0).all(-1)
        np.fill_diagonal(overlap, False)
        if not overlap.any():
            break
        sideways = short[..., 0] * ROOM[1] < short[..., 1] * ROOM[0]
        way = np.where(
            between == 0, np.sign(np.arange(len(spots))[:, None, None] - np.arange(len(spots))[:, None]), 0
        )
        push = (np.sign(between) + way) * short * overlap[..., None] / 2
        push *= np.stack([sideways, ~sideways], axis=-1)
        spots = np.clip(spots + 0.6 * push.sum(1), 0.0, reach)
    return spots
