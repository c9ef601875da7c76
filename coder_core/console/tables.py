"""Tables that fit the width of the console, and the tables of retrieval metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from coder_core.console.output import UNLIMITED

Metrics = Mapping[str, float]
DIRECTIONS = {"i2t": "image→text", "t2i": "text→image"}
RECALLS = ["r1", "r5", "r10"]
GRADED = ["mrr", "ndcg10"]
PROBE = "probe_"  # prefix of a kind of probes in a run's metrics


@dataclass(eq=False)
class Column:
    """One column of a `FittingTable`."""

    head: str  # may have several lines
    # order in which columns are left out on a narrow terminal: those with 1 first, together; None is never
    # left out
    dropped: int | None = None
    text: bool = False  # left-aligned and broken between words; otherwise right-aligned and never broken
    style: str = ""
    cells: list[str] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """Least width at which no word or number breaks."""
        separator = None if self.text else "\n"
        cells = (self.head, *self.cells)
        return max(cell_len(part) for cell in cells for part in ["", *cell.split(separator)])


class FittingTable:
    """A table that leaves out columns, the least important first, before it breaks a word."""

    def __init__(self, title: str, columns: Sequence[Column]) -> None:
        self.title = title
        self.columns = list(columns)

    def add_row(self, *cells: str) -> None:
        """Add a row with one cell per column."""
        for column, cell in zip(self.columns, cells, strict=True):
            column.cells.append(cell)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = list(self.columns)
        turns = sorted({column.dropped for column in shown if column.dropped is not None})
        unlimited = options.update(width=UNLIMITED)
        while too_wide := Measurement.get(console, unlimited, self._draw(shown)).minimum > options.max_width:
            if not turns:
                break
            turn = turns.pop(0)
            shown = [column for column in shown if column.dropped != turn]
        yield self._draw(shown, fold=too_wide)
        hidden = [column for column in self.columns if column not in shown]
        left_out = dict.fromkeys(column.head.replace("\n", " ") for column in hidden)
        if left_out:
            yield Text(f"too narrow for {', '.join(left_out)}", style="dim")

    def _draw(self, columns: Sequence[Column], *, fold: bool = False) -> Table:
        table = Table(title=self.title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0))
        for column in columns:
            keep = not (fold and column.text)  # text folds if no column is left to leave out
            table.add_column(
                Text(column.head),
                min_width=column.needed if keep else None,
                no_wrap=not column.text,
                overflow="fold",
                justify="left" if column.text else "right",
                style=column.style,
            )
        for cells in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*map(Text, cells))
        return table


def metrics_table(rows: Mapping[str, Metrics], title: str) -> FittingTable:
    """Tabulate recalls, MRR and nDCG@10, MedR and MeanR both ways, R@sum, MD and ties, one row per name."""
    columns = [Column("run", text=True)]
    for turn, label in zip((6, 5), DIRECTIONS.values(), strict=True):
        columns += [Column(f"{label}\nR@1/5/10", dropped=turn), Column("MRR\nnDCG@10", dropped=1)]
        columns += [Column("MedR\nMeanR", dropped=4)]
    columns += [Column("R@sum", style="bold"), Column("MD", dropped=3), Column("ties %", dropped=2)]
    table = FittingTable(title, columns)
    for name, metrics in rows.items():
        cells = [name]
        for way in DIRECTIONS:
            middle = f"{_number(metrics, f'{way}_medr', 0)} · {_number(metrics, f'{way}_meanr', 1)}"
            cells += [_cell(metrics, RECALLS, way), _cell(metrics, GRADED, way), middle]
        cells += [_cell(metrics, ["rsum"]), _number(metrics, "md", 3)]
        table.add_row(*cells, " · ".join(_number(metrics, f"{way}_ties", 1) for way in DIRECTIONS))
    return table


def _number(metrics: Metrics, name: str, digits: int) -> str:
    """Return a metric with some digits; a dash without it, as for another system's lists."""
    return f"{metrics[name]:.{digits}f}" if name in metrics else "–"


def choices_table(rows: Mapping[str, Metrics], options: Sequence[int], title: str) -> FittingTable:
    """Tabulate c-way accuracy both ways, mean ± half of the 95% interval; a dash if the split is too small."""
    columns = [Column("run", text=True)]
    for label in DIRECTIONS.values():
        turns = [None, *range(len(options) - 1, 0, -1)]
        columns += [Column(f"{label}\n{c}-way %", turn) for c, turn in zip(options, turns, strict=True)]
    table = FittingTable(title, columns)
    for name, metrics in rows.items():
        cells = [name]
        for key in (f"{way}_{c}way" for way in DIRECTIONS for c in options):
            interval = f" ± {metrics[f'{key}_interval']:.1f}" if key in metrics else ""
            cells.append(_cell(metrics, [key]) + interval)
        table.add_row(*cells)
    return table


def by_columns_table(rows: Mapping[str, Mapping[str, str]], runs: Sequence[str], title: str) -> FittingTable:
    """Tabulate R@1 with its interval by slice: for both directions the queries ("i2t", "t2i") and the recall of every run
    ("i2t_0", …); a dash for a direction without enough queries."""
    columns = [Column("slice", text=True)]
    keys = []
    for turn, (way, label) in enumerate(DIRECTIONS.items(), 1):
        columns.append(Column(f"{label}\nqueries", dropped=turn))
        keys.append(way)
        for number, run in enumerate(runs):
            columns.append(Column(f"R@1 %\n{run}" if len(runs) > 1 else f"{label}\nR@1 %"))
            keys.append(f"{way}_{number}")
    table = FittingTable(title, columns)
    for name, cells in rows.items():
        table.add_row(name, *(cells.get(key, "–") for key in keys))
    return table


def probe_table(rows: Mapping[str, Metrics], title: str) -> FittingTable:
    """Tabulate the accuracy of the probes by kind and of all together; a dash if a run has none of their pictures."""
    kinds = sorted({name for metrics in rows.values() for name in metrics if name.startswith(PROBE)})
    columns = [Column(kind.removeprefix(PROBE)) for kind in kinds]
    table = FittingTable(title, [Column("run", text=True), *columns])
    for name, metrics in rows.items():
        if any(kind in metrics for kind in kinds):  # an ensemble has none
            table.add_row(name, *(_cell(metrics, [kind]) for kind in kinds))
    return table


def extended_table(rows: Mapping[str, Metrics], title: str) -> FittingTable:
    """Tabulate mAP@R, R-Precision, extended R@K, MRR and nDCG@10 both ways; a dash if no query has a positive."""
    extended = [[f"extended_{name}" for name in names] for names in (RECALLS, GRADED)]
    parts = {"mAP@R\nR-Precision": [["map_at_r"], ["r_precision"]]}
    return _both_ways(rows, title, {**parts, "extended\nR@1/5/10\nMRR/nDCG@10": extended})


def graded_table(rows: Mapping[str, Metrics], names: Sequence[str], title: str) -> FittingTable:
    """Tabulate the metrics `names` by qrels with their 95% intervals, one row per run and direction."""
    columns = [Column("run", text=True), Column("direction", text=True), Column("queries", dropped=1)]
    columns += [Column(label, turn) for turn, label in zip([None, *range(9, 0, -1)], names, strict=False)]
    table = FittingTable(title, columns)
    for name, metrics in rows.items():
        for way, direction in DIRECTIONS.items():
            if f"{way}_qrels_queries" not in metrics:
                continue
            keys = [f"{way}_qrels_{metric.lower()}" for metric in names]
            cells = [f"{metrics[k]:.1f}\n{metrics[f'{k}_low']:.1f}–{metrics[f'{k}_high']:.1f}" for k in keys]
            table.add_row(name, direction, f"{metrics[f'{way}_qrels_queries']:,.0f}", *cells)
    return table


def reviewed_table(rows: Mapping[str, Metrics], title: str) -> FittingTable:
    """Tabulate R@1/5/10, MRR and nDCG@10 both ways by labels and reviewed labels; a dash if no query has a positive."""
    lines = [RECALLS, GRADED]
    parts = {"labels": lines, "reviewed": [[f"reviewed_{name}" for name in names] for names in lines]}
    return _both_ways(rows, title, {f"{by}\nR@1/5/10\nMRR/nDCG@10": names for by, names in parts.items()})


def _both_ways(
    rows: Mapping[str, Metrics], title: str, parts: Mapping[str, Sequence[Sequence[str]]]
) -> FittingTable:
    """Tabulate `parts`, heading → metrics of each line of a cell, first from image to text, then from text to image."""
    columns = [Column("run", text=True)]
    for turn, label in zip((2, 1), DIRECTIONS.values(), strict=True):
        columns += [Column(f"{label}\n{heading}", dropped=turn) for heading in parts]
    table = FittingTable(title, columns)
    for name, metrics in rows.items():
        cells = (
            [_cell(metrics, names, way) for names in lines] for way in DIRECTIONS for lines in parts.values()
        )
        table.add_row(name, *map("\n".join, cells))
    return table


def _cell(metrics: Metrics, names: Sequence[str], way: str = "") -> str:
    values = [metrics.get(f"{way}_{name}" if way else name) for name in names]
    return "/".join("–" if value is None else f"{value:.1f}" for value in values)
