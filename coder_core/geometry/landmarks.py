"""Layouts of many points: some, drawn at random, are laid out as landmarks; the others are placed among them.

A layout of a million points would take hours, and no screen shows its last details. 50,000 landmarks take minutes, and
a placed point is among the landmarks that are most similar to it. `surviving_neighbours` measures what is lost.
"""

from functools import partial

import numpy as np
from scipy.spatial import KDTree

from coder_core.console.output import Progress, silent
from coder_core.files.parts import Keep, compute
from coder_core.geometry.points import TILE_ELEMENTS, Array, Points

PLACED_BY = 5  # landmarks; the mean of more pulls points out of their groups into the middle
EXACT_BELOW = 4_096  # landmarks; below, an index saves no time
LISTS = 512  # of the index
PROBED = 12  # lists that a query looks into
PART = 131_072  # points placed between two saves
JUDGED = 500  # points of each kind whose neighbours are compared
NEIGHBOURS = 15


def place_others(
    points: Points, landmarks: Array, plane: Array, *, progress: Progress = silent, keep: Keep = compute
) -> Array:
    """Place all points among their nearest landmarks, at the mean of their places weighted by 1 / cosine distance.

    Args:
        landmarks: (L,) ascending numbers of the landmarks among the N points; they stay at their places.
        plane: (L, 2) places of the landmarks.
        keep: keeps parts of 131,072 points, so that an interrupted call continues.

    Returns:
        (N, 2) float32 places.
    """
    index = index_of(points.take(landmarks))
    count = min(PLACED_BY, len(landmarks))

    def part(rows: Array) -> Array:
        cosines, nearest = index.search(points.take(rows), count)
        weights = 1.0 / np.maximum(1.0 - cosines, 1e-6)
        weights[nearest < 0] = 0.0  # the probed lists had fewer landmarks
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-12)
        return np.asarray(np.einsum("qk,qkd->qd", weights, plane[nearest]), dtype=np.float32)

    def places(rows: Array) -> dict[str, Array]:
        return {"places": part(rows)}

    placed = np.empty((len(points), 2), dtype=np.float32)
    for start in range(0, len(points), PART):
        rows = np.arange(start, min(start + PART, len(points)))
        placed[rows] = keep(f"placed-{start}", partial(places, rows))["places"]
        progress(int(rows[-1]) + 1, len(points), "placing the other points among the landmarks")
    placed[landmarks] = plane
    return placed


def surviving_neighbours(
    points: Points, plane: Array, landmarks: Array, *, seed: int, progress: Progress = silent
) -> tuple[float, float | None]:
    """Return the share of the 15 nearest neighbours by cosine, among all points, that are also among the 15 nearest on
    the plane: of 500 landmarks, and of 500 placed points (None if there are none), drawn at random."""
    rng = np.random.default_rng(seed)
    others = np.setdiff1d(np.arange(len(points)), landmarks, assume_unique=True)
    kinds = [rng.choice(rows, min(JUDGED, len(rows)), replace=False) for rows in (landmarks, others)]
    judged = np.concatenate(kinds)
    count = min(NEIGHBOURS, len(points) - 1)
    in_space = _nearest(points, judged, count, progress)
    _, on_plane = KDTree(plane).query(plane[judged], count + 1)
    shares = []
    for row, near, seen in zip(judged.tolist(), in_space.tolist(), on_plane.tolist(), strict=True):
        shares.append(len({*near} & {*seen} - {row}) / count)
    of_landmarks = float(np.mean(shares[: len(kinds[0])]))
    return of_landmarks, float(np.mean(shares[len(kinds[0]) :])) if len(others) else None


def _nearest(points: Points, queries: Array, count: int, progress: Progress) -> Array:
    """Return (Q, count) the nearest other points of some of the points, by cosine, in no order."""
    rows = points.take(queries)
    best = np.full((len(queries), count), -np.inf, dtype=np.float32)
    names = np.zeros((len(queries), count), dtype=np.int64)
    step = max(count, TILE_ELEMENTS // len(queries))
    for start in range(0, len(points), step):
        numbers = np.arange(start, min(start + step, len(points)))
        scores = rows @ points.take(numbers).T
        scores[queries[:, None] == numbers] = -np.inf
        scores = np.concatenate([best, scores], axis=1)
        found = np.concatenate([names, np.broadcast_to(numbers, (len(queries), len(numbers)))], axis=1)
        kept = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        best = np.take_along_axis(scores, kept, 1)
        names = np.take_along_axis(found, kept, 1)
        progress(int(numbers[-1]) + 1, len(points), "comparing neighbours on the map and in the space")
    return names


def index_of(landmarks: Array, probed: int = PROBED):  # type: ignore[no-untyped-def]
    """Return a faiss index of (L, D) unit rows by inner product: exact, or of many rows by inverted lists, `probed` of
    which a query looks into."""
    import faiss  # half a second to import

    landmarks = np.ascontiguousarray(landmarks, dtype=np.float32)
    width = landmarks.shape[1]
    exact = faiss.IndexFlatIP(width)
    if len(landmarks) <= EXACT_BELOW:
        exact.add(landmarks)
        return exact
    lists = min(LISTS, len(landmarks) // 40)
    index = faiss.IndexIVFFlat(exact, width, lists, faiss.METRIC_INNER_PRODUCT)
    index.nprobe = probed
    index.train(landmarks)
    index.add(landmarks)
    return index
