"""Write a finished table as Markdown, LaTeX and CSV: the measured figures beside those of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from coder_core.ablation.results import RECALLS, SUM, Measured, ResultRow, Results, reported_sum
from coder_core.evaluation.recall import CHOSEN_HALF, OTHER_HALF

METRICS = (*RECALLS, SUM)
HEADS = ("image→text R@1", "R@5", "R@10", "text→image R@1", "R@5", "R@10", "R@sum")
HALF_HEADS = ("R@sum, chosen half", "R@sum, other half")
LATEX_HEADS = [(way, f"R@{k}") for way in ("image → text", "text → image") for k in (1, 5, 10)]
LATEX_HEADS.append((" ", "R@sum"))
SYMBOLS = {
    **{"μ": r"$\mu$", "ε": r"$\varepsilon$", "γ": r"$\gamma$", "α": r"$\alpha$"},
    **{"Δ": r"$\Delta$", "×": r"$\times$", "→": r"$\to$"},
}


def write_all(results: Results, folder: Path, command: str) -> list[Path]:
    """Write or replace `results.md`, `results.tex` and `results.csv` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": markdown(results, command), "tex": latex(results), "csv": comma_separated(results)}
    for suffix, text in texts.items():
        (folder / f"results.{suffix}").write_text(text, "utf-8")
    return [folder / f"results.{suffix}" for suffix in texts]


def shown(value: Measured) -> str:
    """Format as 265.5 ± 5.2, or 265.5 with one seed."""
    return f"{value.mean:.1f}" + ("" if value.spread is None else f" ± {value.spread:.1f}")


def against_shown(row: ResultRow) -> str:
    """Format as +8.1 [2.0, 14.3], with a star when the interval excludes zero."""
    if row.against is None:
        return "–"
    star = " *" if row.against.beyond_noise else ""
    return f"{row.against.mean:+.1f} [{row.against.low:.1f}, {row.against.high:.1f}]{star}"


def markdown(results: Results, command: str) -> str:
    """Write the table with its legend as Markdown."""
    halves = any(row.halves for row in results.rows)
    heads = ["row", "seeds", *HEADS, *(HALF_HEADS if halves else ()), f"R@sum − {results.reference}"]
    heads += ["minutes", "MiB", "the paper", "its R@sum"]
    cells = [
        [
            f"{row.row.name}: {row.row.title}",
            ", ".join(map(str, row.seeds)),
            *(shown(row.metrics[name]) for name in RECALLS),
            f"**{shown(row.metrics[SUM])}**",
            *([shown(half) for half in row.halves] if row.halves else ["–", "–"] if halves else []),
            against_shown(row),
            f"{row.minutes:.1f}",
            "–" if row.mebibytes is None else f"{row.mebibytes:.0f}",
            _reported(row),
            _number(reported_sum(row.row.reported)),
        ]
        for row in results.rows
    ]
    lines = ["| " + " | ".join(line) + " |" for line in (heads, *cells)]
    lines.insert(1, "|" + "---|" * len(heads))
    table = results.table
    opening = [f"# {table.name}", "", f"{table.title[:1].upper()}{table.title[1:]}.", ""]
    return "\n".join([*opening, *lines, "", *legend(results), "", f"    {command}", ""])


def legend(results: Results) -> list[str]:
    """Explain the columns of the table."""
    drawn = any(row.against is not None and row.against.seeds for row in results.rows)
    seeds = "and, where both rows have several, over seeds" if drawn else "(the spread of seeds is not in it)"
    lines = [
        f"Measured on {results.split}; mean ± sample standard deviation over the seeds.",
        f"R@sum − {results.reference}: over the seeds both rows have (all, where they share none); 95% interval of a "
        f"paired bootstrap over images with their captions {seeds}; * where it excludes zero.",
    ]
    if any(row.halves for row in results.rows):
        lines.append(
            "Halves: best epochs were chosen on one half of dev's images; the other half had no say. A half has fewer "
            "candidates than the whole and hence higher recall."
        )
    if results.table.source:
        quoted = f"{results.table.source} ({results.table.quoted})"
        lines.append(f"The paper: {quoted}: other data and another size; compare the differences.")
    if results.missing:
        lines.append(f"Not finished: {', '.join(results.missing)}.")
    return lines


def latex(results: Results) -> str:
    """Write a `tabular` with booktabs' rules."""
    row_head, delta, paper = ("  ", "row"), ("   ", f"Δ {results.reference}"), ("paper", "R@sum")
    columns = pd.MultiIndex.from_tuples([row_head, *LATEX_HEADS, delta, paper])
    cells = [
        [
            row.row.title,
            *(_math(row.metrics[name]) for name in METRICS),
            _difference(row),
            _number(reported_sum(row.row.reported)).replace("–", "--"),
        ]
        for row in results.rows
    ]
    style = pd.DataFrame(cells, columns=columns).style.hide(axis="index")
    style = style.format(escape="latex", subset=[row_head]).format_index(escape="latex", axis=1)
    text = style.to_latex(hrules=True, column_format="l" + "r" * (len(columns) - 1), multicol_align="c")
    for letter, command in SYMBOLS.items():
        text = text.replace(letter, command)
    return f"% {results.table.name}: {' '.join(results.table.title.split())}\n{text}"


def comma_separated(results: Results) -> str:
    """Write one line a row, every number in a column of its own."""
    table = pd.DataFrame([_numbers(results, row) for row in results.rows])
    return table.to_csv(index=False, float_format="%.4f", lineterminator="\n")


def _numbers(results: Results, row: ResultRow) -> dict[str, Any]:
    against, reported = row.against, row.row.reported or (None,) * len(RECALLS)
    measured = {name: row.metrics[name] for name in METRICS}
    measured |= dict(zip((CHOSEN_HALF, OTHER_HALF), row.halves or (), strict=False))
    return {
        "row": row.row.name,
        "about": row.row.title,
        "split": results.split,
        "seeds": " ".join(map(str, row.seeds)),
        **{
            f"{name}_{part}": number
            for name, value in measured.items()
            for part, number in (("mean", value.mean), ("std", value.spread))
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


def _reported(row: ResultRow) -> str:
    recalls = row.row.reported
    if recalls is None:
        return "–"
    both_ways = (" / ".join(_number(value) for value in half) for half in (recalls[:3], recalls[3:]))
    return f"{row.row.source}: " + " · ".join(both_ways)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _math(value: Measured) -> str:
    text = shown(value).replace("±", r"\pm")
    return text if value.spread is None else f"${text}$"


def _difference(row: ResultRow) -> str:
    if row.against is None:
        return "--"
    return f"${row.against.mean:+.1f}{'^{*}' if row.against.beyond_noise else ''}$"
