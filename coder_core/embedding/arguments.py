"""Flags of the commands that embed pictures, import embeddings and extract features."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from coder_core.config.data import ReadingArguments
from coder_core.config.split_name import SplitName
from coder_core.console.faults import Fault


@dataclass(frozen=True)
class TowerArguments:
    """Choice of the pretrained tower, the pictures, and the settings."""

    model: str = ""
    """Folder of a transformers model, or the name of a downloaded one, for example google/siglip2-base-patch16-224; or a
    checkpoint of another trainer (docs/data.md, section 10). Required, unless --tower is given."""
    base: str = ""
    """Model whose configuration, image processor and tokenizer belong to a --model that lacks them: a .pt, an adapter."""
    tower: str = ""
    """Instead of --model: package.module:function, which returns your own towers (docs/training.md)."""
    revision: str = ""  # Branch, tag or commit of a downloaded model.
    pictures: Path | None = None  # Folder of the picture files, if it is not beside the captions.
    reading: Annotated[ReadingArguments, tyro.conf.arg(name="")] = field(default_factory=ReadingArguments)
    batch_size: int = 256
    """Pictures or captions that a GPU encodes at once. The CPU always encodes 32, so results do not depend on it."""
    workers: int = -1
    """Processes that decode pictures ahead of the model; −1 chooses a number, 0 decodes in this process."""
    device: str = "auto"  # One of "auto", "cpu", "cuda".
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Precision of matrix products on a GPU (autocast); the CPU computes in float32."""

    def faults(self) -> list[Fault]:
        """List the flags that cannot be combined or are out of range."""
        faults = []
        if bool(self.model) == bool(self.tower):
            problem = "are both given" if self.model else "are missing"
            fix = "for example --model google/siglip2-base-patch16-224"
            faults.append(Fault("--model and --tower", problem, "one of them", fix))
        if self.batch_size < 1 or self.workers < -1:
            problem = f"are {self.batch_size} and {self.workers}"
            faults.append(Fault("--batch-size and --workers", problem, "1 or more, and −1 or more"))
        return faults


@dataclass(frozen=True)
class SplitArguments:
    """The run and the split that a command writes."""

    name: str  # Name of a new run, or of a run of the same model to which to add the split.
    split: SplitName = "dev"
    """Name of the split in the data and in the run; runs are compared on splits of the same name."""
    rank: str = "auto"
    """Queries of each direction to rank against all candidates: auto (all of a split of up to 10,000,000,000 pairs of
    images and captions, a random 10,000 of a larger one), all, or a number; 0 ranks only the queries opened in the app."""
    root: Path = Path("checkpoints")  # Folder of the runs.
    overwrite: bool = False  # Replace the split if the run already has it.


@dataclass(frozen=True)
class ImportArguments(SplitArguments):
    """The run and the split that an import writes, and what belongs to its images."""

    pictures: Path | None = None
    """Folder of the picture files, for the app to show; not needed if the names of the pictures are absolute paths."""
    groups: Path | None = None
    """Groups of images that show the same thing, such as a product: lines of a picture's name, a tab and an id. Their
    captions then also count as right by group. With --images, needs --ids."""
    columns: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Table with further facts, such as brand and price, joined by the column with names of pictures or ids of captions
    (docs/data.md, section 14)."""
    device: str = "auto"  # Where scores are computed: auto, cpu or cuda. Ranks are the same.


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
    target: Annotated[ImportArguments, tyro.conf.arg(name="")]
    ids: Path | None = None
    """One id per line: one for each image (they name the pictures) or each caption (equal ids are one image)."""
    qrels: Path | None = None
    """Makes the split a search log: --captions are its queries, lines of an id, a tab and a text in the order of --texts,
    and this file has graded judgments of pictures, as TREC (query 0 picture grade) or BEIR; needs --ids."""
    queries: Path | None = None
    """Embeddings of texts that are not captions: .npy of (q, D). Retrieval offers them as queries. With --query-texts."""
    query_texts: Path | None = None  # The q texts of --queries, UTF-8, one per line, all different.


@dataclass(frozen=True)
class FolderArguments:
    """Make a run from a Parquet table with columns of image embeddings, text embeddings, captions and pictures, or from
    a folder that clip-retrieval's inference wrote: img_emb, text_emb and metadata. Rows with the same picture
    (image_path) are one image with several captions."""

    folder: tyro.conf.Positional[Path]  # The table or folder.
    target: Annotated[ImportArguments, tyro.conf.arg(name="")]
    image_embeddings: str = ""
    """Column of a table; empty: guessed from titles and types, with a note. The next three flags work the same way."""
    text_embeddings: str = ""  # Column of a table.
    image_column: str = ""  # Column of a table with the picture files.
    caption_column: str = ""  # Column of a table.
    group_column: str = ""
    """Column of a table whose equal values mark images that show the same thing: product_id."""


@dataclass(frozen=True)
class ListsArguments:
    """Open the results of another system, such as a reranker, beside a run: lists, ranks, metrics, fixed and broken
    queries, without embeddings.

    The lists are a TREC run file: lines of query Q0 document rank score tag, ids as evaluate --run-out writes them (y.jpg,
    x.jpg#2, or the ids of a search log). Pictures, captions, groups, columns and judgments are those of the run named by
    --like. A right answer that a list does not contain is a miss at any K and has no rank.
    """

    run: Annotated[Path, tyro.conf.arg(metavar="FILE")]  # The run file.
    like: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """Run folder with the same split, for example checkpoints/clip; evaluate it on the split first."""
    split: SplitName  # The split that the lists are about.
    name: str  # Name of a new run, or of a run of the same system to which to add the split.
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
    target: Annotated[SplitArguments, tyro.conf.arg(name="")]
    towers: Annotated[TowerArguments, tyro.conf.arg(name="")] = field(default_factory=TowerArguments)
    prompt: str = "{}"  # Prompt for the text tower; the caption replaces {}.
    queries: Path | None = None
    """A search log instead of captions, with --qrels: lines of an id, a tab and the text of a query; or BEIR's JSON lines.
    Name the result with --split, for example log."""
    qrels: Path | None = None
    """Graded judgments of pictures for these queries: TREC (query 0 picture grade) or BEIR (query-id, corpus-id, score).
    Right from grade 1. nDCG@10 leads; queries without a judgment are listed, not counted."""
    pool: str = ""  # Split of DATA whose pictures are ranked for --queries; empty: those of all splits.


@dataclass(frozen=True)
class FeaturesArguments:
    """Compute region features of pictures with a pretrained tower, in the layout that every preset trains on.

    Writes {split}_ims.npy (images, regions, size) float16, {split}_caps.txt, {split}_ids.txt and {split}_boxes.npy:
    left, top, right, bottom of every region as shares of its picture's sides. The regions are the tower's patch tokens
    or feature-map cells, pooled to a grid. Prints the disk space needed and stops if there is too little. To
    continue a killed command, repeat it.
    """

    data: tyro.conf.Positional[Path]
    """Folder or file of pictures with captions (docs/data.md, section 9); "demo" is the built-in data."""
    out: Path  # Folder of the features.
    towers: Annotated[TowerArguments, tyro.conf.arg(name="")] = field(default_factory=TowerArguments)
    grid: int = 7  # Cells per side after averaging: 7 gives 49 regions; 0 keeps all of the tower's.
    splits: tuple[str, ...] = ()  # Splits to write; all if empty.
