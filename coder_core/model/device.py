"""Device, threads, precision and peak memory of a run, and the library that multiplies its matrices.

On a CPU PyTorch computes float32 products with MKL, which does not use the wide registers (AVX-512) of AMD processors.
oneDNN, also part of PyTorch, uses them and takes about half the time. PyTorch calls it only if bfloat16 is allowed
inside products. A processor that cannot multiply bfloat16 still computes in float32; a comparison with products in
float64 makes sure of that. The setting is made only on AMD processors.
"""

import os
import platform
import resource
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from coder_core.config.training import TrainingConfig
from coder_core.console.faults import Fault, InputError
from coder_core.ops import parallel

DEFAULT_PRODUCTS = "PyTorch's default"
_SETTINGS = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
_UNSET = "none"
_ASKS_ONEDNN = "bf16"

FLOAT32_ERROR = 1e-6  # of a product as a share of Σ|a||b|; in bfloat16 it is 1e-3
KIBIBYTES = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss


def choose_device(name: str) -> torch.device:
    """Return the named device; "auto" is this process's GPU if there is one, otherwise the CPU. InputError: a GPU is
    requested and PyTorch sees none, or the name is not a device."""
    local = int(os.environ.get("LOCAL_RANK", 0))  # number of this process on its machine, set by torchrun
    if name == "auto":
        return torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(Fault("--device", f"is {name!r}", "auto, cpu, cuda or cuda:1 …")) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(Fault("--device", f"is {name}, but PyTorch sees no GPU", "auto or cpu"))
    return torch.device("cuda", local) if device.type == "cuda" and device.index is None else device


def set_up_device(training: TrainingConfig) -> torch.device:
    """Set up threads and matrix products, join the other processes, and return this process's device."""
    if training.threads:
        torch.set_num_threads(training.threads)
    device = choose_device(training.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        use_onednn()
    parallel.start(device)
    return device


def in_bfloat16(device: torch.device, precision: str) -> bool:
    """Return True if encoding uses bfloat16: on request, or with "auto" on a GPU that supports it."""
    automatic = precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    return precision == "bfloat16" or automatic


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Return a bfloat16 autocast context if `in_bfloat16`, otherwise a null context."""
    if in_bfloat16(device, precision):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def no_grad_precision(training: TrainingConfig, device: torch.device) -> str:
    """Return the precision of passes without gradients (momentum encoder, boosting teacher): "float32" or "bfloat16".

    "auto" follows --precision if that is set, and on a GPU. Otherwise it is bfloat16 on CPUs where that is faster: those
    that have bfloat16 instructions and use oneDNN for float32 products.
    """
    if training.twin_precision != "auto":
        return training.twin_precision
    faster = device.type == "cpu" and multiplies_bfloat16() and product_library() != DEFAULT_PRODUCTS
    requested = in_bfloat16(device, training.precision)
    return "bfloat16" if requested or (training.precision == "auto" and faster) else "float32"


def no_grad_autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Return an autocast context for a result of `no_grad_precision`, independent of the rest of the step."""
    if precision == "bfloat16":
        return autocast(device, precision)
    return torch.autocast(device.type, enabled=False)


def peak_mebibytes(device: torch.device) -> float:
    """Return the peak memory so far in MiB: of the tensors on a GPU, of the whole process, data included, on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTES / 2**20


def use_onednn(tolerance: float = FLOAT32_ERROR) -> None:
    """Use oneDNN for float32 matrix products in the rest of the process, if it is faster and as exact.

    Change nothing unless this is an AMD processor with AVX-512, errors stay within `tolerance` (a share of Σ|a||b|), and
    no precision was chosen before (`torch.set_float32_matmul_precision`).
    """
    before = _SETTINGS.fp32_precision
    if before not in (_UNSET, _ASKS_ONEDNN) or not _is_amd_with_avx512():
        return
    _SETTINGS.fp32_precision = _ASKS_ONEDNN
    if _onednn_error() > tolerance:
        _SETTINGS.fp32_precision = before


def product_library() -> str:
    """Return the library that currently multiplies float32 matrices on the CPU: "oneDNN" or "PyTorch's default"."""
    return "oneDNN" if _SETTINGS.fp32_precision == _ASKS_ONEDNN else DEFAULT_PRODUCTS


def multiplies_bfloat16() -> bool:
    """Return True if this processor has instructions that multiply bfloat16 numbers (AVX512-BF16 or AMX); False with
    PyTorch 2.9, which does not list them."""
    listed = getattr(torch.cpu, "get_capabilities", dict)
    capabilities: dict[str, bool] = listed()
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


@cache
def _onednn_error() -> float:
    """Return oneDNN's largest error in products of shapes used in training, as a share of Σ|a||b|; measured once per
    process, while oneDNN is the library in use."""
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
