"""Time and peak memory of scoring a split pair by pair, on random features shaped like Flickr30K's test split.

`python -m benchmarks.pair_scores [--scorer cosine --embeddings 4] [--dimension 1024] [--seconds 60]`. The peak
includes Python, torch and the mapped features.
"""

import resource
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from rich.console import Console

from benchmarks.synthetic import FEATURES, MEAN_WORDS, REGIONS, SHORTEST, VOCABULARY
from coder_core.config.model import ModelConfig
from coder_core.console.progress import watching
from coder_core.data.split import Split
from coder_core.data.words import Tokens
from coder_core.model.build import build_model
from coder_core.model.encode import score_pairs
from coder_core.model.products import use_onednn


@dataclass(frozen=True)
class PairScoresArguments:
    """Choose the split's size, the scorer as in training, and the threads of torch; 0 leaves its own choice."""

    images: int = 1000
    texts: int = 5000
    dimension: int = 1024
    scorer: Literal["cosine", "interaction"] = "interaction"
    embeddings: int = 1
    threads: int = 0
    seconds: float = 3600.0  # stop after this time and scale up the time of the pairs scored


class EnoughError(Exception):
    """Ends the measurement when the time is up."""


def random_split(folder: Path, images: int, texts: int) -> tuple[Split, Tokens]:
    """Features written a row at a time, so that making them leaves no trace in the memory measured."""
    random = np.random.default_rng(0)
    file = folder / "ims.dat"
    with file.open("wb") as out:
        for _ in range(images):
            random.random((REGIONS, FEATURES), dtype=np.float32).tofile(out)
    features = np.memmap(file, np.float32, "r", shape=(images, REGIONS, FEATURES))
    lengths = np.maximum(random.poisson(MEAN_WORDS, texts), SHORTEST)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    words = random.integers(1, VOCABULARY, offsets[-1]).astype(np.int32)
    owner = np.arange(texts) * images // texts
    return Split("random", features, [""] * texts, owner), Tokens(words, offsets)


def main(arguments: PairScoresArguments) -> None:
    """Measure and print."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    use_onednn()
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        split, tokens = random_split(Path(name), arguments.images, arguments.texts)
        config = replace(ModelConfig(scorer=arguments.scorer), dimension=arguments.dimension)
        config = replace(config, embeddings=arguments.embeddings)
        model = build_model(config, feature_size=FEATURES, words=VOCABULARY)
        began, processor = time.monotonic(), time.process_time()
        scored: list[float] = [0, 1]
        with watching(console, "scoring pairs") as tell:

            def watch(done: float, total: float, phase: str = "") -> None:
                tell(done, total)
                scored[:] = done, total
                if time.monotonic() - began > arguments.seconds:
                    raise EnoughError

            try:
                score_pairs(model, split, tokens, device=torch.device("cpu"), progress=watch)
            except EnoughError:
                console.print("stopped; the times are those of the part scored, scaled up")
    share = scored[0] / scored[1]
    wall, spent = (time.monotonic() - began) / share, (time.process_time() - processor) / share
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(
        f"{arguments.scorer}, K = {arguments.embeddings}, D = {arguments.dimension}: {scored[1]:,} pairs, {wall:.0f} s "
        f"({spent:.0f} s of processor, {torch.get_num_threads()} threads), peak memory {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main(tyro.cli(PairScoresArguments))
