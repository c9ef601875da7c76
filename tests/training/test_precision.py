"""Passes without gradients in bfloat16: only if requested or known to be faster, close to float32; no other passes."""

import copy
import itertools
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

from coder_core.config.training import TrainingConfig
from coder_core.model.device import (
    multiplies_bfloat16,
    no_grad_autocast,
    no_grad_precision,
    product_library,
    use_onednn,
)
from coder_core.model.encoders.local import GeneralisedPooling, RegionEncoder
from coder_core.model.encoders.recurrent import RecurrentWords, word_vectors
from coder_core.training.prepare import make_boosting, prepare
from tests.support.steps import compute_losses, take, with_memory
from tests.support.tiny_runs import STILL, tiny_config

boosted = partial(tiny_config, part="boosting")

CPU = torch.device("cpu")
MEAN = {"image_layers": 0, "image_pooling": "mean", "text_pooling": "mean"}
MODELS = [{}, {"text_layers": 1, "word_dropout": 0.2}, MEAN, {"region_norm": "rms"}]


def in_bfloat16():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_the_twin_has_its_own_precision_or_that_of_the_step():
    """The twin's default is bfloat16 only if that is known to be faster."""
    torch.backends.mkldnn.matmul.fp32_precision = "none"  # tests/conftest.py restores it after this file
    assert no_grad_precision(TrainingConfig(), CPU) == "float32"
    use_onednn()
    faster = product_library() == "oneDNN" and multiplies_bfloat16()
    for step, twin in itertools.product(("auto", "float32", "bfloat16"), repeat=2):
        expected = step if twin == "auto" else twin
        if expected == "auto":
            expected = "bfloat16" if faster else "float32"
        assert no_grad_precision(TrainingConfig(precision=step, twin_precision=twin), CPU) == expected


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="what the processor can is read on Linux here")
def test_bfloat16_support_of_the_processor_is_detected():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.startswith(("flags", "Feat")))
    assert multiplies_bfloat16() == bool({"avx512_bf16", "amx_bf16"} & set(flags.split()))


@pytest.mark.parametrize("around", [nullcontext, in_bfloat16])
def test_no_grad_autocast_overrides_any_surrounding_autocast(around):
    a = torch.randn(3, 4)
    b = torch.randn(4, 5)
    with around():
        before = (a @ b).dtype
        with no_grad_autocast("float32", CPU):
            assert (a @ b).dtype == torch.float32
        with no_grad_autocast("bfloat16", CPU):
            assert (a @ b).dtype == torch.bfloat16
        assert (a @ b).dtype == before


@pytest.mark.parametrize("values", MODELS)
def test_bfloat16_keys_are_close_unit_vectors_and_nothing_else_is_rounded(data, values):
    """In-batch losses, twin and, with an empty bank, gradients are the same to the last bit."""
    keys = []
    unrounded = []
    for precision in ("float32", "bfloat16"):
        config = tiny_config(data, **STILL | {"bank_size": 16, "twin_precision": precision} | values)
        prepared, memory = with_memory(config)
        torch.manual_seed(3)  # the seed of dropout
        losses = compute_losses(prepared.model, prepared.batches(0), config, [memory], epoch=5.0)
        losses.total.backward()
        keys.append(memory._pending[:2])
        gradients = [parameter.grad for parameter in prepared.model.parameters()]
        unrounded.append([losses.total, *memory.twin.parameters(), *gradients])
    for exact, rough in zip(*keys, strict=True):
        assert rough.dtype == torch.float32
        torch.testing.assert_close(rough.norm(dim=1), torch.ones(len(rough)))
        assert (exact * rough).sum(1).min() > 0.999
        assert not torch.equal(exact, rough)
    for exact, actual in zip(*unrounded, strict=True):
        assert actual.dtype == torch.float32
        assert torch.equal(exact, actual)


@pytest.mark.parametrize("values", [{}, {"embeddings": 3}, {"scorer": "interaction"}])
def test_a_teacher_in_bfloat16_sets_nearly_the_same_margins(data, values):
    results = []
    for precision in ("float32", "bfloat16"):
        config = boosted(data, dropout=False, twin_precision=precision, **values)
        prepared = prepare(config)
        losses = take(prepared, make_boosting(config, prepared), config, prepared.batches(0))
        results.append(losses.total.item())
    assert results[0] == pytest.approx(results[1], rel=0.02)
    assert results[0] != results[1]


@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 2])
def test_a_gru_without_gradients_multiplies_in_bfloat16_and_adds_in_float32(layers):
    torch.manual_seed(0)
    encoder = RecurrentWords(word_vectors(50, 20), 32, layers=layers)
    lengths = torch.tensor([7, 1, 4, 12, 9])
    words = torch.randint(2, 50, (5, 12)).masked_fill(torch.arange(12) >= lengths[:, None], 0)
    exact = encoder(words, lengths)
    with in_bfloat16():
        rough = encoder(words, lengths)
    assert rough.dtype == torch.float32
    assert not torch.equal(exact, rough)
    assert (exact - rough).abs().max() < 2**-7  # states are below 1; a factor is off by at most 2^-9
    assert rough.masked_select((torch.arange(12) >= lengths[:, None])[..., None]).count_nonzero() == 0


def test_a_gru_with_gradients_stays_float32_under_autocast():
    torch.manual_seed(0)
    encoder = RecurrentWords(word_vectors(50, 20), 32)
    words = torch.randint(2, 50, (3, 6))
    lengths = torch.tensor([6, 2, 4])
    words = words.masked_fill(torch.arange(6) >= lengths[:, None], 0)
    results = []
    for around in (nullcontext(), in_bfloat16()):
        encoder.zero_grad()
        with around:
            states = encoder(words, lengths)
        states.square().sum().backward()
        results.append([states.detach(), *(copy.deepcopy(p.grad) for p in encoder.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0)


def test_pooling_ranks_in_float32_and_regions_are_rounded_once():
    torch.manual_seed(0)
    pooling = GeneralisedPooling()
    lengths = torch.tensor([5, 3])
    features = torch.randn(2, 5, 6)
    with torch.no_grad(), in_bfloat16():
        assert torch.equal(pooling.weights(lengths, 5), pooling.weights(lengths, 5).float())
        rough = pooling(features.bfloat16(), lengths)

    assert rough.dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(rough, pooling(features.bfloat16().float(), lengths), atol=0, rtol=0)

    torch.manual_seed(0)
    encoder = RegionEncoder(24, 16)
    regions = torch.randn(4, 6, 24)
    exact = encoder(regions)
    with in_bfloat16():
        rough = encoder(regions)

    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), exact, atol=0.1, rtol=0.05)
    rough.float().sum().backward()
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
