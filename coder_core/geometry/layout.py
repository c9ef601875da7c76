"""Lay out a joint space on a plane by PCA, UMAP or t-SNE, images and captions together, alone or aligned to a run.

Layouts of two runs differ by a rotation, a reflection and by where each group happens to land; none of that says
anything about the runs. So the second layout starts where the first one ends, moves more gently than one that starts
from nothing, and is turned, mirrored and shifted onto it (Procrustes). AlignedUMAP, the alternative, ties both layouts
together while it computes them: a run without structure borrows some of the other's. Here a layout depends on its own
run alone, and one procedure serves all three methods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent, within
from coder_core.geometry.alignment import onto
from coder_core.geometry.points import Array, Points, stratified
from coder_core.geometry.principal import principal_plane
from coder_core.geometry.settings import LayoutSettings
from coder_core.geometry.tsne import tsne, usable_perplexity
from coder_core.geometry.umap_layout import place_by_neighbours, umap

MOST_FITTED = 50_000  # beyond, UMAP is fitted to a random part and the rest is placed among it
FEWEST = 4


@dataclass(frozen=True)
class Layout:
    """A finished layout.

    Args:
        plane: (N, 2) float32, images first, then captions; of one modality only its own.
        notes: settings that were changed, as sentences.
        disparity: how much differs from the layout it is aligned to (0 the same, 1 nothing in common); None alone.
        shares: share of the variance on each axis; PCA only.
    """

    plane: Array
    notes: tuple[str, ...] = ()
    disparity: float | None = None
    shares: tuple[float, float] | None = None


def lay_out(
    points: Points, settings: LayoutSettings, *, reference: Array | None = None, progress: Progress = silent
) -> Layout:
    """Lay out a joint space on a plane.

    Args:
        points: n images and m captions; `settings.modalities` says which of them are laid out, and how.
        reference: (N, 2) the layout of another run on the same samples, to be aligned to.

    Raises:
        InputError: no point; for UMAP and t-SNE fewer than four points or all points the same; too many for t-SNE.
    """
    points = points.only(settings.modalities)
    fewest = 1 if settings.method == "pca" else FEWEST
    if len(points) < fewest:
        way_out = "take PCA" if len(points) else ""
        raise InputError(Fault("the layout", f"has {len(points)} points", f"at least {fewest}", way_out))
    notes: list[str] = []
    shares = None
    if settings.method == "pca":
        plane, shares = principal_plane(points)
    else:
        _refuse_collapsed(points)
        plane = (_tsne if settings.method == "tsne" else _umap)(points, settings, reference, notes, progress)
    if not np.isfinite(plane).all():
        raise InputError(
            Fault("the layout", "holds numbers that are not finite", fix="take another method or seed")
        )
    disparity = None
    if reference is not None:
        plane, disparity = onto(plane, reference)
    return Layout(plane, tuple(notes), disparity, shares)


def _refuse_collapsed(points: Points) -> None:
    first = points.take(np.array([0]))[0]
    if all(bool((np.abs(tile - first) < 1e-6).all()) for _, tile in points.tiles()):
        problem = "holds one and the same embedding everywhere: the run has collapsed"
        raise InputError(
            Fault("the split", problem, fix="nothing can be laid out; look at the run's training curves")
        )


def _tsne(
    points: Points, settings: LayoutSettings, init: Array | None, notes: list[str], progress: Progress
) -> Array:
    perplexity = usable_perplexity(settings.perplexity, len(points))
    if perplexity < settings.perplexity:
        notes.append(
            f"perplexity {settings.perplexity:g} was lowered to {perplexity:g}, a third of the points"
        )
    everything = points.take(np.arange(len(points)))
    return tsne(everything, perplexity=perplexity, seed=settings.seed, init=init, progress=progress)


def _umap(
    points: Points, settings: LayoutSettings, init: Array | None, notes: list[str], progress: Progress
) -> Array:
    fitted = stratified((len(points.images), len(points.texts)), MOST_FITTED, settings.seed)
    neighbours = min(settings.neighbours, len(fitted) - 1)
    if neighbours < settings.neighbours:
        notes.append(f"{settings.neighbours} neighbours were lowered to {neighbours}, all other points")
    part = points.take(fitted)
    whole = len(fitted) == len(points)
    fitted_plane = umap(
        part,
        neighbours=neighbours,
        min_distance=settings.min_distance,
        seed=settings.seed,
        init=None if init is None else init[fitted],
        progress=within(progress, 0.0, 1.0 if whole else 0.5),
    )
    if whole:
        return fitted_plane
    notes.append(
        f"UMAP was fitted to {len(fitted):,} of {len(points):,} points drawn at random; the others stand at the "
        "weighted mean of their nearest fitted ones"
    )
    plane = np.empty((len(points), 2), dtype=np.float32)
    for rows, tile in points.tiles():
        plane[rows] = place_by_neighbours(tile, part, fitted_plane, neighbours)
        progress(len(points) + rows.stop, 2 * len(points), "placing the remaining points")
    plane[fitted] = fitted_plane
    return plane
