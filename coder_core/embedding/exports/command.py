"""Write the export that the flags choose, and print what was written."""

from pathlib import Path

from rich.console import Console

from coder_core.console.faults import Fault
from coder_core.console.output import open_console, print_faults, say, watching
from coder_core.data.reviews import Reviews, read_reviews
from coder_core.embedding.exports.arguments import ExportArguments
from coder_core.embedding.exports.huggingface import write_huggingface
from coder_core.embedding.exports.triplets import Mining, ReviewedPairs, TripletFiles, write_triplets
from coder_core.embedding.exports.vectors import names_file, read_vectors, write_faiss, write_parquet
from coder_core.evaluation.nearest import BY_INDEX
from coder_core.model.device import choose_device


def export_run(parsed: ExportArguments) -> None:
    """Write the files of one export. InputError: as for the function that writes it."""
    kind, path = parsed.to
    console = open_console()
    if kind == "triplets":
        _export_triplets(parsed, path, console)
    elif kind == "huggingface":
        write_huggingface(parsed.run, path, parsed.split)
        say(console, f"{path}: the model of {parsed.run}; AutoModel.from_pretrained opens it")
    else:
        _export_vectors(parsed, kind, path, console)


def _export_triplets(parsed: ExportArguments, folder: Path, console: Console) -> None:
    """Write hard negatives, and print how many were written and left out."""
    reviews = Reviews() if parsed.reviews is None else read_reviews(parsed.reviews)
    print_faults(console, reviews.faults)

    pairs = ReviewedPairs(parsed.run, parsed.split, reviews, str(choose_device(parsed.device)))
    files = TripletFiles(folder, parsed.form)
    mining = Mining(parsed.negatives, parsed.ranks, parsed.margin, parsed.seed)
    with watching(console, f"writing {folder}") as progress:
        report = write_triplets(pairs, files, mining, progress)

    if not report["picture files"]:
        fix = "evaluate the run, or import its embeddings, with --pictures FOLDER, and export it again"
        fact = "names images, because the run has no folder of pictures"
        print_faults(console, [Fault(f"--to triplets {folder}", fact, "paths of files", fix, "warning")])
    if report["by an index"]:
        print_faults(console, [Fault("--to triplets", f"compares {BY_INDEX}", severity="note")])
    for name, numbers in [*report["rows"].items(), ("left out", report["left out as negatives"])]:
        facts = ", ".join(f"{count:,} {fact}" for fact, count in numbers.items())
        say(console, f"{folder}, {name}: {facts}")


def _export_vectors(parsed: ExportArguments, kind: str, path: Path, console: Console) -> None:
    """Write a faiss index of one side, or Parquet tables of both."""
    vectors = read_vectors(parsed.run, parsed.split)
    n = len(vectors.images)
    m = len(vectors.texts)
    size = vectors.images.shape[1]
    with watching(console, f"writing {path}") as progress:
        if kind == "faiss":
            write_faiss(vectors, parsed.rows, path, progress)
            count = n if parsed.rows == "images" else m
            rows = f"{count:,} {parsed.rows}"
            names = f"; {names_file(path)} names them"
        else:
            write_parquet(vectors, path, progress)
            rows = f"{n:,} images and {m:,} captions"
            names = ""
    say(console, f"{path}: {rows} of {vectors.run}, {parsed.split}, {size:,} numbers each{names}")
