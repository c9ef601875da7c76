"""Evaluate blends of a run's tuned towers with their weights before training (WiSE-FT, Wortsman et al. 2022)."""

import html
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from rich.console import Console

from coder_core.config.model import Tuning
from coder_core.console.faults import InputError
from coder_core.console.output import watching
from coder_core.data.split import Split
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.files.atomic import write_output
from coder_core.model.towers.halves import ImageHalf, TextHalf, weights_fingerprint
from coder_core.model.towers.pretrained import OWN
from coder_core.model.towers.tuning import TunedTower
from coder_core.runs.analysis.evaluate import score
from coder_core.runs.analysis.import_embeddings import check_trained
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.rows import RunRow, Samples, ending
from coder_core.runs.analysis.tables import list_splits
from coder_core.runs.derived.blends import store_blends
from coder_core.runs.load import LoadedModel, read_config

FLAG = "--blend"


def check_tuned(folder: Path) -> None:
    """Raise InputError for a run without tuned towers."""
    fix = f"evaluate it without {FLAG}"
    check_trained(folder, fix)
    towers = read_config(folder)[0].towers
    tunings = (towers.image_tower, towers.image_tuning), (towers.text_tower, towers.text_tuning)
    if not any(tower and tuning != "frozen" for tower, tuning in tunings):
        problem = f"has no tuned tower that {FLAG} could blend"
        raise InputError.at(folder, problem, "a run whose towers were tuned by lora or in full", fix)


def blend_rows(
    folder: Path, loaded: LoadedModel, split: Split, alphas: Sequence[float], console: Console
) -> list[RunRow]:
    """Evaluate a blend for every α, one row each. Tuned towers get the weights α · tuned + (1 − α) · those before the
    run; everything else stays as trained. The model ends at α = 1.
    """
    assert loaded.towers is not None
    settings = loaded.towers.config
    model = loaded.model
    _check_originals(folder, "image", loaded.towers.image, settings.image_tuning)
    _check_originals(folder, "text", loaded.towers.text, settings.text_tuning)
    pairs = (model.regions, loaded.towers.image), (model.words, loaded.towers.text)
    blends = [side.blending(half.module) for side, half in pairs if half and isinstance(side, TunedTower)]
    rows = []
    try:
        for alpha in alphas:
            for blend in blends:
                blend(alpha)
            activity = "scoring pairs of" if loaded.config.model.by_pair else "encoding"
            with watching(console, f"{folder.name}{ending(alpha)}: {activity} {split.name}") as watch:
                sources, _ = score(loaded, split, progress=watch)
            metrics = ensemble_metrics(sources, split.image_of_text)
            rows.append(RunRow(folder, {"alpha": alpha, **metrics}, sources, Samples.of(split), alpha))
    finally:
        for blend in blends:
            blend(1.0)

    return rows


def keep_blends(folder: Path, split: str, rows: Sequence[RunRow]) -> None:
    """Store the metrics of blends beside the run for the app, if it can be written and was evaluated on these samples."""
    if split not in list_splits(folder):
        return
    with suppress(OSError, InputError):
        analysis = open_analysis(folder, split)
        samples = rows[0].split
        is_same = list(samples.captions) == list(analysis.captions)
        if is_same and np.array_equal(samples.image_of_text, analysis.image_of_text):
            store_blends(folder, split, analysis, {row.metrics["alpha"]: _finite(row) for row in rows})


def _finite(row: RunRow) -> dict[str, float]:
    """Return the metrics of a blend that are numbers, without its α."""
    return {name: value for name, value in row.metrics.items() if name != "alpha" and np.isfinite(value)}


def _check_originals(folder: Path, side: str, half: ImageHalf | TextHalf | None, tuning: Tuning) -> None:
    if half is None or tuning != "full" or half.about["kind"] != OWN:
        return
    noted = half.about["weights"]
    if noted and weights_fingerprint(half.module) == noted:
        return
    where = f"the {side} tower of run {folder.name}, {half.about['tower']}"
    fix = "make its function load those weights, or create them from a fixed seed"
    raise InputError.at(where, "no longer returns the weights that the run began with", noted[:12], fix)


def best_row(rows: Sequence[RunRow]) -> RunRow:
    """Return the row with the highest R@sum; of equal ones, the one nearest to the run, α = 1."""
    return max(rows, key=lambda row: (row.metrics["rsum"], row.metrics["alpha"]))


def write_curve(rows: Sequence[RunRow], file: Path, title: str) -> None:
    """Write R@sum against α as an HTML page that contains Plotly and opens offline."""
    import plotly.graph_objects as go

    alphas, sums = zip(*sorted((row.metrics["alpha"], row.metrics["rsum"]) for row in rows), strict=True)
    look = {"mode": "lines+markers", "line": {"color": "#0b6e8a"}, "marker": {"size": 11}}
    hover = "α = %{x:g}: %{y:.1f}<extra></extra>"
    curve = go.Figure(go.Scatter(x=alphas, y=sums, hovertemplate=hover, **look))
    curve.update_layout(
        title={"text": html.escape(title)},
        template="plotly_white",
        height=420,
        font={"size": 14},
        xaxis={"title": "α (0: the zero-shot model, 1: the run)", "range": [-0.03, 1.03]},
        yaxis={"title": "R@sum"},
    )
    page = curve.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False})
    write_output(file, page.replace("<head>", f"<head><title>{html.escape(title)}</title>", 1))
