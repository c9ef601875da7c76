"""A finished table as Markdown, LaTeX and CSV: what was measured, beside what the paper reports."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from coder_core.ablation.results import RECALLS, SUM, Measured, ResultRow, Results, reported_sum
from coder_core.ablation.rows import Recalls

HEADS = ("image→text R@1", "R@5", "R@10", "text→image R@1", "R@5", "R@10", "R@sum")


def write_all(results: Results, folder: Path, command: str) -> list[Path]:
    """`results.md`, `results.tex`, `results.csv` in `folder`; those of before are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for suffix, text in (
        ("md", markdown(results, command)),
        ("tex", latex(results)),
        ("csv", comma_separated(results)),
    ):
        path = folder / f"results.{suffix}"
        path.write_text(text, "utf-8")
        found.append(path)
    return found


def shown(value: Measured) -> str:
    """265.5 ± 5.2, or 265.5 with one seed."""
    return f"{value.mean:.1f}" + ("" if value.spread is None else f" ± {value.spread:.1f}")


def against_shown(row: ResultRow) -> str:
    """+8.1 [2.0, 14.3], with a star when the interval leaves zero out."""
    if row.against is None:
        return "–"
    star = " *" if row.against.beyond_noise else ""
    return f"{row.against.mean:+.1f} [{row.against.low:.1f}, {row.against.high:.1f}]{star}"


def markdown(results: Results, command: str) -> str:
    """The table with its legend."""
    heads = ["row", "seeds", *HEADS, f"R@sum − {results.reference}", "minutes", "MiB", "the paper", "its R@sum"]
    lines = [f"# {results.table.name}", "", f"{results.table.about[:1].upper() + results.table.about[1:]}.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in results.rows:
        cells = [
            f"{row.row.name}: {row.row.about}", ", ".join(map(str, row.seeds)),
            *(shown(row.metrics[name]) for name in RECALLS), f"**{shown(row.metrics[SUM])}**", against_shown(row),
            f"{row.minutes:.1f}", "–" if row.mebibytes is None else f"{row.mebibytes:.0f}", _reported(row),
            _number(reported_sum(row.row.reported)),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *legend(results), "", f"    {command}", ""]
    return "\n".join(lines)


def legend(results: Results) -> list[str]:
    """How to read it."""
    seeds = any(row.against is not None and row.against.seeds for row in results.rows)
    found = [
        f"Measured on {results.split}; mean ± sample standard deviation over the seeds.",
        f"R@sum − {results.reference}: over the seeds both rows have (all, where they share none); 95% interval of a "
        "paired bootstrap over images with their captions"
        + (" and, where both rows have several, over seeds" if seeds else " (the spread of seeds is not in it)")
        + "; * where it leaves zero out.",
    ]
    if results.table.source:
        found.append(
            f"The paper: {results.table.source} ({results.table.quoted}): other data and another size; compare the "
            "differences."
        )
    if results.missing:
        found.append(f"Not finished: {', '.join(results.missing)}.")
    return found


def latex(results: Results) -> str:
    """A `tabular` with booktabs' rules."""
    lines = [
        f"% {results.table.name}: {_escaped(results.table.about)}", r"\begin{tabular}{lrrrrrrrrr}", r"\toprule",
        r" & \multicolumn{3}{c}{image $\to$ text} & \multicolumn{3}{c}{text $\to$ image} & & & paper \\",
        rf"row & R@1 & R@5 & R@10 & R@1 & R@5 & R@10 & R@sum & $\Delta$ {_escaped(results.reference)} & R@sum \\",
        r"\midrule",
    ]  # fmt: skip
    for row in results.rows:
        cells = [_escaped(row.row.about), *(_math(row.metrics[name]) for name in (*RECALLS, SUM))]
        star = r"^{*}" if row.against is not None and row.against.beyond_noise else ""
        cells.append("--" if row.against is None else f"${row.against.mean:+.1f}{star}$")
        cells.append(_number(reported_sum(row.row.reported)).replace("–", "--"))
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def comma_separated(results: Results) -> str:
    """One line a row, every number of its own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = (*RECALLS, SUM)
    writer.writerow(
        ["row", "about", "split", "seeds", *(f"{name}_{part}" for name in names for part in ("mean", "std")),
         "reference", "difference", "low", "high", "beyond_noise", "minutes", "mebibytes", "paper",
         *(f"paper_{n}" for n in names)]
    )  # fmt: skip
    for row in results.rows:
        parts = [part for name in names for part in (row.metrics[name].mean, row.metrics[name].spread)]
        against: list[object] = [None] * 4
        if row.against is not None:
            against = [row.against.mean, row.against.low, row.against.high, row.against.beyond_noise]
        paper = [*(row.row.reported or (None,) * len(RECALLS)), reported_sum(row.row.reported)]
        writer.writerow(
            [row.row.name, row.row.about, results.split, " ".join(map(str, row.seeds)), *map(_plain, parts),
             results.reference, *map(_plain, against), _plain(row.minutes), _plain(row.mebibytes), row.row.source,
             *map(_plain, paper)]
        )  # fmt: skip
    return out.getvalue()


def _plain(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else value


def _reported(row: ResultRow) -> str:
    recalls: Recalls | None = row.row.reported
    if recalls is None:
        return "–"
    sides = (" / ".join(_number(value) for value in half) for half in (recalls[:3], recalls[3:]))
    return f"{row.row.source}: " + " · ".join(sides)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _math(value: Measured) -> str:
    return f"{value.mean:.1f}" if value.spread is None else rf"${value.mean:.1f} \pm {value.spread:.1f}$"


def _escaped(text: str) -> str:
    special = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "μ": r"$\mu$", "ε": r"$\varepsilon$",
               "γ": r"$\gamma$", "α": r"$\alpha$",
               "×": r"$\times$", "→": r"$\to$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
               "{": r"\{", "}": r"\}", "\\": r"\textbackslash{}"}  # fmt: skip
    return "".join(special.get(letter, letter) for letter in text)
