"""Make a run from any model: embed pictures with a pretrained model, or import existing embeddings.

python -m coder_core.embed pictures DATA --model NAME_OR_FOLDER --split dev --name NAME
python -m coder_core.embed import --images I.npy --texts T.npy --captions C.txt --name NAME
python -m coder_core.embed import FOLDER_OF_CLIP_RETRIEVAL --name NAME
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

from coder_core.config.setting import spelt_as_flag
from coder_core.config.split_name import SplitName
from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.progress import silent, watching
from coder_core.console.runner import asks_for_help, command, run_subcommand
from coder_core.console.tables import metrics_table
from coder_core.embedding.arguments import TowerArguments

PROGRAM = "python -m coder_core.embed"
USAGE = f"""usage: {PROGRAM} pictures DATA --model NAME_OR_FOLDER --name NAME
       {PROGRAM} import --images I.npy --texts T.npy --captions C.txt --name NAME
       {PROGRAM} import TABLE.parquet --name NAME
       {PROGRAM} import FOLDER_OF_CLIP_RETRIEVAL --name NAME
       {PROGRAM} pictures --help
       {PROGRAM} import --help
       {PROGRAM} import TABLE.parquet --help"""
FILES = ("--images", "--texts", "--captions")
COLUMNS = ("image_embeddings", "text_embeddings", "image_column", "caption_column")
Arguments = TypeVar("Arguments")


@dataclass(frozen=True)
class EmbedArguments:
    """Turn any model's embeddings (CLIP, SigLIP, a colleague's) into a run that the app opens beside others.

    Diversity, similarity, joint space, clusters and retrieval work on it, also with texts whose embeddings are
    imported too (--queries). Features that need a CODER model (other free text, training curves, concepts) are
    unavailable. Rows are divided by their length, so scores are cosines. To import one table with everything, or a
    folder of clip-retrieval, name it instead of the three files (import TABLE.parquet --help).
    """

    images: Path
    """Image embeddings, (n, D) floats: .npy, .npz, .safetensors, a faiss index (.faiss, .index), .parquet or .lance. If
    a file has several arrays, FILE:NAME picks one."""
    texts: Path  # Caption embeddings, (m, D) in the order of the captions, in any of these formats.
    captions: Path  # m captions, UTF-8, one per line. Without --ids every m / n of them belong to one image.
    name: str  # Name of a new run, or of an imported run to which to add the split.
    ids: Path | None = None
    """One id per line: one for each image (they name the pictures) or each caption (equal ids are one image)."""
    pictures: Path | None = None  # Folder of the picture files that the ids name, for the app to show.
    queries: Path | None = None
    """Embeddings of texts that are not captions: .npy of (q, D). Retrieval offers them as queries. With --query-texts."""
    query_texts: Path | None = None  # The q texts of --queries, UTF-8, one per line, all different.
    split: SplitName = "dev"  # Name of the split; runs are compared on splits of the same name.
    root: Path = Path("checkpoints")  # Folder of the runs.
    overwrite: bool = False  # Replace the split if the run already has it.


@dataclass(frozen=True)
class FolderArguments:
    """Make a run from a Parquet table with columns of image embeddings, text embeddings, captions and pictures, or from
    a folder that clip-retrieval's inference wrote: img_emb, text_emb and metadata. Rows with the same picture
    (image_path) are one image with several captions."""

    folder: tyro.conf.Positional[Path]  # The table or folder.
    name: str  # Name of a new run, or of an imported run to which to add the split.
    pictures: Path | None = None
    """Folder that the image paths are relative to; not needed if they are absolute."""
    image_embeddings: str = ""
    """Column of a table; empty: guessed from titles and types, with a note. The next three flags work the same way."""
    text_embeddings: str = ""  # Column of a table.
    image_column: str = ""  # Column of a table with the picture files.
    caption_column: str = ""  # Column of a table.
    split: SplitName = "dev"  # Name of the split; runs are compared on splits of the same name.
    root: Path = Path("checkpoints")  # Folder of the runs.
    overwrite: bool = False  # Replace the split if the run already has it.


@dataclass(frozen=True)
class PicturesArguments:
    """Embed pictures and captions with a pretrained dual encoder (CLIP, SigLIP, SigLIP 2) as a run for the app.

    DATA is a folder of pictures with captions in any layout of docs/data.md, section 9. Zero-shot metrics, diversity,
    similarity, joint space and clusters work on the run, and retrieval with new texts and pictures, through the same
    model. Weights are read from safetensors only; nothing is downloaded. To continue a killed command, repeat
    it. torchrun --nproc-per-node 8 -m coder_core.embed pictures … shares the work.
    """

    data: tyro.conf.Positional[Path]  # Folder or file of pictures with captions; "demo" is the built-in data.
    name: str  # Name of a new run, or of a run of the same model to which to add the split.
    towers: Annotated[TowerArguments, tyro.conf.arg(name="")] = field(default_factory=TowerArguments)
    prompt: str = "{}"  # Prompt for the text tower; the caption replaces {}.
    split: SplitName = "dev"  # The split to embed.
    root: Path = Path("checkpoints")  # Folder of the runs.
    overwrite: bool = False  # Replace the split if the run already has it.


@command
def main(arguments: list[str]) -> int:
    """Embed pictures, or import embeddings, as a run. Return 2 for any other command."""
    return run_subcommand(arguments, {"pictures": _embed_pictures, "import": _import}, USAGE)


def _parse(kind: type[Arguments], name: str, arguments: list[str], required: str) -> Arguments:
    """Parse the arguments of a command. Its help begins with the required flags, which tyro does not name there."""
    if asks_for_help(arguments):
        name = f"{name} {required}"
        arguments = ["--help"]
    return tyro.cli(kind, prog=f"{PROGRAM} {name}", args=arguments)


def _import(arguments: list[str]) -> int:
    of_files = any(word.startswith(FILES) for word in arguments) or arguments[:1] in ([], ["--help"], ["-h"])
    kind: type[EmbedArguments | FolderArguments] = EmbedArguments if of_files else FolderArguments
    required = "--images I.npy --texts T.npy --captions C.txt --name NAME" if of_files else "--name NAME"
    parsed = _parse(kind, "import", arguments, required)

    from coder_core.data.embeddings import read_clip_retrieval, read_embeddings
    from coder_core.embedding.tables import read_table
    from coder_core.runs.analysis.import_embeddings import (
        RANKED_PAIRS,
        import_folder,
        import_run,
        metric_warnings,
    )

    console = open_console()
    destination = (parsed.root, parsed.name, parsed.split)
    import_folder(*destination, overwrite=parsed.overwrite)  # before the files are read
    if isinstance(parsed, FolderArguments):
        columns = {name: getattr(parsed, name) for name in COLUMNS}
        if parsed.folder.suffix.lower() == ".parquet":
            embeddings = read_table(parsed.folder, **columns, pictures=parsed.pictures)
        else:
            problem = f"is given, but {parsed.folder} is not a Parquet table"
            flags = [spelt_as_flag(name) for name, title in columns.items() if title]
            stop_on_errors(Fault(flag, problem, fix="leave it out") for flag in flags)
            embeddings = read_clip_retrieval(parsed.folder, pictures=parsed.pictures)
    else:
        optional = {name: getattr(parsed, name) for name in ("ids", "pictures", "queries", "query_texts")}
        embeddings = read_embeddings(parsed.images, parsed.texts, parsed.captions, **optional)
    print_faults(console, embeddings.faults)
    folder, metrics = import_run(
        embeddings, *destination, overwrite=parsed.overwrite, most_pairs=RANKED_PAIRS
    )
    print_faults(console, metric_warnings(embeddings, metrics))
    n = len(embeddings.images)
    m = len(embeddings.texts)
    width = embeddings.images.shape[1]
    saved = f", {len(embeddings.query_texts):,} saved queries" if embeddings.query_texts else ""
    say(console, f"{n:,} images and {m:,} captions, {width:,} numbers each{saved}: {folder}")
    if metrics:
        console.print(metrics_table({parsed.name: metrics}, f"{parsed.split} · pessimistic ties"))
    else:
        command_line = f"python -m coder_core.evaluate {folder} --split {parsed.split}"
        say(
            console,
            f"not ranked yet, as {n * m:,} pairs take long. The app shows the split after {command_line}",
        )
    return 0


def _embed_pictures(arguments: list[str]) -> int:
    parsed = _parse(PicturesArguments, "pictures", arguments, "--model NAME_OR_FOLDER --name NAME")
    stop_on_errors(parsed.towers.faults())

    from coder_core.embedding.embed import embed_split
    from coder_core.model.device import choose_device
    from coder_core.model.towers.dual_encoder import DualEncoder, Towers
    from coder_core.model.towers.own import OwnTowers
    from coder_core.ops import parallel
    from coder_core.runs.analysis.import_embeddings import import_folder

    console = open_console()
    import_folder(parsed.root, parsed.name, parsed.split, overwrite=parsed.overwrite)
    flags = parsed.towers
    data = flags.read_pictures(parsed.data, [parsed.split])
    split = data.split(parsed.split)
    device = choose_device(flags.device)
    try:
        parallel.start(device)
        notes = stop_on_errors(data.faults)
        if parallel.rank() == 0:
            print_faults(console, notes)
        if flags.tower:
            towers: Towers = OwnTowers(flags.tower, prompt=parsed.prompt)
        else:
            precision = flags.precision
            towers = DualEncoder(flags.choice(), device=device, prompt=parsed.prompt, precision=precision)
            notes = [*notes, *towers.notes]
            if parallel.rank() == 0:
                print_faults(console, towers.notes)
        with watching(console, rate=True) as progress:
            result = embed_split(
                split,
                towers,
                parsed.root,
                parsed.name,
                parsed.split,
                batch_size=flags.batch_size,
                workers=flags.decoders(device.type),
                skip_broken=flags.reading.skip_broken,
                overwrite=parsed.overwrite,
                notes=notes,
                progress=progress if parallel.rank() == 0 else silent,
                tell=partial(say, console),
            )
    finally:
        parallel.finish()
    if result is not None:
        folder, metrics, faults = result
        print_faults(console, faults[len(notes) :])
        facts = towers.about
        revision = f" at {str(facts['revision'])[:12]}" if facts.get("revision") else ""
        model = facts.get("model") or facts.get("tower")
        say(console, f"{folder}: embedded with {model}{revision}, prompt {facts['prompt']!r}")
        console.print(metrics_table({parsed.name: metrics}, f"{parsed.split} · zero-shot · pessimistic ties"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
