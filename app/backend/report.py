"""Reports of runs on a split as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from app.backend.judgements import sources
from app.backend.reviews import file_of, load
from app.backend.runs import RunSummary, open_summary
from coder_core.api.report import gather, render


def report_page(runs: Sequence[RunSummary], split: str) -> str:
    """The report on runs of the same samples; the first is the baseline, the last the one that is judged."""
    names = " ".join(str(run.path) for run in runs)
    command = f"python -m coder_core.report {names} --split {split} --out report.html"
    reviews = load(file_of(runs[-1]))
    command += f" --reviews {file_of(runs[-1])}" if reviews.standing else ""
    positives = [source.place for source in sources(runs[-1], split) if not source.fault]
    command += f" --positives {' '.join(positives)}" if positives else ""
    opened = [open_summary(run) for run in runs]
    return render(gather(opened, split, command=command, reviews=reviews, positives=positives))
