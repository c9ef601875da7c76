"""A whole split through a model equals one sample at a time; modes and precision come back as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.config.model import ModelConfig
from coder_core.data.dataset import read_split
from coder_core.data.split import Split
from coder_core.data.words import Tokens, Vocabulary
from coder_core.model.build import build_model
from coder_core.model.coder import Coder
from coder_core.model.encode import IMAGES_AT_ONCE, TEXTS_AT_ONCE, autocast, encode_split, evaluating
from tests.support.precomp_folders import features, write_split

CPU = torch.device("cpu")


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """More images and captions than go through at once; one image has a region of zeros."""
    array = features(IMAGES_AT_ONCE + 3)
    array[5, 1] = 0
    words = ["red", "dog", "runs", "far", "box", "cat"]
    count = 2 * len(array) + TEXTS_AT_ONCE // len(array) * len(array)
    captions = [" ".join(words[k % 5] for k in range(row % 4 + 1)) for row in range(count)]
    return read_split(write_split(tmp_path, array=array, captions=captions), "train")


@pytest.fixture
def tokens(split: Split) -> Tokens:
    return Vocabulary.build(split.captions, threshold=1).encode(split.captions)


@pytest.fixture
def model() -> Coder:
    torch.manual_seed(0)
    config = ModelConfig(dimension=8, word_size=4, image_dropout=0.5, word_dropout=0.5, embedding_dropout=0.5)
    return build_model(config, feature_size=5, words=9)


def test_equals_one_sample_at_a_time(split: Split, tokens: Tokens, model: Coder) -> None:
    model.train()
    images, texts = encode_split(model, split, tokens, device=CPU)[:2]
    assert model.training
    assert (images.dtype, texts.dtype) == (np.float32, np.float32)
    assert (images.shape, texts.shape) == ((split.n_images, 8), (split.n_texts, 8))
    model.eval()
    with torch.no_grad():
        for i in (0, 5, IMAGES_AT_ONCE, split.n_images - 1):
            real = split.features[i][split.features[i].any(-1)]
            alone = model.encode_images(torch.from_numpy(real[None].copy()), torch.tensor([len(real)]))
            np.testing.assert_allclose(images[i], alone[0], atol=1e-6)
        for j in (0, 1, 7, split.n_texts - 1):
            words = torch.from_numpy(tokens.ids[tokens.offsets[j] : tokens.offsets[j + 1]][None]).long()
            alone = model.encode_texts(words, torch.tensor([words.shape[1]]))
            np.testing.assert_allclose(texts[j], alone[0], atol=1e-6)


def test_progress_counts_up_and_may_stop_it(split: Split, tokens: Tokens, model: Coder) -> None:
    seen: list[tuple[int, int]] = []
    encode_split(model, split, tokens, device=CPU, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (split.n_images + split.n_texts,) * 2

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    model.train()
    with pytest.raises(KeyboardInterrupt):
        encode_split(model, split, tokens, device=CPU, progress=stop)
    assert model.training
    assert torch.is_grad_enabled()


def test_evaluating_brings_the_mode_back(model: Coder) -> None:
    for mode in (True, False):
        model.train(mode)
        with evaluating(model):
            assert not model.training
            assert not torch.is_grad_enabled()
        assert model.training is mode


def test_autocast_is_for_gpus_unless_asked_for() -> None:
    for precision in ("auto", "float32"):
        with autocast(CPU, precision):
            assert not torch.is_autocast_enabled("cpu")
    with autocast(CPU, "bfloat16"):
        assert torch.is_autocast_enabled("cpu")


def test_bfloat16_comes_close_to_float32(split: Split, tokens: Tokens, model: Coder) -> None:
    exact = encode_split(model, split, tokens, device=CPU)[:2]
    rough = encode_split(model, split, tokens, device=CPU, precision="bfloat16")[:2]
    for rough_rows, exact_rows in zip(rough, exact, strict=True):
        assert rough_rows.dtype == np.float32
        assert (rough_rows * exact_rows).sum(1).min() > 0.99


def test_training_in_bfloat16_has_gradients(model: Coder) -> None:
    model.train()
    with autocast(CPU, "bfloat16"):
        images, texts = model(
            torch.rand(4, 3, 5),
            torch.tensor([3, 2, 3, 1]),
            torch.ones(4, 2).long(),
            torch.tensor([1, 2, 2, 1]),
        )[:2]
    assert images.dtype == texts.dtype == torch.float32
    (images - texts).square().sum().backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters()
    )


def test_one_vector_per_image(tmp_path: Path, model: Coder, tokens: Tokens) -> None:
    split = read_split(write_split(tmp_path / "flat", array=features(6)[:, 0]), "train")
    cut = replace(tokens, offsets=tokens.offsets[: split.n_texts + 1])
    images = encode_split(model, split, cut, device=CPU).images
    assert images.shape == (6, 8)
    assert np.linalg.norm(images, axis=1) == pytest.approx(1.0, abs=1e-5)
