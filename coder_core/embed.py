"""python -m coder_core.embed import --images I.npy --texts T.npy --captions C.txt --name NAME: a run of any model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from coder_core.console.output import open_console, print_faults, say
from coder_core.console.runner import asks_for_help, command
from coder_core.console.tables import metrics_table

PROGRAM = "python -m coder_core.embed import"
USAGE = f"usage: {PROGRAM} --images I.npy --texts T.npy --captions C.txt --name NAME\n       {PROGRAM} --help"


@dataclass(frozen=True)
class EmbedArguments:
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


@command
def main(arguments: list[str]) -> int:
    """Import embeddings as a run. Returns 2 for another command than import."""
    if arguments[:1] != ["import"]:
        print(USAGE, file=sys.stdout if asks_for_help(arguments) else sys.stderr)
        return 0 if asks_for_help(arguments) else 2
    parsed = tyro.cli(EmbedArguments, prog=PROGRAM, args=arguments[1:])

    from coder_core.data.embeddings import read_embeddings
    from coder_core.runs.analysis.import_embeddings import import_run, place_of

    console = open_console()
    place_of(parsed.root, parsed.name, parsed.split, overwrite=parsed.overwrite)  # before the files are read
    embeddings = read_embeddings(parsed.images, parsed.texts, parsed.captions, ids=parsed.ids, pictures=parsed.pictures)
    print_faults(console, embeddings.faults)
    folder, metrics = import_run(embeddings, parsed.root, parsed.name, parsed.split, overwrite=parsed.overwrite)
    n, m, width = len(embeddings.images), len(embeddings.texts), embeddings.images.shape[1]
    say(console, f"{n:,} images and {m:,} captions, {width:,} numbers each: {folder}")
    console.print(metrics_table({parsed.name: metrics}, f"{parsed.split} · pessimistic ties"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
