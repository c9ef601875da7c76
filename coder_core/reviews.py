"""Merge files of reviews, or write a data set with their corrections.

coder-lab reviews merge A.jsonl B.jsonl --out C.jsonl
coder-lab reviews export DATA --reviews reviews.jsonl --out CLEANED
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.plain_files import check_file, check_folder
from coder_core.console.runner import command, run_subcommand
from coder_core.files.atomic import write_output

PROGRAM = "coder-lab reviews"
USAGE = f"""usage: {PROGRAM} merge A.jsonl B.jsonl --out C.jsonl
       {PROGRAM} export DATA --reviews FILE --out CLEANED
       {PROGRAM} merge --help
       {PROGRAM} export --help"""


@dataclass(frozen=True)
class MergeArguments:
    """Join files of reviews: every line once, in the order of writing. Undone verdicts stay undone."""

    files: tyro.conf.Positional[tuple[Path, ...]]  # The files, reviews.jsonl of several people or machines.
    out: Path  # The file to write; it must not exist.


@dataclass(frozen=True)
class CorrectedDataArguments:
    """Write a data set in its own layout, without the pairs that people left out and with those that also match.

    Works for precomp captions with or without features, and for the text files of Flickr8k and Flickr30K (*.token.txt,
    results.csv, captions.txt). Other layouts are refused; `train --reviews` and `evaluate --reviews` read all layouts.
    Pictures are not copied: give --pictures with the cleaned data. cleaned.json in the folder lists the changes.
    """

    data: tyro.conf.Positional[Path]  # The data set; "demo" is the built-in data.
    reviews: Path  # The file of verdicts.
    out: Path  # The folder to write; it must not exist.
    leave_out: tuple[Literal["wrong-caption", "too-vague", "duplicate"], ...] = ("wrong-caption",)
    """Verdicts whose pairs are left out."""
    add_matches: bool = True  # Add pairs judged also-matches to the data.


@command
def main(arguments: list[str]) -> int:
    """Run the merge or export command. Return 2 for any other word."""
    return run_subcommand(arguments, {"merge": _merge, "export": _export}, USAGE)


def _merge(arguments: list[str]) -> int:
    parsed = tyro.cli(MergeArguments, prog=f"{PROGRAM} merge", args=arguments)
    faults = check_file("--out", parsed.out)
    if not faults and parsed.out.exists():
        fix = "choose another; nothing is overwritten"
        faults.append(Fault(f"--out {parsed.out}", "exists", "a new name", fix))
    if len(parsed.files) < 2:
        faults.append(Fault("FILE", f"{len(parsed.files)} given", "two or more files of reviews"))
    stop_on_errors(faults)

    from coder_core.data.reviews import merge, parse_reviews, read_reviews

    console = open_console()
    files = [read_reviews(file) for file in parsed.files]
    print_faults(console, [fault for reviews in files for fault in reviews.faults])
    text = merge(files)
    write_output(parsed.out, text)
    merged = parse_reviews(text.encode(), str(parsed.out))
    verdicts = Counter(merged.verdicts.values()).most_common()
    counts = ", ".join(f"{verdict} {count:,}" for verdict, count in verdicts)
    judged = f"pairs judged: {len(merged.verdicts):,}" + (f" ({counts})" if counts else "")
    say(console, f"{parsed.out}: lines: {len(merged.lines):,}, {judged}")
    return 0


def _export(arguments: list[str]) -> int:
    parsed = tyro.cli(CorrectedDataArguments, prog=f"{PROGRAM} export", args=arguments)
    stop_on_errors(check_folder(f"--out {parsed.out}", parsed.out))

    from coder_core.data.reviews import read_reviews
    from coder_core.embedding.exports.cleaned import REPORT, Corrections, write_cleaned
    from coder_core.model.reader import data_folder

    console = open_console()
    reviews = read_reviews(parsed.reviews)
    print_faults(console, reviews.faults)
    corrections = Corrections(reviews, parsed.leave_out, parsed.add_matches)
    cleaning = write_cleaned(data_folder(str(parsed.data)), corrections, parsed.out)
    changes = f"pairs left out: {len(cleaning.left_out):,}, added: {len(cleaning.added):,}"
    rest = f"images left without a caption: {len(cleaning.images):,}, verdicts on pairs of other data"
    say(console, f"{parsed.out}: {changes}, {rest}: {cleaning.elsewhere:,}; {REPORT} lists the changes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
