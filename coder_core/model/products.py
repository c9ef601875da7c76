"""Float32 matrix products by oneDNN where that is faster.

On a CPU PyTorch computes float32 products with MKL, which does not use the wide registers (AVX-512) of AMD processors.
oneDNN, also part of PyTorch, uses them and takes about half the time. PyTorch calls it only if bfloat16 is allowed
inside products. A processor that cannot multiply bfloat16 still computes in float32; a comparison with products in
float64 makes sure of that. The setting is made only on AMD processors.
"""

import platform
from pathlib import Path

import torch
from torch import Tensor

DEFAULT_PRODUCTS = "PyTorch's default"
_SETTINGS = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
_UNSET = "none"
_ASKS_ONEDNN = "bf16"

FLOAT32_ERROR = 1e-6  # of a product as a share of Σ|a||b|; in bfloat16 it is 1e-3


def use_onednn(tolerance: float = FLOAT32_ERROR) -> None:
    """Use oneDNN for float32 matrix products in the rest of the process, if it is faster and as exact.

    Change nothing unless this is an AMD processor with AVX-512, errors stay within `tolerance` (a share of Σ|a||b|), and
    no precision was chosen before (`torch.set_float32_matmul_precision`).
    """
    before = _SETTINGS.fp32_precision
    if before not in (_UNSET, _ASKS_ONEDNN) or not _is_amd_with_avx512():
        return
    _SETTINGS.fp32_precision = _ASKS_ONEDNN
    if _largest_error() > tolerance:
        _SETTINGS.fp32_precision = before


def product_library() -> str:
    """Return the library that currently multiplies float32 matrices on the CPU: "oneDNN" or "PyTorch's default"."""
    return "oneDNN" if _SETTINGS.fp32_precision == _ASKS_ONEDNN else DEFAULT_PRODUCTS


def multiplies_bfloat16() -> bool:
    """Return True if this processor has instructions that multiply bfloat16 numbers (AVX512-BF16 or AMX)."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def factor_type(values: Tensor) -> torch.dtype:
    """Return the type to which autocast converts the factors of a product."""
    kind = values.device.type
    if values.dtype == torch.float32 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return values.dtype


def rounded_rows(rows: int, unit: int) -> int:
    """Round a product's rows up to a multiple of `unit` for oneDNN, which compiles a kernel for every shape."""
    return -(-rows // unit) * unit if product_library() == "oneDNN" else rows


def _is_amd_with_avx512() -> bool:
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    file = Path("/proc/cpuinfo")
    return "AuthenticAMD" in (file.read_text() if file.exists() else platform.processor())


def _largest_error() -> float:
    """Return the largest error of products in shapes used in training, as a share of Σ|a||b|."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(rows, 1024, generator=generator) for rows in (128, 768))
    start = torch.randn(128, 768, generator=generator)
    return max(
        _error(a @ b.T, a, b.T),
        _error(a.T @ start, a.T, start),
        _error(torch.addmm(start, a, b.T), a, b.T, start),
        _error(a[:3, :64] @ b[:5, :64].T, a[:3, :64], b[:5, :64].T),
    )


def _error(product: Tensor, a: Tensor, b: Tensor, start: Tensor | None = None) -> float:
    exact = a.double() @ b.double()
    scale = a.double().abs() @ b.double().abs()
    if start is not None:
        exact = exact + start.double()
        scale = scale + start.double().abs()
    return float(((product.double() - exact).abs() / scale).max())
