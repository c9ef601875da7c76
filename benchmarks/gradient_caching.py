"""A step that encodes its batch in pieces (gradient caching) ÷ the step that encodes the whole batch at once.

Every piece is encoded a second time, and a forward pass is a third of a transformer's step. The bar is for both towers
of a CLIP (four layers of width 256, random weights), tuned in full.

`python -m benchmarks.gradient_caching --batch 512 --piece 64` prints the peak memory of one such step of f30k-bigru.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro

from benchmarks.synthetic import write_clip, write_features
from benchmarks.timing import DEVICE, Line, at_most, in_turn
from benchmarks.training import configuration, stepper
from coder_core.config.model import TowersConfig
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import ModelParts, build_model
from coder_core.model.device import autocast, peak_mebibytes, use_onednn
from coder_core.model.run_towers import open_towers
from coder_core.training.optim import make_optimizer
from coder_core.training.prepare import prepare
from coder_core.training.step import Objective

BAR = 1.45
PIECES = 4
# of the CLIP: pairs in a batch, pixels of a picture and of a patch, tokens, width
PAIRS = 64
SIZE = 112
PATCH = 16
WORDS = 24
WIDTH = 256


def tower_stepper(clip: Path, piece_size: int) -> Callable[[int], object]:
    """Return a step of both towers with InfoNCE, on one batch of noise."""
    config = PRESETS["f30k-bigru"].config
    config = replace(
        config,
        model=replace(config.model, dimension=WIDTH, image_pooling="tower", text_pooling="tower"),
        objective=replace(config.objective, loss="infonce"),
        memory=replace(config.memory, bank_size=0),
        training=replace(config.training, piece_size=piece_size),
        towers=TowersConfig(str(clip), str(clip), image_tuning="full", text_tuning="full", projection="none"),
    )
    model = build_model(config.model, ModelParts(0, 0, towers=open_towers(config))).train().to(DEVICE)
    optimizer = make_optimizer(dict(model.named_parameters()), config.training, DEVICE)
    words = torch.randint(2, 28, (PAIRS, WORDS))
    words[:, 0] = 0
    words[:, -1] = 1
    pixels = torch.randn(PAIRS, 3, SIZE, SIZE)
    patches = torch.full((PAIRS,), (SIZE // PATCH) ** 2)
    objective = Objective(config)
    ids = (torch.arange(PAIRS) for _ in range(3))
    batch = Batch(pixels, patches, words, torch.full((PAIRS,), WORDS), *ids).to(DEVICE)

    def step(_: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        cast = autocast(DEVICE, config.training.precision)
        objective.losses(model, batch, epoch=0, autocast=cast).total.backward()
        optimizer.step()

    return step


def in_pieces(folder: Path, batch: int, piece: int) -> Config:
    """Return f30k-bigru without batch normalisation, with this batch in pieces (0: at once)."""
    preset = configuration(folder, 0)
    model = replace(preset.model, image_layers=1)
    training = replace(preset.training, batch_size=batch)
    return replace(preset, model=model, training=replace(training, piece_size=piece))


def lines(folder: Path, rounds: int, warm_up: int = 2) -> list[Line]:
    """Measure the step in pieces ÷ the step on the whole batch."""
    shape = {"width": WIDTH, "layers": 4, "pixels": SIZE, "patch": PATCH, "embedding": WIDTH}
    clip = write_clip(folder / "clip", **shape, text_width=WIDTH, longest=77)
    steps = {"whole": tower_stepper(clip, 0), "pieces": tower_stepper(clip, PAIRS // PIECES)}
    taken = in_turn(steps, rounds, warm_up)
    name = f"towers, step in {PIECES} pieces of {PAIRS // PIECES} ÷ whole"
    return [at_most(name, BAR, taken["pieces"], taken["whole"], "whole")]


@dataclass(frozen=True)
class PeakArguments:
    """Peak memory of one step."""

    batch: int = 512  # pairs
    piece: int = 0  # pairs per piece; 0 encodes the whole batch at once


def main(arguments: PeakArguments) -> None:
    """Print the peak memory before the step (data, batch and model) and its increase by the step."""
    use_onednn()
    with tempfile.TemporaryDirectory() as name:
        write_features(Path(name))
        config = in_pieces(Path(name), arguments.batch, arguments.piece)
        prepared = prepare(config)
        step = stepper(prepared, config)
        batch = prepared.batches(0)
        before = peak_mebibytes(torch.device("cpu"))
        step(batch)
        added = peak_mebibytes(torch.device("cpu")) - before
    pieces = f"pieces of {arguments.piece or arguments.batch}"
    print(f"batch {arguments.batch}, {pieces}: {before:.0f} MiB + {added:.0f} MiB")


if __name__ == "__main__":
    main(tyro.cli(PeakArguments))
