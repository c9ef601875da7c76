"""python -m coder_core.embed import --images I.npy --texts T.npy --captions C.txt --name NAME: a run of any model."""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from coder_core.console.display import metrics_table, print_faults, say
from coder_core.console.exit_status import leave
from coder_core.console.faults import InputError
from coder_core.data.embeddings import read_embeddings
from coder_core.runs.analysis.import_embeddings import import_run, place_of

PROGRAM = "python -m coder_core.embed import"
USAGE = f"usage: {PROGRAM} --images I.npy --texts T.npy --captions C.txt --name NAME\n       {PROGRAM} --help"


@dataclass(frozen=True)
class Arguments:
    """Make a run of any model's embeddings (CLIP, SigLIP, a colleague's), so that the app opens it beside others.

    Diversity, similarity, joint space, clusters and retrieval work on it. What needs a CODER model (a free text as
    query, training curves, concepts) is absent. Rows are divided by their length: scores are cosines.
    """

    images: Path
    """Image embeddings: .npy of (n, D) float16, float32 or float64."""
    texts: Path
    """Caption embeddings: .npy of (m, D), in the order of the captions."""
    captions: Path
    """m captions, UTF-8, one a line. Without --ids every m / n of them belong to one image."""
    name: str
    """Name of a new run, or of an imported one that gets another split."""
    ids: Path | None = None
    """One id an image (names the pictures) or one a caption (equal ids are one image), one a line."""
    pictures: Path | None = None
    """Folder in which the ids are picture files, so that the app can show them."""
    split: str = "dev"
    """The split these samples are; runs are compared on splits of the same name."""
    root: Path = Path("checkpoints")
    """Folder of the runs."""
    overwrite: bool = False
    """Replace the split, when the run has it already."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, 1 for an input that cannot be used, 2 for another command than import."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] != ["import"]:
        asked = bool({"-h", "--help"} & set(given))
        print(USAGE, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    parsed = tyro.cli(Arguments, prog=PROGRAM, args=given[1:])
    console = Console()
    try:
        place_of(parsed.root, parsed.name, parsed.split, overwrite=parsed.overwrite)  # before the files are read
        found = read_embeddings(parsed.images, parsed.texts, parsed.captions, ids=parsed.ids, pictures=parsed.pictures)
        print_faults(console, found.faults)
        folder, metrics = import_run(found, parsed.root, parsed.name, parsed.split, overwrite=parsed.overwrite)
    except InputError as error:
        print_faults(Console(stderr=True), error.faults)
        return 1
    n, m, width = len(found.images), len(found.texts), found.images.shape[1]
    say(console, f"{n:,} images and {m:,} captions, {width:,} numbers each: {folder}")
    console.print(metrics_table({parsed.name: metrics}, f"{parsed.split} · pessimistic ties"))
    return 0


if __name__ == "__main__":
    leave(main)
