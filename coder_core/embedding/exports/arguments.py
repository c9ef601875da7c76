"""Flags of the exports."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from coder_core.config.split_name import SplitName


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
    """The analysed split, whose metrics the model card reports; coder-lab evaluate analyses others."""
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
    device: str = "auto"  # Where scores are computed for triplets: auto, cpu or cuda. The result is the same.
    seed: int = 0  # Seed of the random choice of negatives within --ranks.
    reviews: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Verdicts on pairs: triplets leave out pairs judged wrong, and negatives that also match."""
