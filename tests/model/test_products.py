"""oneDNN multiplies float32 matrices only where it is known to be as exact, and never against the user's choice."""

from pathlib import Path

import pytest
import torch

from coder_core.model import device
from coder_core.model.encoders.recurrent import RecurrentWords, word_vectors
from tests.model.encoders.test_recurrent import with_torch

settings = torch.backends.mkldnn.matmul


@pytest.fixture(autouse=True)
def _unset():
    before = settings.fp32_precision
    settings.fp32_precision = "none"
    yield
    settings.fp32_precision = before


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 7, 3), (5, 64, 17), (128, 300, 768)])
def test_products_stay_float32(rows, inner, columns):
    device.use_onednn()
    generator = torch.Generator().manual_seed(1)
    shapes = (rows, inner), (columns, inner), (rows, columns)
    a, b, start = (torch.randn(shape, generator=generator) for shape in shapes)
    exact = a.double() @ b.double().T
    scale = a.double().abs() @ b.double().abs().T
    added = torch.addmm(start, a, b.T) - start
    for product in (a @ b.T, (b @ a.T).T, added, torch.bmm(a[None], b.T[None])[0]):
        error = ((product.double() - exact).abs() / (scale + start.double().abs())).max()
        assert error < 2 * device.FLOAT32_ERROR
    in_bfloat16 = (a.bfloat16() @ b.bfloat16().T).double()  # what the bound excludes
    assert ((in_bfloat16 - exact).abs() / scale).max() > 100 * device.FLOAT32_ERROR


@pytest.mark.parametrize("precision", ["none", "ieee", "tf32"])
def test_user_settings_are_kept_and_inexact_products_are_not_used(precision):
    settings.fp32_precision = precision
    device.use_onednn(tolerance=0.0 if precision == "none" else device.FLOAT32_ERROR)
    assert settings.fp32_precision == precision
    assert device.product_library() == device.DEFAULT_PRODUCTS


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the processor's maker is read on Linux here")
def test_only_amd_processors_with_avx512_use_onednn():
    state = torch.get_rng_state()
    device.use_onednn()
    assert torch.equal(torch.get_rng_state(), state)
    amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    assert device.product_library() == ("oneDNN" if amd and wide else device.DEFAULT_PRODUCTS)


@pytest.mark.parametrize("setting", ["none", "bf16"])
@pytest.mark.parametrize("size", [8, 72])
def test_rows_are_rounded_up_only_for_onednn_without_changing_results(setting, size):
    """The BiGRU with rounded-up rows against PyTorch's, forward and backward, at lengths of every remainder."""
    settings.fp32_precision = setting
    rounded = [0, 1, 8, 13] if setting == "none" else [0, 8, 8, 16]
    assert [device.rounded_rows(rows, 8) for rows in (0, 1, 8, 13)] == rounded
    torch.manual_seed(0)
    model = RecurrentWords(word_vectors(40, 12), size)
    lengths = torch.tensor([1, 9, 4, 9, 2, 7, 7, 3, 1, 5, 6])
    words = torch.randint(0, 40, (len(lengths), 9)) * (torch.arange(9) < lengths[:, None])
    slope = torch.randn(len(lengths), 9, size)
    states = model(words, lengths)
    expected = with_torch(model, words, lengths)
    torch.testing.assert_close(states, expected, rtol=1e-5, atol=1e-6)
    leaves = list(model.parameters())
    actual, plain = (torch.autograd.grad((out * slope).sum(), leaves) for out in (states, expected))
    torch.testing.assert_close(actual, plain, rtol=1e-4, atol=1e-5)
