"""Poolings against loops in float64: GPO, mean, max and PVSE's K embeddings; padding never leaks."""

import pytest
import torch
from torch import nn

from coder_core.model.encoders import local as pooling
from tests.reference import pooling as reference
from tests.reference.scorers import several

LENGTHS = torch.tensor([3, 1, 5, 3])


def random_features(*, longest=5, channels=6, dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(len(LENGTHS), longest, channels, generator=generator, dtype=dtype)


def gpo(code_size=8):
    torch.manual_seed(3)
    return pooling.GeneralisedPooling(code_size)


def pvse(channels=6):
    torch.manual_seed(0)
    module = pooling.PVSEPooling(pooling.MeanPooling(), channels, 3)
    for parameter in (module.norm.weight, module.norm.bias, module.residual.bias):
        nn.init.normal_(parameter)
    return module


EVERY = pytest.mark.parametrize("make", [gpo, pooling.MeanPooling, pooling.MaxPooling, pvse])


def weights_in_float64(pool, length):
    """Return one sample's rank weights from an ordinary float64 nn.GRU, without packing."""
    gru = nn.GRU(pool.code_size, pool.code_size, batch_first=True, bidirectional=True).double()
    gru.load_state_dict(pool.gru.state_dict())

    def recurrent(codes):
        with torch.no_grad():
            return gru(torch.tensor([codes], dtype=torch.float64))[0][0].tolist()

    score = pool.score.weight[0].tolist()
    return reference.rank_weights(length, pool.code_size, pooling.TEMPERATURE, recurrent, score)


def test_by_hand():
    """Channel (3, 7, 5) sorted is (7, 5, 3); with weights 0.5, 0.3, 0.2 it becomes 3.5 + 1.5 + 0.6 = 5.6. Of (1, 2),
    (3, -4) and padding the mean is (2, -1), the maximum (3, 2)."""
    assert reference.pooled([[3.0], [7.0], [5.0]], [0.5, 0.3, 0.2]) == [pytest.approx(5.6)]
    features = torch.tensor([[[1.0, 2.0], [3.0, -4.0], [50.0, 50.0]]])
    assert pooling.MeanPooling()(features, torch.tensor([2])).tolist() == [[2.0, -1.0]]
    assert pooling.MaxPooling()(features, torch.tensor([2])).tolist() == [[3.0, 2.0]]
    assert pooling.KeepAll()(features, torch.tensor([2])) is features


def test_gpo_matches_a_loop_and_its_weights_depend_only_on_length():
    expected = torch.tensor([reference.position_code(position, 32) for position in range(40)])
    torch.testing.assert_close(pooling.position_codes(40, 32), expected, atol=1e-5, rtol=0)
    pool = gpo()
    features = random_features()
    actual = pool(features, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        expected = reference.pooled(features[row, :length].tolist(), weights_in_float64(pool, length))
        assert actual[row].tolist() == pytest.approx(expected, abs=1e-5)

    one = random_features(longest=1)
    torch.testing.assert_close(pool(one, torch.ones(4, dtype=torch.long)), one[:, 0])
    # The loop's weights with the paper's sizes, on 36 regions, too
    pool = gpo()
    among = pool.weights(LENGTHS, 7)
    torch.testing.assert_close(among[0, :3], pool.weights(LENGTHS[:1], 3)[0])
    assert torch.equal(among[0], among[3])
    assert among.sum(1).tolist() == pytest.approx([1.0] * 4)
    assert not among[torch.arange(7) >= LENGTHS[:, None]].any()
    pool = gpo(32)
    large = pool.weights(torch.tensor([36]), 36)[0]
    assert large.tolist() == pytest.approx(weights_in_float64(pool, 36), abs=1e-5)


def test_pvse_matches_loops_and_its_weights_sum_to_one():
    pool = pvse().double()
    features = random_features(dtype=torch.float64)
    embeddings = pool(features, LENGTHS)
    weights = pool.attention(features, LENGTHS)
    layers = (pool.hidden.weight, pool.heads.weight, pool.residual.weight, pool.residual.bias)
    parameters = [parameter.tolist() for parameter in (*layers, pool.norm.weight, pool.norm.bias)]
    for row, length in enumerate(LENGTHS.tolist()):
        existing = features[row, :length]
        expected = several(existing.tolist(), existing.mean(0).tolist(), *parameters)
        torch.testing.assert_close(embeddings[row], torch.tensor(expected, dtype=torch.float64))
        torch.testing.assert_close(weights[row].sum(0), torch.ones(3, dtype=torch.float64))
        assert not weights[row, length:].any()


@EVERY
@pytest.mark.parametrize("garbage", [1e3, -1e3, 0.0])
def test_padding_of_any_length_never_leaks(make, garbage):
    """It changes no values, and padded positions get no gradient."""
    pool = make()
    clean = random_features().requires_grad_()
    beyond = (torch.arange(5) >= LENGTHS[:, None]).unsqueeze(-1)
    dirty = clean.detach().masked_fill(beyond, garbage).requires_grad_()
    assert torch.equal(pool(clean, LENGTHS), pool(dirty, LENGTHS))
    pool(dirty, LENGTHS).square().sum().backward()
    assert not dirty.grad.masked_select(beyond).any()
    assert dirty.grad.masked_select(~beyond).any()
    longer = torch.cat([clean, torch.full((4, 3, 6), garbage)], dim=1)
    torch.testing.assert_close(pool(longer, LENGTHS), pool(clean, LENGTHS))


@pytest.mark.parametrize(("longest", "channels"), [(36, 130), (300, 7), (1, 5)])
def test_gpo_equals_the_sum_over_pytorchs_sort_in_values_and_gradients(longest, channels):
    """In float64, by torch.sort along the positions. Half precision rounds only its inputs."""
    pool = gpo()
    generator = torch.Generator().manual_seed(6)
    features = torch.randn(33, longest, channels, generator=generator).requires_grad_()
    lengths = torch.randint(1, longest + 1, (33,), generator=generator)
    slope = torch.randn(33, channels, generator=generator)
    weights = pool.weights(lengths, longest).double().unsqueeze(1)
    beyond = (torch.arange(longest) >= lengths[:, None]).unsqueeze(-1)

    def by_sorting(rows):
        ranked = rows.double().masked_fill(beyond, -1e4).sort(dim=1, descending=True).values
        return (weights @ ranked).squeeze(1).float()

    actual = pool(features, lengths)
    expected = by_sorting(features)
    leaves = [features, *pool.parameters()]
    gradients, plain = (
        torch.autograd.grad((out * slope).sum(), leaves, retain_graph=True) for out in (actual, expected)
    )
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients, plain, atol=1e-3, rtol=1e-4)
    half = features.detach().bfloat16()
    torch.testing.assert_close(pool(half, lengths), by_sorting(half), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("second", [pooling.GeneralisedPooling, pooling.MaxPooling])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling_together_equals_pooling_separately(second, dtype):
    """Values, and the gradients of the features and of both poolings' weights."""
    torch.manual_seed(8)
    poolings = [kind().to(dtype) for kind in (pooling.GeneralisedPooling, second)]
    features = random_features(dtype=dtype).requires_grad_()
    leaves = [features, *(parameter for pooling in poolings for parameter in pooling.parameters())]
    slopes = torch.randn(2, len(LENGTHS), 6, dtype=dtype)

    def with_gradients(outs):
        total = sum((out * slope).sum() for out, slope in zip(outs, slopes, strict=True))
        return [*outs, *torch.autograd.grad(total, leaves)]

    actual = with_gradients(pooling.pool_each(poolings, features, LENGTHS))
    expected = with_gradients([pooling(features, LENGTHS) for pooling in poolings])
    assert not torch.allclose(expected[0], expected[1])
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


@EVERY
def test_gradients(make):
    """The GRU and the linear layer of GPO learn, too."""
    pool = make().double()
    features = random_features(dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda rows: pool(rows, LENGTHS[:2]), features[:2].requires_grad_())
    if make is gpo:
        pool = gpo(2).double()
        features = random_features(channels=2, dtype=torch.float64)
        names, weights = zip(*pool.named_parameters(), strict=True)

        def pooled(*moved):
            return torch.func.functional_call(pool, dict(zip(names, moved, strict=True)), (features, LENGTHS))

        assert torch.autograd.gradcheck(pooled, weights, fast_mode=True)
