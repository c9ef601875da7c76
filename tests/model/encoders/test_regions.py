"""Region features -> D features: the form of vse_infty, any depth, one vector per image; dropout by image."""

import pytest
import torch
from torch import nn

from coder_core.model.encoders.local import RegionBatchNorm, RegionEncoder


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_any_number_of_layers_works_and_two_match_the_formula(layers):
    """W x + b + W2 relu(bn(W1 x + b1)) + b2, batch statistics over all regions of the batch."""
    torch.manual_seed(0)
    encoder = RegionEncoder(6, 8, layers=layers).double()
    assert sum(isinstance(module, nn.Linear) for module in encoder.mlp) == layers
    regions = torch.randn(3, 4, 6, dtype=torch.float64)
    actual = encoder(regions)
    rows = regions.reshape(12, 6)
    assert encoder(regions[:, :1]).shape == (3, 1, 8)
    if layers == 2:
        first, norm, _, second = encoder.mlp
        hidden = first(rows)
        hidden = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + norm.eps).sqrt()
        expected = encoder.linear(rows) + second(hidden.clamp_min(0))
        torch.testing.assert_close(actual, expected.view(3, 4, 8))


def test_batch_norm_equals_pytorchs_and_rms_scaling_removes_length():
    norm = RegionBatchNorm(5)
    builtin = nn.BatchNorm1d(5)
    for _ in range(3):
        rows = torch.randn(7, 5)
        assert torch.equal(norm(rows), builtin(rows))
    for name, value in builtin.state_dict().items():
        assert torch.equal(norm.state_dict()[name], value)
    assert torch.equal(norm.eval()(rows), builtin.eval()(rows))
    torch.manual_seed(0)
    plain = RegionEncoder(6, 8).double().eval()
    scaled = RegionEncoder(6, 8, rms=True).double().eval()
    scaled.load_state_dict(plain.state_dict())
    regions = torch.randn(3, 4, 6, dtype=torch.float64)
    by_hand = torch.stack([row / (sum(x * x for x in row) / 6) ** 0.5 for row in regions.reshape(12, 6)])
    torch.testing.assert_close(scaled(regions), plain(by_hand.view(3, 4, 6)))
    lengths = torch.tensor([1e-3, 0.5, 7.0, 1e4], dtype=torch.float64)[:, None]
    torch.testing.assert_close(scaled(regions * lengths), scaled(regions))
    regions[0, 0] = 0.0
    torch.testing.assert_close(scaled(regions)[0, 0], plain(regions)[0, 0])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_padding_changes_neither_embeddings_nor_batch_statistics(dropout):
    """Images of 4, 2 and 3 regions, padded to 5 with zeros, in training: the batch norm of the 9 real rows."""
    torch.manual_seed(0)
    plain, padded = (RegionEncoder(6, 8, dropout=dropout).double() for _ in range(2))
    padded.load_state_dict(plain.state_dict())
    rows = torch.randn(9, 6, dtype=torch.float64)
    lengths = torch.tensor([4, 2, 3])
    regions = torch.zeros(3, 5, 6, dtype=torch.float64)
    real = torch.arange(5) < lengths[:, None]
    regions[real] = rows
    torch.manual_seed(1)
    expected = plain(rows[None])[0]
    torch.manual_seed(1)
    encoded = padded(regions, lengths)
    torch.testing.assert_close(encoded[real], expected)
    assert not encoded[~real].any()
    for name, value in plain.named_buffers():
        torch.testing.assert_close(padded.get_buffer(name), value)
    (expected.square().sum() + encoded.square().sum()).backward()
    for name, value in plain.named_parameters():
        torch.testing.assert_close(padded.get_parameter(name).grad, value.grad)


def test_dropout_by_image_uses_one_mask_for_its_regions_and_a_new_one_each_time():
    torch.manual_seed(0)
    encoder = RegionEncoder(1000, 1000, layers=0, dropout=0.4, one_mask=True)
    torch.nn.init.eye_(encoder.linear.weight)
    ones = torch.ones(3, 4, 1000)
    masked = encoder(ones)
    assert torch.equal(masked, masked[:, :1].expand_as(masked))
    assert not torch.equal(masked[0], masked[1])
    assert 0.35 < (masked == 0).float().mean() < 0.45
    assert masked[masked > 0].detach().numpy() == pytest.approx(1 / 0.6, abs=1e-3)
    assert not torch.equal(encoder(ones), masked)
    assert torch.equal(encoder.eval()(ones), ones)
