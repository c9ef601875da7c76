"""Data → Plotly figure. No Streamlit here; a notebook can call these too.

Colours are Okabe and Ito's, which colour-blind people can tell apart; the first run is vermilion, the second blue.
Names that come from outside go through `plain`: Plotly reads a small HTML in every text.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

HEIGHT = 330
CURVE_HEIGHT = 250
LINE_STYLES = ("solid", "dash", "dot", "dashdot")
RANK_EDGES = (1, 5, 10, 50, 100)
RANK_LABELS = ("1", "2–5", "6–10", "11–50", "51–100", "> 100")


@dataclass(frozen=True)
class Tone:
    """The colours of one theme."""

    runs: tuple[str, ...]
    ink: str
    faint: str
    grid: str
    mark: str
    ramp: tuple[str, str]
    paper: str
    good: str
    bad: str


LIGHT = Tone(
    runs=("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#B58900", "#56B4E9"),
    ink="#1B2733", faint="#6B7885", grid="#E3E9EF", mark="#009E73", ramp=("#F3F6F9", "#0072B2"), paper="#FFFFFF",
    good="#00795A", bad="#B84A00",
)  # fmt: skip
DARK = Tone(
    runs=("#F0914A", "#56B4E9", "#2FC79B", "#E3A3C6", "#F0E442", "#8AB8DA"),
    ink="#E4EAF0", faint="#93A1AF", grid="#27323D", mark="#2FC79B", ramp=("#1A232D", "#56B4E9"), paper="#10161D",
    good="#2FC79B", bad="#F0914A",
)  # fmt: skip


def tone(theme: str | None) -> Tone:
    """The colours of "light" or "dark"; anything else is light."""
    return DARK if theme == "dark" else LIGHT


def plain(text: object) -> str:
    """Text that Plotly shows as it is: no link, no markup, no template variable."""
    return html.escape(str(text)).replace("%{", "%&#123;").replace("$", "&#36;")


def run_colour(position: int, runs: int, colours: Tone) -> str:
    """One run alone is blue; of two or more the first is vermilion."""
    return colours.runs[1] if runs == 1 else colours.runs[position % len(colours.runs)]


def _figure(colours: Tone, x: str, y: str, height: int = HEIGHT) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 12, "t": 34, "b": 8},
        font={"color": colours.ink, "size": 13},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "title": None},
        hoverlabel={"align": "left", "font": {"size": 13}},
        bargap=0.25,
        showlegend=True,
    )
    axis = {"gridcolor": colours.grid, "zeroline": False, "automargin": True, "tickfont": {"color": colours.faint}}
    figure.update_xaxes(title={"text": x, "font": {"color": colours.faint}}, showgrid=False, **axis)
    figure.update_yaxes(title={"text": y, "font": {"color": colours.faint}}, **axis)
    return figure


def recall_bars(metrics: Mapping[str, Mapping[str, float]], colours: Tone) -> go.Figure:
    """R@1, R@5, R@10 of both directions, one bar a run."""
    figure = _figure(colours, "", "queries answered, %")
    places = [(f"{d}_r{k}", label, f"R@{k}") for d, label in (("i2t", "image → text"), ("t2i", "text → image"))
              for k in (1, 5, 10)]  # fmt: skip
    for position, (name, values) in enumerate(metrics.items()):
        heights = [values.get(key, float("nan")) for key, _, _ in places]
        figure.add_bar(
            x=[[label for _, label, _ in places], [k for _, _, k in places]],
            y=heights,
            name=plain(name),
            marker={"color": run_colour(position, len(metrics), colours), "cornerradius": 3},
            text=[f"{value:.1f}" for value in heights],
            textposition="outside",
            cliponaxis=False,
            textfont={"size": 11, "color": colours.ink},
            hovertemplate="%{y:.1f} %<extra>" + plain(name) + "</extra>",
        )
    figure.update_xaxes(dividercolor=colours.grid)
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(bargroupgap=0.08)
    return figure


def training_curves(frames: Mapping[str, pd.DataFrame], column: str, label: str, colours: Tone) -> go.Figure:
    """One line a run over the epochs; `frames` hold the columns "epoch" and `column`."""
    figure = _figure(colours, "epoch", label, CURVE_HEIGHT)
    figure.update_xaxes(tickformat="d", nticks=8)
    for position, (name, frame) in enumerate(frames.items()):
        if column not in frame or "epoch" not in frame:
            continue
        kept = frame[["epoch", column]].dropna()
        figure.add_scatter(
            x=kept["epoch"], y=kept[column], name=plain(name),
            mode="lines+markers" if len(kept) <= 60 else "lines",
            line={"color": run_colour(position, len(frames), colours), "width": 2,
                  "dash": LINE_STYLES[position // len(colours.runs) % len(LINE_STYLES)]},
            marker={"size": 6},
            hovertemplate="epoch %{x}: %{y:.4g}<extra>" + plain(name) + "</extra>",
        )  # fmt: skip
    return figure


def histogram(values: Mapping[str, np.ndarray], label: str, unit: str, colours: Tone, bins: int = 50) -> go.Figure:
    """Distributions of several runs over one set of bins, with their medians as dashed lines."""
    figure = _figure(colours, label, f"{unit} in the bar")
    everything = np.concatenate([np.asarray(v, dtype=float) for v in values.values()]) if values else np.zeros(0)
    everything = everything[np.isfinite(everything)]
    if not len(everything):
        return figure
    low, high = float(everything.min()), float(everything.max())
    edges = np.linspace(low, high if high > low else low + 1e-6, bins + 1)
    centres = (edges[:-1] + edges[1:]) / 2
    for position, (name, numbers) in enumerate(values.items()):
        counts, _ = np.histogram(numbers, edges)
        colour = run_colour(position, len(values), colours)
        figure.add_bar(
            x=centres, y=counts, width=np.diff(edges), name=plain(name), opacity=0.62,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{x:.3f}: %{y}<extra>" + plain(name) + "</extra>",
        )  # fmt: skip
        figure.add_vline(x=float(np.median(numbers)), line={"color": colour, "width": 2, "dash": "dash"})
    figure.update_layout(barmode="overlay", bargap=0)
    return figure


def found_by_diversity(shares: Mapping[str, pd.DataFrame], at: int, colours: Tone) -> go.Figure:
    """Share of anchors whose match is among the first `at`, by tenth of the diversity ranking (`tenth`, `found`)."""
    figure = _figure(colours, "tenths of the anchors, low → high diversity", f"found among first {at}, %")
    for position, (name, frame) in enumerate(shares.items()):
        figure.add_scatter(
            x=frame["tenth"], y=frame["found"], name=plain(name), mode="lines+markers",
            line={"color": run_colour(position, len(shares), colours), "width": 2.5}, marker={"size": 8},
            hovertemplate="tenth %{x}: %{y:.1f} %<extra>" + plain(name) + "</extra>",
        )  # fmt: skip
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(rangemode="tozero")
    return figure


def similarity_histogram(
    similarities: np.ndarray, positives: np.ndarray, gamma: float, name: str, position: int, runs: int, colours: Tone
) -> go.Figure:
    """One anchor's similarities to all negatives, its own matches as diamonds above them, γ as a line."""
    figure = _figure(colours, "similarity to the anchor", "negatives in the bar", height=280)
    counts, edges = np.histogram(similarities, bins=40)
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2, y=counts, width=np.diff(edges), name=f"negatives · {plain(name)}",
        marker={"color": run_colour(position, runs, colours), "line": {"width": 0}}, opacity=0.75,
        hovertemplate="%{x:.3f}: %{y} negatives<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=positives, y=np.full(len(positives), max(float(counts.max(initial=1)), 1.0) * 0.12), mode="markers",
        name="its own matches", marker={"symbol": "diamond", "size": 11, "color": colours.mark,
                                        "line": {"color": colours.paper, "width": 1}},
        hovertemplate="own match: %{x:.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_vline(
        x=gamma, line={"color": colours.faint, "width": 1.5, "dash": "dot"}, annotation_text=f"γ = {gamma:g}",
        annotation_position="top right", annotation_font={"color": colours.faint, "size": 12},
    )  # fmt: skip
    figure.update_layout(bargap=0)
    return figure


def negative_weights(nearest: pd.DataFrame, colours: Tone) -> go.Figure:
    """The nearest negatives' shares of the loss, without and with diversity."""
    figure = _figure(colours, "nearest negatives, most similar first", "share of the loss, %", height=280)
    places = [str(place) for place in range(1, len(nearest) + 1)]
    for column, label, colour in (
        ("weight_plain", "without diversity", colours.faint), ("weight_diversity", "with diversity", colours.mark)
    ):  # fmt: skip
        figure.add_bar(
            x=places, y=100 * nearest[column], name=label, marker={"color": colour, "cornerradius": 3},
            customdata=nearest["similarity"],
            hovertemplate="negative %{x}, similarity %{customdata:.3f}: %{y:.1f} %<extra>" + label + "</extra>",
        )  # fmt: skip
    figure.update_layout(bargroupgap=0.05)
    figure.update_xaxes(type="category")
    return figure


def rank_band(ranks: np.ndarray) -> np.ndarray:
    """Ranks from 1 → index into RANK_LABELS."""
    return np.searchsorted(np.asarray(RANK_EDGES), np.asarray(ranks), side="left")


def rank_matrix(changes: pd.DataFrame, name_a: str, name_b: str, colours: Tone) -> go.Figure:
    """How many queries moved from one band of ranks (rows, first run) to another (columns, second run)."""
    size = len(RANK_LABELS)
    counts = np.zeros((size, size), dtype=int)
    np.add.at(counts, (rank_band(changes["rank_a"].to_numpy()), rank_band(changes["rank_b"].to_numpy())), 1)
    figure = _figure(colours, f"rank in {plain(name_b)}", f"rank in {plain(name_a)}", height=360)
    figure.add_heatmap(
        z=np.sqrt(counts), x=RANK_LABELS, y=RANK_LABELS, customdata=counts, showscale=False, xgap=3, ygap=3,
        colorscale=[[0, colours.ramp[0]], [1, colours.ramp[1]]],
        text=np.where(counts > 0, counts.astype(str), ""), texttemplate="%{text}", textfont={"size": 13},
        hovertemplate="%{y} → %{x}: %{customdata} queries<extra></extra>",
    )  # fmt: skip
    figure.add_shape(
        type="line", x0=-0.5, y0=-0.5, x1=size - 0.5, y1=size - 0.5,
        line={"color": colours.faint, "width": 1, "dash": "dot"}
    )  # fmt: skip
    figure.update_xaxes(type="category", showgrid=False, tickangle=0, tickfont_size=11)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_layout(showlegend=False)
    return figure


def rank_distribution(ranks: Mapping[str, Sequence[int] | np.ndarray], colours: Tone) -> go.Figure:
    """How many queries lie in each band of ranks, one bar a run; ranks count from 1."""
    figure = _figure(colours, "rank of the best true match", "queries", height=360)
    for position, (name, numbers) in enumerate(ranks.items()):
        counts = np.bincount(rank_band(np.asarray(numbers)), minlength=len(RANK_LABELS))
        figure.add_bar(
            x=RANK_LABELS, y=counts, name=plain(name), text=counts, textposition="outside", cliponaxis=False,
            marker={"color": run_colour(position, len(ranks), colours), "cornerradius": 3},
            hovertemplate="rank %{x}: %{y} queries<extra>" + plain(name) + "</extra>",
        )  # fmt: skip
    figure.update_xaxes(type="category")
    return figure
