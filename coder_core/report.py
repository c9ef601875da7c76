"""python -m coder_core.report RUN [RUN …] --split test --out report.html: one file that a colleague opens."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coder_core.config.split_name import SplitName
from coder_core.console.faults import stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.plain_files import MISSING_RUN, check_new_file
from coder_core.console.runner import command

PROGRAM = "python -m coder_core.report"


@dataclass(frozen=True)
class ReportArguments:
    """Write one self-contained HTML file about runs on a split, to send, open offline or print.

    It holds the question, the data, recall with intervals, what moved from the first run to the last, typical failures
    with pictures, slices, clusters, ambiguity, the settings that differ, and how to reproduce it. It loads nothing and
    runs no script. All runs need an analysis of the split: coder_core.evaluate or coder_core.embed writes it.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders; with several the first is the baseline and the last the one that is judged."""
    split: SplitName = "dev"  # The analysed split.
    out: Path = Path("report.html")  # The file to write.
    question: str = ""  # Question that the report answers; empty compares the last run with the first.
    reviews: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Verdicts on pairs (`coder_core.reviews`): what was judged, and recall with and without."""
    positives: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE|eccv|cxc …")] = ()
    """Captions that fit other images too, as for `coder_core.evaluate`: R@K, mAP@R and R-Precision by them."""
    overwrite: bool = False  # Replace the file if it exists.


@command
def main(arguments: list[str]) -> int:
    """Write the report."""
    parsed = tyro.cli(ReportArguments, prog=PROGRAM, args=arguments)
    missing = [] if parsed.runs else [MISSING_RUN]
    stop_on_errors([*check_new_file("--out", parsed.out, overwrite=parsed.overwrite), *missing])

    from coder_core.api import open_run
    from coder_core.api.report import gather, render
    from coder_core.data.reviews import read_reviews

    console = open_console()
    with console.status("gathering"):
        report = gather(
            [open_run(folder) for folder in parsed.runs],
            parsed.split,
            question=parsed.question,
            command=shlex.join([*PROGRAM.split(), *arguments]),
            reviews=None if parsed.reviews is None else read_reviews(parsed.reviews),
            positives=parsed.positives,
        )
        parsed.out.write_text(render(report), "utf-8")
    for sentence in report.short:
        say(console, sentence)
    say(console, f"{parsed.out}: {parsed.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
