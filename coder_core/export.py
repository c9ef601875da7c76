"""coder-lab export RUN --to faiss FILE | parquet DIR | huggingface DIR | triplets DIR: for other tools."""

import math
from dataclasses import fields
from pathlib import Path

import tyro

from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.plain_files import check_file, check_folder
from coder_core.console.runner import command
from coder_core.embedding.exports.arguments import ExportArguments
from coder_core.files.atomic import existing_outputs

MOST_RANKS = 1_000  # largest rank of negatives
PROGRAM = "coder-lab export"
USED_BY = dict.fromkeys(("form", "negatives", "ranks", "margin", "seed", "reviews"), "triplets")
USED_BY |= {"rows": "faiss"}


@command
def main(arguments: list[str]) -> int:
    """Write the files."""
    parsed = tyro.cli(ExportArguments, prog=PROGRAM, args=arguments)
    kind, path = parsed.to
    stop_on_errors([*_faults(kind, path), *_mining_faults(parsed)])

    from coder_core.embedding.exports.command import export_run

    export_run(parsed)
    return 0


def _mining_faults(parsed: ExportArguments) -> list[Fault]:
    """Return faults of the flags of triplets, and those of flags that the chosen export does not use."""
    (first, last) = parsed.ranks
    negatives = parsed.negatives
    faults = list[Fault]()
    for field in fields(parsed):
        kind = USED_BY.get(field.name, parsed.to[0])
        if kind != parsed.to[0] and getattr(parsed, field.name) != field.default:
            problem = f"is given, but only --to {kind} uses it"
            faults.append(Fault(f"--{field.name}", problem, fix="leave it out"))

    if not 1 <= first <= last <= MOST_RANKS:
        expected = f"two ascending ranks from 1 to {MOST_RANKS:,}"
        faults.append(Fault("--ranks", f"are {first} {last}", expected))
    elif not 1 <= negatives <= last - first + 1:
        expected = f"1 to {last - first + 1}, the ranks of the window"
        faults.append(Fault("--negatives", f"is {negatives}", expected, "widen --ranks, or take fewer"))

    if parsed.margin is not None and not math.isfinite(parsed.margin):
        faults.append(Fault("--margin", f"is {parsed.margin}", "a number"))
    if parsed.seed < 0:
        faults.append(Fault("--seed", f"is {parsed.seed}", "0 or more"))

    return faults


def _faults(kind: str, path: Path) -> list[Fault]:
    flag = f"--to {kind}"
    if kind == "faiss":
        faults = check_file(flag, path)
        existing = existing_outputs(path, Path(f"{path}.json"))
    else:
        faults = check_folder(f"{flag} {path}", path)
        existing = [path] if path.exists() and not (path.is_dir() and not any(path.iterdir())) else []
    fix = "choose another; nothing is overwritten"
    return faults or [Fault(str(file), "exists", "a new name", fix) for file in existing]


if __name__ == "__main__":
    raise SystemExit(main())
