"""python -m coder_core.export RUN --to faiss FILE | parquet DIR | huggingface DIR | triplets DIR: for other tools."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from coder_core.config.split_name import SplitName
from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.plain_files import check_file, check_folder
from coder_core.console.progress import watching
from coder_core.console.runner import command
from coder_core.files.atomic import existing_outputs

MOST_RANKS = 1_000  # largest rank of negatives
PROGRAM = "python -m coder_core.export"
USED_BY = dict.fromkeys(("form", "negatives", "ranks", "margin", "seed", "reviews"), "triplets")
USED_BY |= {"rows": "faiss"}


@dataclass(frozen=True)
class ExportArguments:
    """Write a run's embeddings of a split, its tuned model, or training data, as files that other programs open.

    The vectors are unit rows whose inner products are the scores by which the app ranks; with a concept branch they
    contain both branches. Every run trained, embedded or imported here has them, except models that score pair by pair.
    Nothing is overwritten.

    --to faiss FILE      one exact inner-product index of the images or, with --rows captions, of the captions. Row i is
                         sample i of the split; FILE.json names the rows. faiss.read_index(FILE) opens it.
    --to parquet DIR     DIR/images.parquet and DIR/captions.parquet with ids, captions, file names, split, and float32
                         lists of fixed size, for LanceDB, Qdrant, DuckDB and pandas.
    --to huggingface DIR the model of a run with two transformers towers, from one dual encoder or two models, in
                         their own space (--projection none): weights with the adapters merged, processor, tokenizer
                         and a model card. Plain transformers loads it and computes the run's embeddings.
    --to triplets DIR    every pair with hard negatives, DIR/text_to_image and DIR/image_to_text, drawn from the run's
                         high ranks. Near-duplicates, pairs reviewed as matches and likely matches (guessed from the
                         captions) are not used. Export a split to train on, not one to report results on.
    """

    run: tyro.conf.Positional[Path]  # The run folder.
    to: tuple[Literal["faiss", "parquet", "huggingface", "triplets"], Path]  # Choose the export and its path.
    split: SplitName = "dev"
    """The analysed split, whose metrics the model card reports; coder_core.evaluate analyses others."""
    rows: Literal["images", "captions"] = "images"  # Rows of a faiss index: images or captions.
    form: Literal["parquet", "jsonl", "open_clip"] = "parquet"
    """Form of triplets: Parquet or JSON lines with anchor, positive, negative_1 … (sentence-transformers), or tables
    separated by tabs with filepath, title … (open_clip). Images are paths of files, or names if the run has no folder of
    pictures, with a warning."""
    negatives: int = 5  # Negatives per pair; pairs with fewer are left out.
    ranks: tuple[int, int] = (1, 50)
    """First and last rank of negatives among the candidates of other images; 1 is the hardest."""
    margin: float | None = None
    """Use only negatives that score at least this much below the positive; by default they may score above it."""
    seed: int = 0  # Seed of the random choice of negatives within --ranks.
    reviews: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Verdicts on pairs: triplets leave out pairs judged wrong, and negatives that also match."""


@command
def main(arguments: list[str]) -> int:
    """Write the files."""
    parsed = tyro.cli(ExportArguments, prog=PROGRAM, args=arguments)
    kind, path = parsed.to
    stop_on_errors([*_faults(kind, path), *_mining_faults(parsed)])

    console = open_console()
    if kind == "triplets":
        from coder_core.data.reviews import Reviews, read_reviews
        from coder_core.embedding.exports.triplets import Mining, write_triplets

        reviews = Reviews() if parsed.reviews is None else read_reviews(parsed.reviews)
        print_faults(console, reviews.faults)
        mining = Mining(parsed.negatives, parsed.ranks, parsed.margin, parsed.seed)
        with watching(console, f"writing {path}") as progress:
            report = write_triplets(parsed.run, parsed.split, path, parsed.form, mining, reviews, progress)
        if not report["picture files"]:
            fix = "evaluate the run, or import its embeddings, with --pictures FOLDER, and export it again"
            fact = "names images, because the run has no folder of pictures"
            print_faults(console, [Fault(f"--to triplets {path}", fact, "paths of files", fix, "warning")])
        for name, numbers in [*report["rows"].items(), ("left out", report["left out as negatives"])]:
            facts = ", ".join(f"{count:,} {fact}" for fact, count in numbers.items())
            say(console, f"{path}, {name}: {facts}")
        return 0
    if kind == "huggingface":
        from coder_core.embedding.exports.huggingface import write_huggingface

        write_huggingface(parsed.run, path, parsed.split)
        say(console, f"{path}: the model of {parsed.run}; AutoModel.from_pretrained opens it")
        return 0

    from coder_core.embedding.exports.vectors import names_file, read_vectors, write_faiss, write_parquet

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
