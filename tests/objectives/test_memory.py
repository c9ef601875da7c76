"""Momentum encoders against the formula; the ring of keys against a queue, for batches of any size."""

import copy
from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coder_core.objectives import memory
from coder_core.ops import EMPTY_ID


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.995, 1.0])
def test_a_momentum_update_averages_every_parameter(momentum):
    module = small()
    encoder = memory.momentum_encoder(module)
    before = copy.deepcopy(encoder.state_dict())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    memory.update_momentum(encoder, module, momentum)
    for name, parameter in module.named_parameters():
        expected = momentum * before[name] + (1 - momentum) * parameter
        torch.testing.assert_close(encoder.get_parameter(name), expected)


def test_the_momentum_encoder_is_a_copy_without_gradients():
    """Buffers are not averaged; its statistics train, and the module's parameters keep their gradient."""
    module = small().eval()
    encoder = memory.momentum_encoder(module)
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert all(part.training for part in encoder.modules())
    pairs = zip(encoder.parameters(), module.parameters(), strict=True)
    assert all(slow.data_ptr() != fast.data_ptr() and fast.requires_grad for slow, fast in pairs)
    module.train()
    for _ in range(3):
        module(torch.randn(8, 3))
    memory.update_momentum(encoder, module, 0.995)
    for name, buffer in module.named_buffers():
        assert torch.equal(encoder.get_buffer(name), buffer), name
    assert int(encoder.get_buffer("1.num_batches_tracked")) == 3
    for momentum in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="momentum"):
            memory.update_momentum(encoder, module, momentum)


def test_cosine_momentum_by_hand_and_the_share_of_the_start_it_leaves():
    """From 0.9 over four steps: 1 - 0.1 · (1 + cos(0, 45°, 90°, 135°)) / 2."""
    momenta = [memory.cosine_momentum(step, 4, 0.9) for step in range(4)]
    assert momenta == pytest.approx([0.9, 0.914645, 0.95, 0.985355], abs=1e-6)
    # 145,000 pairs in batches of 128 from 0.99995, the values of DBL. If a module starts at one and is zero
    # from then on, its encoder equals the share
    assert memory.share_of_start(40 * (145_000 // 128), 0.99995) == pytest.approx(0.32, abs=0.005)
    module = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(module.weight)
    encoder = memory.momentum_encoder(module)
    nn.init.zeros_(module.weight)
    for step in range(30):
        memory.update_momentum(encoder, module, memory.cosine_momentum(step, 30, 0.8))
    assert encoder.weight.item() == pytest.approx(memory.share_of_start(30, 0.8))
    for steps in (1, 3, 50, 1872, 45_000):
        start = memory.start_that_leaves(0.05, steps)
        assert memory.share_of_start(steps, start) <= 0.05
        assert steps <= 50 or memory.share_of_start(steps, start + 2 / steps) > 0.05


def entries_in_order(bank):
    """Return the filled slots, oldest first."""
    start = int(bank.position) if bank.count == bank.size else 0
    order = [(start + k) % bank.size for k in range(bank.count)]
    return [(bank.images[k].tolist(), bank.texts[k].tolist(), int(bank.image_ids[k])) for k in order]


def keys(first, count):
    """Return numbered keys: image key (i, 0), text key (i, 1), id i."""
    number = torch.arange(first, first + count, dtype=torch.float32)
    images = torch.stack([number, number * 0], 1)
    texts = torch.stack([number, number * 0 + 1], 1)
    return images, texts, torch.arange(first, first + count)


@settings(max_examples=40)
@given(size=st.integers(1, 9), batches=st.lists(st.integers(0, 25), max_size=12))
def test_batches_of_any_size_wrap_around_as_in_a_queue(size, batches):
    bank = memory.CoupledBank(size, 2)
    ring = deque(maxlen=size)
    seen = 0
    for count in batches:
        images, texts, ids = keys(seen, count)
        bank.enqueue(images, texts, ids)
        ring.extend(zip(images.tolist(), texts.tolist(), ids.tolist(), strict=True))
        seen += count
        assert entries_in_order(bank) == list(ring)
        assert bank.count == len(ring)
        assert bank.image_ids[bank.count :].tolist() == [EMPTY_ID] * (size - bank.count)


def test_bank_keys_have_no_gradient_and_come_in_equal_numbers():
    bank = memory.CoupledBank(4, 2)
    images, texts, ids = keys(0, 3)
    bank.enqueue(images.requires_grad_(), texts.requires_grad_(), ids)
    assert not bank.images.requires_grad
    assert list(bank.parameters()) == []
    with pytest.raises(ValueError, match=r"3 .*2 .*3"):
        bank.enqueue(images, texts[:2], ids)
    with pytest.raises(ValueError, match="0"):
        memory.CoupledBank(0, 2)
