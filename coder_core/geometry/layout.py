"""Lay out a joint space on a plane by PCA, UMAP (McInnes et al. 2018, arXiv:1802.03426) or t-SNE (van der Maaten 2008),
images and captions together, alone or aligned to a run.

Layouts of two runs differ by a rotation, a reflection and the place where each group happens to land, none of which is
due to the runs. So the second layout starts from the first, moves its points more gently than an independent layout,
and is then rotated, mirrored and shifted onto the first (Procrustes). AlignedUMAP, the alternative, couples both
layouts while it computes them, so that a run without structure would inherit some of the other's.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import procrustes

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent, within
from coder_core.files.parts import Arrays, Keep, compute
from coder_core.geometry.landmarks import NEIGHBOURS, index_of, place_others, surviving_neighbours
from coder_core.geometry.points import TILE_ELEMENTS, Array, Points, stratified
from coder_core.geometry.settings import LayoutSettings, Method

# with more points, so many drawn at random are laid out, and the others are placed among them
LANDMARKS: dict[Method, int] = {"umap": 50_000, "tsne": 20_000}
EXACT_NEIGHBOURS = 20_000  # points; of more, an index finds the neighbours for UMAP
PROBED_LISTS = 32  # of the 512 lists of the index
SEARCHED = 8_192  # points at once
SPECTRAL_AT_MOST = 20_000  # points; more start from their principal plane, because the spectrum takes minutes
AXES_FROM = 50_000  # points that determine the principal axes
FEWEST = 4
COMPILING = "compiling UMAP: numba takes up to a minute the first time"
GENTLE = 0.5  # learning rate when starting from another layout: at 1 whole groups leave their places
# share of the work after which these phases are over
_NEIGHBOURS = 0.15
_COMPILED = 0.4
_PLACING = 0.6  # … of a layout with landmarks
_JUDGING = 0.95
ITERATIONS = 1_000
EXAGGERATION = 12.0  # scikit-learn's default, for an independent layout
GENTLE_EXAGGERATION = 4.0  # when starting from another layout: 12 moves groups away from their places


@dataclass(frozen=True)
class PlaneLayout:
    """A finished layout."""

    plane: Array  # (N, 2) float32, images first, then captions; only one of them if the settings say so
    notes: tuple[str, ...] = ()  # sentences about changed settings
    # difference from the layout it is aligned to (0 the same, 1 nothing in common); None if not aligned
    disparity: float | None = None
    shares: tuple[float, float] | None = None  # share of the variance on each axis; PCA only


def lay_out(
    points: Points,
    settings: LayoutSettings,
    *,
    reference: Array | None = None,
    progress: Progress = silent,
    keep: Keep = compute,
) -> PlaneLayout:
    """Lay out a joint space on a plane.

    Args:
        points: n images and m captions; `settings.modalities` selects those to lay out, and whether to centre them.
        reference: (N, 2) layout of another run on the same samples, to align to.
        keep: keeps finished parts of a layout of many points, so that an interrupted call continues.

    InputError: no points; for UMAP and t-SNE fewer than four points, or all points identical.
    """
    points = points.only(settings.modalities)
    fewest = 1 if settings.method == "pca" else FEWEST
    if len(points) < fewest:
        fix = "use PCA" if len(points) else ""
        raise InputError.at("the layout", f"has {len(points)} points", f"at least {fewest}", fix)

    notes: list[str] = []
    shares = disparity = None
    if settings.method == "pca":
        plane, shares = principal_plane(points)
    else:
        _refuse_collapsed(points)
        plane = _from_landmarks(points, settings, reference, notes, progress, keep)

    if not np.isfinite(plane).all():
        fix = "use another method or seed"
        raise InputError.at("the layout", "contains numbers that are not finite", fix=fix)
    if reference is not None:
        plane, disparity = onto(plane, reference)

    return PlaneLayout(plane, tuple(notes), disparity, shares)


def _from_landmarks(
    points: Points,
    settings: LayoutSettings,
    reference: Array | None,
    notes: list[str],
    progress: Progress,
    keep: Keep,
) -> Array:
    """Lay out all points or, of many, some that are drawn at random, and place the others among these; (N, 2)."""
    landmarks = stratified((len(points.images), len(points.texts)), LANDMARKS[settings.method], settings.seed)
    is_whole = len(landmarks) == len(points)
    start = None if reference is None else reference[landmarks]
    lay_out_all = _tsne if settings.method == "tsne" else _umap
    fitting = within(progress, 0.0, _JUDGING if is_whole else _PLACING)

    def of_landmarks() -> Arrays:
        part: list[str] = []
        plane = lay_out_all(points.take(landmarks), settings, start, part, fitting)
        return {"plane": plane, "notes": np.frombuffer("\n".join(part).encode(), np.uint8)}

    kept = of_landmarks() if is_whole else keep("landmarks", of_landmarks)
    notes += bytes(kept["notes"]).decode().splitlines()
    plane = kept["plane"]
    if not is_whole:
        placing = within(progress, _PLACING, _JUDGING)
        plane = place_others(points, landmarks, plane, progress=placing, keep=keep)
        drawn = f"{len(landmarks):,} of {len(points):,} points drawn at random are landmarks of the layout"
        notes.append(f"{drawn}; the others are placed among their nearest landmarks")
    judging = within(progress, _JUDGING, 1.0)
    share_of_landmarks, share_of_placed = surviving_neighbours(
        points, plane, landmarks, seed=settings.seed, progress=judging
    )
    notes.append(_describe_survival(share_of_landmarks, share_of_placed))
    return plane


def _describe_survival(of_landmarks: float, of_placed: float | None) -> str:
    nearest = f"of the {NEIGHBOURS} nearest neighbours in the space"
    if of_placed is None:
        return f"{nearest}, {100 * of_landmarks:.0f} % are among the {NEIGHBOURS} nearest on the map"
    shares = f"{100 * of_landmarks:.1f} % of landmarks' and {100 * of_placed:.1f} % of placed points'"
    return f"{nearest}, {shares} are among the {NEIGHBOURS} nearest on the map"


def _refuse_collapsed(points: Points) -> None:
    first = points.take(np.array([0]))[0]
    if all(bool((np.abs(tile - first) < 1e-6).all()) for _, tile in points.tiles()):
        problem = "has the same embedding for all samples: the run has collapsed"
        fix = "nothing can be laid out; look at the run's training curves"
        raise InputError.at("the split", problem, fix=fix)


def _tsne(
    points: Array, settings: LayoutSettings, init: Array | None, notes: list[str], progress: Progress
) -> Array:
    """Lay out (N, D) unit rows by t-SNE on cosine distances, (N, 2). `init`: a finished layout to start from, at its own
    scale; None: the principal plane."""
    perplexity = usable_perplexity(settings.perplexity, len(points))
    if perplexity < settings.perplexity:
        notes.append(
            f"perplexity {settings.perplexity:g} was lowered to {perplexity:g}, a third of the points"
        )
    from sklearn.manifold import TSNE  # a second to import

    model = TSNE(
        metric="cosine",
        perplexity=perplexity,
        init="pca" if init is None else np.asarray(init - np.mean(init, axis=0), dtype=np.float32),
        random_state=settings.seed,
        max_iter=ITERATIONS,
        verbose=2,
        n_jobs=1,
        early_exaggeration=EXAGGERATION if init is None else GENTLE_EXAGGERATION,
    )
    progress(0, 1, "t-SNE: looking for neighbours")
    phase = "t-SNE: moving the points"
    printed = PrintedProgress(r"Iteration (\d+)", lambda done: progress(done, ITERATIONS, phase))
    with contextlib.redirect_stdout(printed):
        return np.asarray(model.fit_transform(points), dtype=np.float32)


def usable_perplexity(perplexity: float, points: int) -> float:
    """Limit the perplexity to a third of the other points: scikit-learn looks for three neighbours per unit of it."""
    return max(1.0, min(perplexity, (points - 1) / 3))


def _umap(
    points: Array, settings: LayoutSettings, init: Array | None, notes: list[str], progress: Progress
) -> Array:
    """Lay out (N, D) unit rows by UMAP, (N, 2), N ≥ 4, from their nearest neighbours: exact ones, or of more than 20,000
    points those that an index finds. `init`: a layout to start from; None: the spectral one or, of many points, the
    principal plane."""
    neighbours = min(settings.neighbours, len(points) - 1)
    if neighbours < settings.neighbours:
        notes.append(f"{settings.neighbours} neighbours were lowered to {neighbours}: there are no more")
    usual = "spectral" if len(points) <= SPECTRAL_AT_MOST else "pca"
    find = nearest if len(points) <= EXACT_NEIGHBOURS else nearly_nearest
    rows, distances = find(points, points, neighbours, progress=within(progress, 0.0, _NEIGHBOURS))
    progress(_NEIGHBOURS, 1, COMPILING)
    with warnings.catch_warnings():
        # UMAP warns about intended behaviour: one thread because of the seed, no search index besides the neighbours,
        # a random start if the neighbour graph is not connected.
        warnings.simplefilter("ignore")
        import numba

        # The search index is not compiled: it is unused here, and numba would need twenty seconds for it.
        unset = numba.config.DISABLE_JIT
        numba.config.DISABLE_JIT = True
        import pynndescent  # noqa: F401

        numba.config.DISABLE_JIT = unset
        from umap import UMAP

        fitting = within(progress, _COMPILED, 1.0)
        phase = "UMAP: moving the points"
        printed = PrintedProgress(r"(\d+)/([1-9]\d*)", lambda done, epochs: fitting(done, epochs, phase))
        model = UMAP(
            n_neighbors=neighbours,
            min_dist=settings.min_distance,
            metric="cosine",
            random_state=settings.seed,
            n_jobs=1,
            learning_rate=1.0 if init is None else GENTLE,
            init=usual if init is None else np.asarray(init, dtype=np.float32),
            precomputed_knn=(rows, distances, None),
            force_approximation_algorithm=True,
            tqdm_kwds={"file": printed, "bar_format": "{n}/{total}\n", "disable": False, "mininterval": 0.3},
        )
        return np.asarray(model.fit_transform(points), dtype=np.float32)


def principal_plane(points: Points) -> tuple[Array, tuple[float, float]]:
    """Return (N, 2) float32 coordinates on the first two principal axes, and each axis's share of the total variance.

    The axes are those of at most 50,000 points drawn at random, whose (D, D) covariance is multiplied in float32. The
    sign of an axis makes its largest loading positive, so that the same data always give the same picture.
    """
    count = len(points)
    width = points.width
    drawn = points.take(stratified((len(points.images), len(points.texts)), AXES_FROM, seed=0))
    mean = drawn.sum(0, dtype=np.float64) / max(len(drawn), 1)
    centred = drawn - mean.astype(np.float32)
    values, vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    axes = np.zeros((width, 2))
    axes[:, : min(2, width)] = vectors[:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(0), [0, 1]] < 0, -1.0, 1.0)
    plane = np.empty((count, 2), dtype=np.float32)
    for rows, tile in points.tiles():
        plane[rows] = (tile - mean.astype(np.float32)) @ axes.astype(np.float32)

    total = float(np.maximum(values, 0).sum())
    largest = [*np.maximum(values, 0)[::-1][:2], 0.0]
    shares = [float(value) / total if total > 0 else 0.0 for value in largest]
    return plane, (shares[0], shares[1])


def onto(layout: Array, reference: Array) -> tuple[Array, float]:
    """Rotate, mirror and shift `layout` onto `reference`, at the reference's size. Gower 1975, orthogonal Procrustes.

    The best scale of Procrustes is below 1 if the two differ, and 0 if they have nothing in common: the less a run
    agrees with the other, the more crowded it would look. So the root mean square distances from the centre are made
    equal instead. Only the disparity is measured at the best scale: the share of the reference's variance that remains
    between the two, from 0 (the same picture) to 1 (nothing in common). Both are (N, 2), the same samples in the same
    order. ValueError: they have different numbers of points.
    """
    if layout.shape != reference.shape:
        raise ValueError(f"layouts of {len(layout):,} and {len(reference):,} points cannot be aligned")
    centre = reference.mean(0, dtype=np.float64)
    size = np.linalg.norm(reference - centre)
    layout_size = np.ptp(layout, axis=0).max()
    if size == 0 or layout_size == 0:  # a single spot
        return (layout - layout.mean(0) + centre).astype(np.float32), float(size != layout_size)
    _, moved, disparity = procrustes(reference, layout)
    shrunk = np.linalg.norm(moved)  # `procrustes` scales the reference to norm 1
    if shrunk > 0:
        moved = moved / shrunk
    return (moved * size + centre).astype(np.float32), float(disparity)


def nearest(queries: Array, points: Array, count: int, *, progress: Progress = silent) -> tuple[Array, Array]:
    """Find the nearest points of every query by cosine; if `queries` is `points`, each is its own first
    neighbour, at distance 0. Return (Q, count) int32 rows and (Q, count) float32 cosine distances 1 − cos ≥ 0,
    nearest first. `queries`: (Q, D), `points`: (N, D) float32 unit rows. `count`: ≤ N."""
    rows = np.empty((len(queries), count), dtype=np.int32)
    distances = np.empty((len(queries), count), dtype=np.float32)
    step = max(1, TILE_ELEMENTS // max(len(points), 1))
    for start in range(0, len(queries), step):
        scores = np.asarray(queries[start : start + step] @ points.T)
        if queries is points:  # a duplicate must not come before the point itself
            np.fill_diagonal(scores[:, start:], np.inf)
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        best_scores = np.take_along_axis(scores, best, 1)
        order = np.argsort(-best_scores, axis=1, kind="stable")
        rows[start : start + step] = np.take_along_axis(best, order, 1)
        distances[start : start + step] = np.clip(1.0 - np.take_along_axis(best_scores, order, 1), 0.0, 2.0)
        progress(start + len(scores), len(queries), "looking for every point's nearest neighbours")
    return rows, distances


def nearly_nearest(
    queries: Array, points: Array, count: int, *, progress: Progress = silent
) -> tuple[Array, Array]:
    """Find most of the nearest points of every query, as `nearest`, in time that grows with the number of queries: an
    index of faiss looks into a sixteenth of the points. Where it finds too few, the query's last one is repeated."""
    index = index_of(points, PROBED_LISTS)
    rows = np.empty((len(queries), count), dtype=np.int32)
    distances = np.empty((len(queries), count), dtype=np.float32)
    for start in range(0, len(queries), SEARCHED):
        numbers = np.arange(start, min(start + SEARCHED, len(queries)))
        scores, found = index.search(np.ascontiguousarray(queries[numbers], np.float32), count)
        if queries is points:  # a duplicate must not come before the point itself
            scores[found == numbers[:, None]] = np.inf
        scores[found < 0] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")
        found = np.take_along_axis(found, order, 1)
        scores = np.take_along_axis(scores, order, 1)
        last = np.maximum((found >= 0).sum(1) - 1, 0)[:, None]
        position = np.minimum(np.arange(count), last)
        rows[numbers] = np.take_along_axis(found, position, 1)
        distances[numbers] = np.clip(1.0 - np.take_along_axis(scores, position, 1), 0.0, 2.0)
        progress(int(numbers[-1]) + 1, len(queries), "looking for every point's nearest neighbours")

    return rows, distances


class PrintedProgress(io.TextIOBase):
    """A stream that finds progress in text printed to it and reports it. `pattern`: of a progress message, with
    its numbers as groups. `report`: called with these numbers."""

    def __init__(self, pattern: str, report: Callable[..., None]) -> None:
        self._pattern = re.compile(pattern)
        self._report = report

    def write(self, text: str) -> int:
        match = self._pattern.search(text)
        if match:
            self._report(*map(int, match.groups()))
        return len(text)


# Points → processor seconds of one layout of 512 dimensions on one core of a two-core machine, UMAP already compiled
MEASURED: dict[Method, dict[int, float]] = {
    "pca": {120: 0.01, 20_000: 0.3},
    "umap": {120: 0.13, 600: 0.6, 2_000: 2.0, 6_000: 6.1, 20_000: 16.0, 50_000: 77.0},
    "tsne": {120: 2.5, 600: 8.6, 2_000: 25.0, 6_000: 57.0},
}
PLACING = 300e-6  # seconds per point that is placed among landmarks
STARTING = 5.0  # seconds that a process needs for its imports


def layout_seconds(method: Method, points: int) -> float:
    """Estimate the seconds that a layout of so many points takes, including the start of its process. Interpolate and
    extrapolate the measured sizes by a power law: a line through the nearest two on logarithmic axes."""
    fitted = min(points, LANDMARKS.get(method, points))
    sizes, seconds = np.log(list(MEASURED[method].items())).T
    at = float(np.log(max(fitted, 1)))
    right = int(np.clip(np.searchsorted(sizes, at), 1, len(sizes) - 1))
    slope = (seconds[right] - seconds[right - 1]) / (sizes[right] - sizes[right - 1])
    fitting = float(np.exp(seconds[right] + slope * (at - sizes[right])))
    return STARTING + fitting + PLACING * (points - fitted)
