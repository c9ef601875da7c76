"""coder-lab report RUN [RUN …] --split test --out report.html: one HTML file to share."""

import math
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from coder_core.config.split_name import SplitName
from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.plain_files import MISSING_RUN
from coder_core.console.runner import command
from coder_core.files.atomic import check_new_files, writing

PROGRAM = "coder-lab report"
FAILED = 1  # exit status if a check of the gate fails; an error is 2


@dataclass(frozen=True)
class ReportArguments:
    """Write one self-contained HTML file about runs on a split, to send, open offline or print.

    It contains the question, the data, recall with intervals, changes from the first run to the last, typical failures
    with pictures, slices, clusters, ambiguity, the settings that differ, and how to reproduce it. It loads nothing and
    runs no script. All runs need an analysis of the split: coder_core.evaluate or coder_core.embed writes it.

    With --gate or --gate-slices it is also a check for continuous integration: the last run may lose no more than
    allowed against the first one, beyond noise. A check fails if the upper end of the 95% interval of its change
    (last − first, paired bootstrap over images) is below the allowed change, so a change that may be noise passes. The
    result goes into the report and, with every interval, into a JSON file beside it (report.html: report.json). Exit
    status: 0 if all checks pass, 1 if one fails, 2 for an error.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders. With several, the last is compared with the first, the baseline."""
    split: SplitName = "dev"  # The analysed split.
    out: Path = Path("report.html")  # The file to write.
    question: str = ""  # Question that the report answers; empty: how the last run compares with the first.
    reviews: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Verdicts on pairs (`coder-lab reviews`): adds what was judged, and recall with and without the corrections."""
    positives: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE|eccv|cxc …")] = ()
    """Captions that fit other images too, as for `coder-lab evaluate`: adds R@K, mAP@R and R-Precision."""
    gate: Annotated[tuple[str, ...], tyro.conf.arg(metavar="METRIC=CHANGE …")] = ()
    """Smallest allowed change of each metric, in points: rsum=-1 t2i_r1=-0.5. Metrics: rsum, and r1, r5, r10 of i2t
    and t2i."""
    gate_slices: float | None = None
    """Smallest allowed change of any slice's R@1 in either direction, in points, for example -5. Slices are those of
    caption length, kinds of words, frequent words and columns of your own. Intervals are not corrected for the number
    of slices."""
    by: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN …")] = ()
    """Only slices of these columns of yours, such as brand, or of kinds such as length: in the section on slices, which
    then lists all of them, and in --gate-slices."""
    gate_queries: int = 200  # Fewest queries of a slice that --gate-slices checks.
    overwrite: bool = False  # Replace files that exist.


@partial(command, unusable=2)
def main(arguments: list[str]) -> int:
    """Write the report."""
    parsed = tyro.cli(ReportArguments, prog=PROGRAM, args=arguments)
    gated = bool(parsed.gate) or parsed.gate_slices is not None
    result_file = parsed.out.with_suffix(".json")
    faults = [] if parsed.runs else [MISSING_RUN]
    files = [parsed.out, result_file] if gated else [parsed.out]
    faults += check_new_files("--out", *files, overwrite=parsed.overwrite)
    recalls = _allowed_changes(parsed, gated, faults)
    stop_on_errors(faults)

    from coder_core.api import open_run
    from coder_core.api.report import Gate, Supplements, check_gate, gather, render
    from coder_core.data.reviews import Reviews, read_reviews

    console = open_console()
    result = None
    reviews = Reviews() if parsed.reviews is None else read_reviews(parsed.reviews)
    print_faults(console, reviews.faults)
    with console.status("gathering the report"):
        runs = [open_run(folder) for folder in parsed.runs]
        if len({run.name for run in runs}) < len(runs):
            for run in runs:
                run.name = str(run.path)
        if gated:
            gate = Gate(recalls, parsed.gate_slices, parsed.gate_queries, parsed.by)
            result = check_gate(runs[0], runs[-1], parsed.split, gate)
        supplements = Supplements(
            question=parsed.question,
            command=shlex.join([*PROGRAM.split(), *arguments]),
            reviews=reviews,
            positives=parsed.positives,
            by=parsed.by,
            gate=result,
        )
        report = gather(runs, parsed.split, supplements)
        page = render(report)
        with writing(*files) as temporaries:
            temporaries[0].write_text(page, "utf-8")
            if result is not None:
                temporaries[1].write_text(result.document() + "\n", "utf-8")
    for sentence in report.short:
        say(console, sentence)
    say(console, f"{parsed.out}: {parsed.out.stat().st_size / 1e6:.1f} MB")
    if result is None:
        return 0
    for check in result.failed:
        interval = f"95% interval {check.low:+.1f} to {check.high:+.1f}"
        say(console, f"failed: {check.name} {check.change:+.1f} ({interval}), allowed {check.allowed:+g}")
    return FAILED if result.failed else 0


def _allowed_changes(parsed: ReportArguments, gated: bool, faults: list[Fault]) -> dict[str, float]:
    """Parse --gate into metric → allowed change; append faults of the gate's flags to `faults`."""
    from coder_core.evaluation.bootstrap import RECALLS

    changes: dict[str, float] = {}
    for text in parsed.gate:
        name, _, change = text.partition("=")
        try:
            number = float(change)
        except ValueError:
            number = math.nan
        if name not in RECALLS or name in changes or not math.isfinite(number):
            problem = "is given twice" if name in changes else "is not a metric and a number"
            faults.append(Fault(f"--gate {text}", problem, f"one of {', '.join(RECALLS)}, such as rsum=-1"))
        changes[name] = number
    if gated and len(parsed.runs) < 2:
        faults.append(Fault("--gate", f"is given with {len(parsed.runs)} run", "two runs, baseline first"))
    if gated and parsed.out.suffix == ".json":
        faults.append(
            Fault(f"--out {parsed.out}", "is the file of the gate's result", "another ending, such as .html")
        )
    if parsed.gate_slices is not None and not math.isfinite(parsed.gate_slices):
        faults.append(Fault("--gate-slices", f"is {parsed.gate_slices}", "a number of points, such as -5"))
    if parsed.gate_queries < 1:
        faults.append(Fault("--gate-queries", f"is {parsed.gate_queries}", "1 or more"))
    return changes


if __name__ == "__main__":
    raise SystemExit(main())
