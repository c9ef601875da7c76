"""Maps of the joint space that were computed before, or at once where that is quick (PCA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coder_core.api.run import Run
from coder_core.api.sampling import Sample
from coder_core.api.sides import Array
from coder_core.console.faults import InputError
from coder_core.geometry.layout import METHODS, Layout, LayoutSettings, Method, lay_out
from coder_core.geometry.points import Points, stratified
from coder_core.geometry.tsne import MOST_POINTS as MOST_TSNE
from coder_core.runs.derived.compute import layout_folder, read_layout

__all__ = [
    "METHODS", "MOST_TSNE", "Kept", "Layout", "LayoutSettings", "Method", "draw_points", "kept_layout",
    "principal_layout",
]  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """What was found beside a run.

    Args:
        state: "there", "missing" or "damaged". layout: when it is there.
        fault: what is damaged. name: of the result and of the job that computes it.
    """

    state: Literal["there", "missing", "damaged"]
    name: str
    layout: Layout | None = None
    fault: str = ""


def kept_layout(run: Run, split: str, settings: LayoutSettings, reference: Run | None = None) -> Kept:
    """A layout that `python -m coder_core.project` computed, aligned to `reference` when there is one.

    Raises:
        InputError: the analysis of a run is missing or damaged.
    """
    other = reference.analysis(split) if reference else None
    place = layout_folder(run.path, split, settings, run.analysis(split), other)
    try:
        found = read_layout(place)
    except InputError as error:
        return Kept("damaged", place.name, fault=str(error))
    return Kept("missing" if found is None else "there", place.name, found)


def principal_layout(run: Run, split: str, reference: Layout | None = None, *, sample: Sample | None = None) -> Layout:
    """The principal plane of a split, or of a sample of it, computed now; laid over `reference` when there is one."""
    part = run.part(split, sample)
    points = Points(part.images, part.texts)
    return lay_out(points, LayoutSettings("pca"), reference=None if reference is None else reference.plane)


def draw_points(images: int, captions: int, most: int, *, seed: int = 0) -> Array:
    """Points to be drawn one by one: all, or `most` at random, images and captions in proportion. Ascending."""
    return stratified((images, captions), most, seed)
