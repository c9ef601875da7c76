"""Print the metrics of a new run of embeddings: by the labels, by group, and by equal texts if many captions repeat."""

from pathlib import Path

from rich.console import Console

from coder_core.console.output import print_faults
from coder_core.console.tables import metrics_table
from coder_core.runs.analysis.rows import embedded_row, widened_rows


def print_metrics(console: Console, folder: Path, split: str, title: str) -> None:
    """Print a row for every way to count what is right, and a warning if nobody chose how equal texts count."""
    row = embedded_row(folder, split)
    wide, warnings = widened_rows([row], None)
    print_faults(console, warnings)
    table = {measured.named(folder.name): measured.metrics for measured in [row, *wide]}
    console.print(metrics_table(table, title))
