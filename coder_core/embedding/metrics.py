"""Print the metrics of a new run of embeddings: by the labels, by group, and by equal texts if many captions repeat; of a
search log by its judgments."""

from pathlib import Path

from rich.console import Console

from coder_core.console.output import print_faults
from coder_core.console.tables import graded_table, metrics_table
from coder_core.evaluation.metrics import metric_label
from coder_core.evaluation.sampled import describe
from coder_core.runs.analysis.graded import GRADED_METRICS, OWN_JUDGEMENTS, add_judged_metrics
from coder_core.runs.analysis.rows import embedded_row, sample_notes, widened_rows


def print_metrics(console: Console, folder: Path, split: str, title: str) -> None:
    """Print a row for every way to count what is right, and a warning if nobody chose how equal texts count. The graded
    metrics of a search log, with intervals, come first and are stored with the run."""
    row = embedded_row(folder, split)
    if row.split.search_log is not None:
        add_judged_metrics([row], GRADED_METRICS, split)
        of_judges = f"{OWN_JUDGEMENTS} · % and 95% intervals · relevant pictures last among equal scores"
        labels = [metric_label(name) for name in GRADED_METRICS]
        console.print(graded_table({folder.name: row.metrics}, labels, of_judges))
    wide, warnings = widened_rows([row], None)
    print_faults(console, [*sample_notes([row]), *warnings])
    table = {measured.named(folder.name): measured.metrics for measured in [row, *wide]}
    sampled = describe(row.split.queries, row.split.n_images, len(row.split.captions))
    console.print(metrics_table(table, f"{title} · {sampled}" if sampled else title))
