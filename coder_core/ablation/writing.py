"""Write a finished table as Markdown, LaTeX and CSV, and draw it: measured figures beside the paper's.

The drawing is one HTML file that includes Plotly and opens offline.
"""

import html
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from coder_core.ablation.results import METRICS, RECALLS, SUM, Measured, ResultRow, Results, reported_sum
from coder_core.evaluation.bootstrap import Difference
from coder_core.evaluation.recall import CHOSEN_HALF, OTHER_HALF
from coder_core.files.atomic import write_output

OF_WAY = ("R@1", "R@5", "R@10", "MRR", "nDCG@10")
HEADS = ("image→text R@1", *OF_WAY[1:], "text→image R@1", *OF_WAY[1:], "R@sum")
HALF_HEADS = ("R@sum, chosen half", "R@sum, other half")
CLEANING_HEADS = ("left out: wrong %", "of all wrong %")
LISTED = 12  # most unfinished rows to list
WAY_HEADS = [(way, head) for way in ("image → text", "text → image") for head in OF_WAY]
WAY_HEADS.append((" ", "R@sum"))
SYMBOLS = dict(zip("μεγαΔ×→", ["mu", "varepsilon", "gamma", "alpha", "Delta", "times", "to"], strict=True))
MEASURED = "#0b6e8a"
OTHER = "#7a4f9a"
PAPER = "#b5651d"
NOISE = "#8a949b"
LINES = (MEASURED, OTHER, PAPER, "#4c7a34", "#a8325e", "#30475e", "#c08a00", "#5b6b00")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SEEDS = "rgba(11, 110, 138, 0.45)"
ROW_HEIGHT = 46
MARGINS = 190
SMALLEST = 330


def write_all(results: Results, folder: Path, command: str) -> list[Path]:
    """Write or replace `results.md`, `results.tex` and `results.csv` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": markdown(results, command), "tex": latex(results), "csv": comma_separated(results)}
    for suffix, text in texts.items():
        write_output(folder / f"results.{suffix}", text)
    return [folder / f"results.{suffix}" for suffix in texts]


def mean_and_spread(value: Measured | None) -> str:
    """Format as 265.5 ± 5.2, or 265.5 with one seed; a dash for None."""
    if value is None:
        return "–"
    return f"{value.mean:.1f}" + ("" if value.spread is None else f" ± {value.spread:.1f}")


def against_shown(row: ResultRow) -> str:
    """Format as +8.1 [2.0, 14.3], with a star when the interval excludes zero."""
    if row.against is None:
        return "–"
    star = " *" if row.against.beyond_noise else ""
    return f"{row.against.mean:+.1f} [{row.against.low:.1f}, {row.against.high:.1f}]{star}"


def markdown(results: Results, command: str) -> str:
    """Return the table with its legend as Markdown."""
    halves = any(row.halves for row in results.rows)
    heads = ["row", "seeds", *HEADS, *(HALF_HEADS if halves else ()), f"R@sum − {results.reference}"]
    cleaned = any(row.cleaning for row in results.rows)
    heads += [*(CLEANING_HEADS if cleaned else ()), "minutes", "MiB", "the paper", "its R@sum"]
    cells = [
        [
            ": ".join(filter(None, (row.row.name, row.row.title))),
            ", ".join(map(str, row.seeds)),
            *(mean_and_spread(row.metrics.get(name)) for name in METRICS[:-1]),
            f"**{mean_and_spread(row.metrics[SUM])}**",
            *_two(row.halves, halves),
            against_shown(row),
            *_two(row.cleaning, cleaned),
            number(row.minutes),
            "–" if row.mebibytes is None else f"{row.mebibytes:.0f}",
            _reported(row),
            number(reported_sum(row.row.reported)),
        ]
        for row in results.rows
    ]
    lines = ["| " + " | ".join(line) + " |" for line in (heads, *cells)]
    lines.insert(1, "|" + "---|" * len(heads))
    table = results.table
    opening = [f"# {table.name}", "", f"{table.title[:1].upper()}{table.title[1:]}.", ""]
    return "\n".join([*opening, *lines, "", *legend(results), "", f"    {command}", ""])


def legend(results: Results) -> list[str]:
    """Return sentences that explain the columns of the table."""
    drawn = any(row.against is not None and row.against.seeds for row in results.rows)
    seeds = "and, where both rows have several, over seeds" if drawn else "(without the spread over seeds)"
    lines = [
        f"Measured on {results.split}; mean ± sample standard deviation over the seeds.",
        f"R@sum − {results.reference}: over the seeds both rows have (all, where they share none); 95% interval of a "
        f"paired bootstrap over images with their captions {seeds}; * where it excludes zero.",
    ]
    if any(row.halves for row in results.rows):
        lines.append(
            "Halves: the best epochs were chosen on one half of dev's images only. A half has fewer candidates than the "
            "whole split and hence higher recall."
        )

    if any(row.cleaning for row in results.rows):
        lines.append(
            "Left out: percentage of the pairs left out that were exchanged (precision), and of the exchanged pairs that were "
            "left out (recall). Minutes include those of the scorers, which rows may share; MiB are the run's own."
        )

    if results.table.source:
        quoted = f"{results.table.source} ({results.table.quoted})"
        lines.append(f"The paper: {quoted}, on other data and at another size; compare only the differences.")
    if results.missing:
        others = f", and {len(results.missing) - LISTED} more" if len(results.missing) > LISTED else ""
        lines.append(f"Not finished: {', '.join(results.missing[:LISTED])}{others}.")

    return lines


def latex(results: Results) -> str:
    """Return a LaTeX `tabular` with booktabs rules."""
    row_head = ("  ", "row")
    delta = ("   ", f"Δ {results.reference}")
    paper = ("paper", "R@sum")
    columns = pd.MultiIndex.from_tuples([row_head, *WAY_HEADS, delta, paper])
    cells = [
        [
            row.row.title or row.row.name,
            *(_math(row.metrics.get(name)) for name in METRICS),
            _difference(row),
            number(reported_sum(row.row.reported)).replace("–", "--"),
        ]
        for row in results.rows
    ]
    style = pd.DataFrame(cells, columns=columns).style.hide(axis="index")
    style = style.format(escape="latex", subset=[row_head]).format_index(escape="latex", axis=1)
    text = style.to_latex(hrules=True, column_format="l" + "r" * (len(columns) - 1), multicol_align="c")
    for letter, command in SYMBOLS.items():
        text = text.replace(letter, rf"$\{command}$")

    return f"% {results.table.name}: {' '.join(results.table.title.split())}\n{text}"


def comma_separated(results: Results) -> str:
    """Return CSV with one line per row and each number in its own column."""
    table = pd.DataFrame([_numbers(results, row) for row in results.rows])
    return table.to_csv(index=False, float_format="%.4f", lineterminator="\n")


def _numbers(results: Results, row: ResultRow) -> dict[str, Any]:
    against = row.against
    reported = row.row.reported or (None,) * len(RECALLS)
    measured = {name: row.metrics.get(name) for name in METRICS}
    measured |= dict(zip((CHOSEN_HALF, OTHER_HALF), row.halves or (), strict=False))
    measured |= dict(zip(("precision", "recall"), row.cleaning or (), strict=False))
    return {
        "row": row.row.name,
        "about": row.row.title,
        "split": results.split,
        "seeds": " ".join(map(str, row.seeds)),
        **{
            f"{name}_{part}": number
            for name, value in measured.items()
            for part, number in (("mean", value and value.mean), ("std", value and value.spread))
        },
        "reference": row.reference,
        "difference": against and against.mean,
        "low": against and against.low,
        "high": against and against.high,
        "beyond_noise": against and against.beyond_noise,
        "minutes": row.minutes,
        "mebibytes": row.mebibytes,
        "paper": row.row.source,
        **{f"paper_{name}": value for name, value in zip(RECALLS, reported, strict=True)},
        f"paper_{SUM}": reported_sum(row.row.reported),
    }


def _two(values: tuple[Measured, Measured] | None, in_table: bool) -> list[str]:
    if values is not None:
        return [mean_and_spread(value) for value in values]
    return ["–", "–"] if in_table else []


def _reported(row: ResultRow) -> str:
    recalls = row.row.reported
    if recalls is None:
        return "–"
    image_to_text = " / ".join(map(number, recalls[:3]))
    text_to_image = " / ".join(map(number, recalls[3:]))
    return f"{row.row.source}: {image_to_text} · {text_to_image}"


def number(value: float | None) -> str:
    """Format with one decimal place; a dash for None."""
    return "–" if value is None else f"{value:.1f}"


def _math(value: Measured | None) -> str:
    text = mean_and_spread(value).replace("±", r"\pm").replace("–", "--")
    return f"${text}$" if value and value.spread is not None else text


def _difference(row: ResultRow) -> str:
    if row.against is None:
        return "--"
    return f"${row.against.mean:+.1f}{'^{*}' if row.against.beyond_noise else ''}$"


class Interval(NamedTuple):
    """A value and the ends of its error bar."""

    mean: float
    low: float
    high: float


IntervalOf = Callable[[ResultRow], Interval | Difference | None]


def write_figure(results: Results, folder: Path) -> Path:
    """Write `results.html` in `folder`."""
    path = folder / "results.html"
    page = figure(results).to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False})
    title = html.escape(f"Ablation: {results.table.name}")
    write_output(path, page.replace("<head>", f"<head><title>{title}</title>", 1))
    return path


def figure(results: Results) -> go.Figure:
    """Draw R@sum on the left: mean, spread and one dot per seed, or curves if the rows have an x. Draw R@sum minus the
    reference's on the right, with its 95% interval and the paper's difference."""
    rows = results.rows
    table = results.table
    curve = bool(table.x_name) and all(row.row.x is not None for row in rows)
    gains = curve and bool(table.compared_with)
    titles = (f"R@sum on {results.split}", f"R@sum − {html.escape(results.reference)}")
    spacing = 0.04
    if curve:
        spacing = 0.1 if gains else 0.24

    picture = make_subplots(
        cols=2, rows=1, subplot_titles=titles, horizontal_spacing=spacing, shared_yaxes=not curve
    )
    if curve:
        _add_lines(picture, results, 1, _spread)
        picture.update_yaxes(title="R@sum", row=1, col=1)
    else:
        _add_seeds(picture, rows)

    if gains:
        _add_lines(picture, results, 2, lambda row: row.against)
        picture.add_hline(y=0, line={"color": NOISE, "width": 1, "dash": "dot"}, row=1, col=2)
    else:
        _add_differences(picture, results)

    height = SMALLEST + MARGINS if gains else max(SMALLEST, MARGINS + ROW_HEIGHT * len(rows))
    heading = f"<b>{html.escape(table.name)}</b><br><sup>{html.escape(table.title)}</sup>"
    title = {"text": heading, "x": 0.01, "xanchor": "left"}
    below = {"orientation": "h", "y": -70 / (height - MARGINS), "x": 0}
    looks = {"template": "plotly_white", "margin": {"t": 110, "l": 20}, "font": {"size": 14}}
    picture.update_layout(title=title, height=height, legend=below, **looks)
    for axis in () if gains else ("yaxis2",) if curve else ("yaxis", "yaxis2"):
        picture.layout[axis].update(categoryorder="array", categoryarray=_labels(rows)[::-1])

    return picture


def _labels(rows: Sequence[ResultRow]) -> list[str]:
    return [html.escape(row.row.title or row.row.name) for row in rows]


def _spread(row: ResultRow) -> Interval:
    """Return R@sum plus and minus one standard deviation."""
    mean = row.metrics[SUM].mean
    spread = row.metrics[SUM].spread or 0.0
    return Interval(mean, mean - spread, mean + spread)


def _hover(row: ResultRow) -> str:
    """Return mean and spread of every metric, one line each."""
    values = zip(WAY_HEADS, METRICS, strict=True)
    return "<br>".join(
        f"{' '.join(head).strip()} {mean_and_spread(row.metrics.get(name))}" for head, name in values
    )


def _bars(values: Sequence[Interval | Difference], **style: Any) -> dict[str, Any]:
    above = [value.high - value.mean for value in values]
    below = [value.mean - value.low for value in values]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, **style}


def _add_lines(picture: go.Figure, results: Results, column: int, interval: IntervalOf) -> None:
    """Draw the rows' intervals by `x`, one line per group and variant."""
    ordered = sorted(results.rows, key=lambda row: row.row.x or 0.0)
    lines = dict.fromkeys((row.row.group, row.row.variant) for row in results.rows)
    colours = dict(zip(dict.fromkeys(group for group, _ in lines), cycle(LINES), strict=False))
    dashes = dict(zip(dict.fromkeys(variant for _, variant in lines), cycle(DASHES), strict=False))
    for group, variant in lines:
        of_line = [row for row in ordered if (row.row.group, row.row.variant) == (group, variant)]
        points = [(row, interval(row)) for row in of_line]
        x = [f"{row.row.x:g}" for row, value in points if value is not None]
        values = [value for _, value in points if value is not None]
        name = ", ".join(filter(None, (group, variant)))
        is_first = column == 1
        hover = {"hovertext": [_hover(row) for row, _ in points]} if is_first else {}
        picture.add_scatter(
            x=x,
            y=[value.mean for value in values],
            error_y=_bars(values),
            mode="lines+markers",
            line={"color": colours[group], "dash": dashes[variant]},
            marker={"size": 11},
            name=html.escape(name) or "mean ± spread",
            legendgroup=name,
            showlegend=is_first,
            hovertemplate=None if is_first else "%{y:+.1f}",
            row=1,
            col=column,
            **hover,
        )

    positions = list(dict.fromkeys(f"{row.row.x:g}" for row in ordered))
    title = html.escape(results.table.x_name)
    order = {"categoryorder": "array", "categoryarray": positions}
    picture.update_xaxes(title=title, type="category", **order, row=1, col=column)


def _dots(
    picture: go.Figure, column: int, x: Sequence[Any], y: Sequence[Any], colour: Any, **style: Any
) -> None:
    marker = {"size": 13, "color": colour, **style.pop("marker", {})}
    picture.add_scatter(x=x, y=y, mode="markers", marker=marker, row=1, col=column, **style)


def _add_seeds(picture: go.Figure, rows: Sequence[ResultRow]) -> None:
    labels = _labels(rows)
    y = [label for label, row in zip(labels, rows, strict=True) for _ in row.seeds]
    seeds = [seed for row in rows for seed in row.seeds]
    x = [value for row in rows for value in row.sums]
    hover = {"customdata": seeds, "hovertemplate": "seed %{customdata}: %{x:.1f}<extra></extra>"}
    _dots(picture, 1, x, y, SEEDS, name="one seed", marker={"size": 8}, **hover)
    means = [_spread(row) for row in rows]
    hover = {"hovertext": list(map(_hover, rows)), "hoverinfo": "text"}
    mean = [value.mean for value in means]
    _dots(picture, 1, mean, labels, MEASURED, name="mean ± spread", error_x=_bars(means), **hover)


def _add_differences(picture: go.Figure, results: Results) -> None:
    compared = [row for row in results.rows if row.against is not None]
    gains = [row.against for row in results.rows if row.against is not None]
    colours = [MEASURED if gain.beyond_noise else NOISE for gain in gains]
    style = {"showlegend": False, "error_x": _bars(gains, color=NOISE)}
    gain_of = [gain.mean for gain in gains]
    _dots(picture, 2, gain_of, _labels(compared), colours, hovertemplate="%{x:+.1f}<extra></extra>", **style)
    for colour, name in ((MEASURED, "beyond noise (95%)"), (NOISE, "within noise")):
        _dots(picture, 2, [None], [None], colour, marker={"size": 11}, name=name)

    reported = {row.name: reported_sum(row.reported) for row in results.table.rows}
    base = reported.pop(results.reference, None)
    rows = [row for row in results.rows if base is not None and reported.get(row.row.name) is not None]
    if rows:
        differences = [(reported[row.row.name] or 0.0) - (base or 0.0) for row in rows]
        marker = {"size": 11, "symbol": "diamond-open", "line": {"width": 2}}
        style = {"marker": marker, "hovertemplate": "the paper: %{x:+.1f}<extra></extra>"}
        name = "the paper's difference (Flickr30K)"
        _dots(picture, 2, differences, _labels(rows), PAPER, name=name, **style)

    picture.add_vline(x=0, line={"color": NOISE, "width": 1, "dash": "dot"}, row=1, col=2)
