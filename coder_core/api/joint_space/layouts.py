"""Maps of the joint space: stored ones, and the principal plane, which is computed at once."""

from __future__ import annotations

from coder_core.api.run import Run
from coder_core.api.sampling import Sample
from coder_core.api.sides import Array
from coder_core.api.stored import StoredResult, read_stored
from coder_core.geometry.layout import FEWEST, Layout, lay_out, layout_seconds
from coder_core.geometry.neighbour_layouts import MOST_POINTS as MOST_TSNE
from coder_core.geometry.points import Points, stratified
from coder_core.geometry.settings import METHODS, LayoutSettings, Method, Modalities
from coder_core.runs.derived.compute import layout_folder, read_layout

__all__ = [
    "FEWEST",
    "METHODS",
    "MOST_TSNE",
    "Layout",
    "LayoutSettings",
    "Method",
    "Modalities",
    "draw_points",
    "layout_seconds",
    "principal_layout",
    "stored_layout",
]


def stored_layout(
    run: Run, split: str, settings: LayoutSettings, reference: Run | None = None
) -> StoredResult[Layout]:
    """A layout that `python -m coder_core.project` computed, aligned to `reference` when there is one.

    Raises:
        InputError: the analysis of a run is missing or damaged.
    """
    other = reference.analysis(split) if reference else None
    stored_folder = layout_folder(run.path, split, settings, run.analysis(split), other)
    return read_stored(stored_folder.name, lambda: read_layout(stored_folder))


def principal_layout(
    run: Run,
    split: str,
    reference: Layout | None = None,
    *,
    sample: Sample | None = None,
    modalities: Modalities = "both",
) -> Layout:
    """The principal plane of a split, or of a sample of it, computed now; laid over `reference` when there is one."""
    part = run.part(split, sample)
    points = Points(part.images, part.texts)
    settings = LayoutSettings("pca", modalities=modalities)
    return lay_out(points, settings, reference=None if reference is None else reference.plane)


def draw_points(images: int, captions: int, most: int, *, seed: int = 0) -> Array:
    """Points to be drawn one by one: all, or `most` at random, images and captions in proportion. Ascending."""
    return stratified((images, captions), most, seed)
