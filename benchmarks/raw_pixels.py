"""From raw pixels to retrieval: a small image tower and the text encoder, both from random weights, on demo data.

    python -m benchmarks.raw_pixels --root FOLDER [any flag of python -m coder_core.train]

It trains on the demo's pictures, kills the training (kill -9) after half of its epochs, resumes it, and prints R@sum on
dev next to chance. The exit status is 1 below eight times chance. Rows of efficientnet_tower.toml use `GroupTower`.
"""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import nn

from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.record import HISTORY, read_history

TOWER = "benchmarks.raw_pixels:SmallTower"
SIDE = 64
CHANNELS = (3, 32, 64, 128)
RECIPE = (
    *("demo", "--data=demo", f"--image-tower={TOWER}", "--image-tuning=full"),
    *("--bank-size=0", "--epochs=20", "--save-every=5", "--workers=1"),
)
POLL = 0.2


class SmallTower:
    """Tower for `--image-tower`: three convolutions of stride 2, 64 × 64 pixels -> 16 local features of 128 numbers."""

    fingerprint = "benchmarks.raw_pixels, version 1"
    normalisation: Callable[[int], nn.Module] = nn.BatchNorm2d

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        for narrow, wide in itertools.pairwise(CHANNELS):
            layers += [nn.Conv2d(narrow, wide, 3, 2, 1, bias=False), self.normalisation(wide), nn.ReLU()]
        self.image_tower = nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(2), _CellsFirst())

    def prepare(self, picture: Image) -> np.ndarray:
        """Prepare a picture as (3, 64, 64) float32, from −1 to 1."""
        pixels = np.asarray(picture.resize((SIDE, SIDE)), dtype=np.float32)
        return (pixels / 127.5 - 1).transpose(2, 0, 1)


class GroupTower(SmallTower):
    """The same tower with group normalisation (8 groups), which gradient caching allows."""

    fingerprint = "benchmarks.raw_pixels, groups"
    normalisation = partial(nn.GroupNorm, 8)


class _CellsFirst(nn.Module):
    """Transposition (B, F, L) -> (B, L, F)."""

    def forward(self, cells: torch.Tensor) -> torch.Tensor:
        return cells.transpose(1, 2)


def chance(images: int, captions: int) -> float:
    """Return the expected R@sum of random scores, with `captions` captions per image."""
    total = 0.0
    for k in (1, 5, 10):
        free = images * captions - np.arange(min(k, images * captions))
        total += 1 - float(np.prod(np.clip(1 - captions / free, 0, 1))) + min(k, images) / images
    return 100 * total


def train(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `python -m coder_core.train`, allowing it to import the tower."""
    environment = os.environ | {"CODER_TOWERS": TOWER}
    return subprocess.Popen([sys.executable, "-m", "coder_core.train", *arguments], env=environment)


def events(run: Path, name: str) -> list[dict[str, Any]]:
    """Return the events of this name in a run's history."""
    history = run / HISTORY
    return [event for event in read_history(history) if event["event"] == name] if history.exists() else []


def kill_and_resume(run: Path, arguments: Sequence[str], after: int) -> None:
    """Train, kill -9 after `after` epochs, resume to the end. RuntimeError: the training ended early or failed."""
    first = train(arguments)
    while len(events(run, "epoch")) < after:
        if first.poll() is not None:
            raise RuntimeError(f"the training ended with {first.returncode} before it was killed")
        time.sleep(POLL)
    first.kill()
    first.wait()
    if train(["--resume", str(run)]).wait():
        raise RuntimeError("the training that was resumed failed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, kill, resume, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raw_pixels", description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--kill-after", type=int, default=10, help="epochs")
    parser.add_argument("--bar", type=float, default=8.0, help="times chance")
    parsed, flags = parser.parse_known_args(arguments)
    run = parsed.root / "raw-pixels"
    shutil.rmtree(run, ignore_errors=True)
    kill_and_resume(run, [*RECIPE, f"--root={parsed.root}", f"--name={run.name}", *flags], parsed.kill_after)
    analysis = open_analysis(run, "dev")
    images, captions = (len(analysis.array(f"{kind}_embeddings")) for kind in ("image", "text"))
    reached = float(analysis.metrics["rsum"])
    by_chance = chance(images, captions // images)
    print(f"killed and resumed at step {events(run, 'resume')[-1]['step']}")
    print(f"dev R@sum {reached:.1f} with {images} images and {captions} captions; chance is {by_chance:.1f}")
    return 0 if reached > parsed.bar * by_chance else 1


if __name__ == "__main__":
    sys.exit(main())
