"""A training batch of 128 × 36 × 2048 from a memory-mapped file, against one copy of the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from benchmarks.flickr_sized import FEATURES, REGIONS
from benchmarks.timing import Line, at_most, in_turn
from coder_core.data.batches import TrainingBatches
from coder_core.data.dataset import read_split
from coder_core.data.words import Vocabulary

BATCH = 128
BAR = 1.25


def lines(folder: Path, rounds: int) -> list[Line]:
    """A whole batch (regions checked for zeros, words padded) ÷ its images copied by index_select."""
    split = read_split(folder, "train")
    tokens = Vocabulary.build(split.captions, threshold=1).encode(split.captions)
    batches = TrainingBatches(split, tokens, batch_size=BATCH, seed=0)
    images = torch.from_numpy(np.lib.format.open_memmap(folder / "train_ims.npy", mode="c")).flatten(1)
    wanted = [batches(turn).image_ids for turn in range(batches.per_epoch)]
    programs = {
        "batch": lambda turn: batches(turn % batches.per_epoch),
        "copy": lambda turn: images.index_select(0, wanted[turn % batches.per_epoch]),
    }
    taken = in_turn(programs, rounds)
    name = f"batch of {BATCH} × {REGIONS} × {FEATURES} from a mapped file ÷ one copy"
    return [at_most(name, BAR, taken["batch"], taken["copy"])]
