"""Device, threads, precision and peak memory of a run."""

import os
import resource
import sys
from contextlib import AbstractContextManager, nullcontext

import torch

from coder_core.config.training import TrainingConfig
from coder_core.console.faults import Fault, InputError
from coder_core.model.products import DEFAULT_PRODUCTS, multiplies_bfloat16, product_library, use_onednn
from coder_core.ops import parallel

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
