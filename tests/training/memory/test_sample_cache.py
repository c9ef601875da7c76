"""The last embedding of every sample."""

from __future__ import annotations

import torch

from coder_core.training.memory.sample_cache import SampleCache


def test_an_image_that_stands_in_a_batch_twice_keeps_its_last_embedding() -> None:
    cache = SampleCache(images=3, texts=5, dimension=2)
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    texts = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.8, 0.6]])
    cache.write(images, texts, torch.tensor([2, 0, 2]), torch.tensor([4, 1, 3]))
    assert torch.equal(cache.images, torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.6, 0.8]]))
    assert torch.equal(cache.texts[[4, 1, 3]], texts)
    assert cache.known_images.tolist() == [True, False, True]
    assert cache.known_texts.tolist() == [False, True, False, True, True]


def test_a_later_batch_overwrites_and_carries_no_gradient() -> None:
    cache = SampleCache(images=1, texts=1, dimension=2)
    row = torch.tensor([0])
    for value in (1.0, 2.0):
        rows = torch.full((1, 2), value, requires_grad=True)
        cache.write(rows, -rows, row, row)
    assert cache.images.tolist() == [[2.0, 2.0]]
    assert cache.texts.tolist() == [[-2.0, -2.0]]
    assert not cache.images.requires_grad
