"""Merge files of reviews.

python -m coder_core.reviews merge A.jsonl B.jsonl --out C.jsonl
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import tyro

from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.outputs import check_file
from coder_core.console.runner import asks_for_help, command

PROGRAM = "python -m coder_core.reviews"
USAGE = f"""usage: {PROGRAM} merge A.jsonl B.jsonl --out C.jsonl
       {PROGRAM} merge --help"""


@dataclass(frozen=True)
class MergeArguments:
    """Join files of reviews: every line once, by the time it was written. What one file takes back stays taken back."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """The files, reviews.jsonl of several people or machines."""
    out: Path
    """The file to write; none that exists."""


@command
def main(arguments: list[str]) -> int:
    """Run a command on reviews. Returns 2 for any other word."""
    commands = {"merge": _merge}
    if not arguments or arguments[0] not in commands:
        print(USAGE, file=sys.stdout if asks_for_help(arguments) else sys.stderr)
        return 0 if asks_for_help(arguments) else 2
    return commands[arguments[0]](arguments[1:])


def _merge(arguments: list[str]) -> int:
    parsed = tyro.cli(MergeArguments, prog=f"{PROGRAM} merge", args=arguments)
    faults = check_file("--out", parsed.out)
    if not faults and parsed.out.exists():
        faults.append(Fault(f"--out {parsed.out}", "exists", "a new name", "choose another; nothing is overwritten"))
    if len(parsed.files) < 2:
        faults.append(Fault("FILE", f"there are {len(parsed.files)}", "two files of reviews or more"))
    stop_on_errors(faults)

    from coder_core.data.reviews import merge, parse_reviews, read_reviews

    console = open_console()
    files = [read_reviews(file) for file in parsed.files]
    print_faults(console, [fault for reviews in files for fault in reviews.faults])
    text = merge(files)
    parsed.out.write_text(text, "utf-8")
    merged = parse_reviews(text.encode(), str(parsed.out))
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in Counter(merged.verdicts.values()).most_common())
    judged = f"{len(merged.verdicts):,} pairs judged: {counts or 'none'}"
    say(console, f"{parsed.out}: {len(merged.lines):,} lines, {judged}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
