"""Layouts and clusters from analyses: computed once, stored beside the run, computed again if damaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, named, silent, within
from coder_core.files.parts import FOLDER, keep_in, remove_parts
from coder_core.geometry.kmeans import CPU, Clustering, cluster_pairs
from coder_core.geometry.layout import PlaneLayout, lay_out
from coder_core.geometry.points import Points
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.derived.store import DerivedFolder, derived_folder, read_as, write_derived

Result = TypeVar("Result")


def layout_folder(
    run: Path, split: str, settings: LayoutSettings, analysis: Analysis, reference: Analysis | None = None
) -> DerivedFolder:
    """Return the folder of a run's layout; its key includes the reference that it is aligned to, and how."""
    if reference is None:
        return derived_folder(run, split, "layout", settings.parameters(), [analysis])
    parameters = settings.parameters() | {"aligned": "at the same size"}
    return derived_folder(run, split, "layout", parameters, [analysis, reference])


def clusters_folder(run: Path, split: str, settings: ClusterSettings, analysis: Analysis) -> DerivedFolder:
    """Return the folder of a run's offline clusters."""
    return derived_folder(run, split, "clusters", settings.parameters(), [analysis])


def read_layout(folder: DerivedFolder) -> PlaneLayout | None:
    """Read a stored layout; None if it does not exist (InputError: it is damaged)."""

    def build(arrays: dict[str, Any], manifest: dict[str, Any]) -> PlaneLayout:
        shares = manifest["facts"].get("shares")
        disparity = manifest["facts"].get("disparity")
        disparity = None if disparity is None else float(disparity)
        shares = (float(shares[0]), float(shares[1])) if shares else None
        return PlaneLayout(arrays["plane"], tuple(map(str, manifest["notes"])), disparity, shares)

    return read_as(folder, build)


def read_clusters(folder: DerivedFolder) -> Clustering | None:
    """Read stored clusters; None if they do not exist (InputError: they are damaged)."""
    return read_as(folder, lambda arrays, _: Clustering(**arrays))


def make_layouts(
    runs: list[Path], split: str, settings: LayoutSettings, *, progress: Progress = silent
) -> list[tuple[DerivedFolder, PlaneLayout]]:
    """Make the layout of the first run, and of a second one aligned to it; stored ones are not computed again."""
    progress(0, 1, "reading the embeddings")
    analyses = [open_analysis(run, split, verify=True) for run in runs]
    check_same_samples(runs, analyses)
    layouts: list[tuple[DerivedFolder, PlaneLayout]] = []
    for position, (run, analysis) in enumerate(zip(runs, analyses, strict=True)):
        folder = layout_folder(run, split, settings, analysis, analyses[0] if position else None)
        layout = _intact(read_layout, folder)
        if layout is None:
            part = within(progress, position / len(runs), (position + 1) / len(runs))
            points = Points(analysis.image_embeddings, analysis.text_embeddings)
            reference = layouts[0][1].plane if layouts else None
            shown = named(part, run.name) if len(runs) > 1 else part
            unfinished = run.parent / FOLDER / f"{run.name}-{split}-{folder.name}"
            keep = keep_in(unfinished, "layout")
            layout = lay_out(points, settings, reference=reference, progress=shown, keep=keep)
            facts = {"disparity": layout.disparity, "shares": list(layout.shares) if layout.shares else None}
            write_derived(folder, {"plane": layout.plane}, notes=layout.notes, facts=facts)
            remove_parts(unfinished)
        layouts.append((folder, layout))

    progress(1, 1, "finished")
    return layouts


def make_clusters(
    run: Path, split: str, settings: ClusterSettings, *, device: str = CPU, progress: Progress = silent
) -> tuple[DerivedFolder, Clustering]:
    """Make the offline clusters of a run on a device; stored ones are not computed again."""
    progress(0, 1, "reading the embeddings")
    analysis = open_analysis(run, split, verify=True)
    folder = clusters_folder(run, split, settings, analysis)
    clusters = _intact(read_clusters, folder)
    if clusters is None:
        clusters = cluster_pairs(
            analysis.image_embeddings,
            analysis.text_embeddings,
            analysis.image_of_text,
            settings,
            device=device,
            progress=progress,
        )
        names = ("centroids", "image_labels", "text_labels")
        write_derived(folder, {name: getattr(clusters, name) for name in names})

    progress(1, 1, "finished")
    return folder, clusters


def check_same_samples(runs: list[Path], analyses: list[Analysis]) -> None:
    """Check that point p is the same sample in all runs, so that their layouts can be overlaid."""
    for run, analysis in zip(runs[1:], analyses[1:], strict=True):
        same = np.array_equal(analysis.image_of_text, analyses[0].image_of_text)
        if not same or analysis.captions != analyses[0].captions:
            reason = f"was evaluated on other samples than {runs[0].name}"
            raise InputError.at(f"run {run.name}", reason, "two runs evaluated on the same data")


def _intact(read: Callable[[DerivedFolder], Result | None], folder: DerivedFolder) -> Result | None:
    """Read a stored result; None if it does not exist, or is damaged and will be replaced by the next write."""
    try:
        return read(folder)
    except InputError:
        return None
