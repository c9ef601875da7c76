"""Flags of the checks of a data set."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from coder_core.config.data import ReadingArguments


@dataclass(frozen=True)
class CheckDataArguments:
    """Read a data set exactly as training would: describe it, and report each fault, where it is and how to fix it.

    The exit status is 1 when training or evaluation would refuse the data, otherwise 0.

    PATH is a folder with {split}_ims.npy, {split}_caps.txt and perhaps {split}_ids.txt (f30k_precomp, coco_precomp); or
    its parent (f30k with f30k/precomp in it); or a folder with Karpathy's dataset_*.json and the features beside it, or
    that file itself; or "demo", the built-in data. Or PATH has pictures with captions and no features: Flickr's and
    COCO's own files, a table of any columns, a.jpg with a.txt, parquet, tar files. docs/data.md describes the formats.
    With --content it may be the folder of an evaluated run, to check the splits it was evaluated on and the others.
    """

    path: tyro.conf.Positional[Path]  # The data set.
    other: tyro.conf.Positional[Path | None] = None
    """Second run for --content, trained with --other-part on the images that the first one's --train-part
    left out, both evaluated on train. Lists the captions of train that may belong to another image; each run scores the
    pairs it did not see."""
    pictures: Path | None = None
    """Folder with the picture files, to check that all exist; images/ beside the data is found without it."""
    word_vectors: Path | None = None
    """Text file of word vectors (GloVe, word2vec or fastText), to check how many words it covers."""
    word_size: int = 300  # Size of word vectors in training; a file with another size is refused.
    word_threshold: int = 4
    """A word enters the vocabulary if it occurs in train captions at least this often."""
    batch_size: int = 128  # Pairs in a batch, for the memory estimate.
    reading: Annotated[ReadingArguments, tyro.conf.arg(name="")] = field(default_factory=ReadingArguments)
    values: bool = True
    """Read every feature value, to find NaN, Inf and zero rows, or decode every picture; --no-values reads only
    headers, names and captions."""
    content: bool = False
    """Also find broken, tiny and blank pictures, and near-duplicate pictures and captions within and across splits. The
    report is kept in $CODER_CACHE until the data changes."""
    device: str = "auto"
    """Where --content compares all pictures, and the pairs of two runs: auto, cpu or cuda. The result is the same, of two
    runs up to rounding."""
    progress: Path | None = None
    """Write the progress of --content into this file (JSON, replaced a few times a second)."""
    json: bool = False  # Print one JSON object instead of tables.
