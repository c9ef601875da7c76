"""Vectors and masked statistics: precision, length, mean of parts, largest column, masked mean and log-sum; and copies on
a device that know their values on the host, so that nobody waits for a GPU to read them back."""

import torch
from torch import Tensor

SHORTEST_VECTOR = 1e-8  # a shorter vector has no direction and is treated as zero

# exponent of an entry that is left out: its exponential is exactly 0, and its gradient is finite
FAR_BELOW = -1e4

EMPTY_ID = -1  # image id of an empty bank slot

_HOST = "_values_on_host"  # attribute of a tensor on a device


def full_precision(values: Tensor) -> Tensor:
    """Convert float16 and bfloat16 to float32; return float32 and float64 unchanged.

    >>> full_precision(torch.zeros(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def padding_mask(lengths: Tensor, longest: int) -> Tensor:
    """Return (B, longest) bool for (B,) lengths, true at the padding: positions from the length on.

    >>> padding_mask(torch.tensor([1, 2]), longest=2)
    tensor([[False,  True],
            [False, False]])
    """
    return torch.arange(longest, device=lengths.device) >= lengths.unsqueeze(1)


def normalise(vectors: Tensor) -> Tensor:
    """Scale every row to length one; a zero row stays zero and receives a zero gradient.

    Dividing by max(length, 1e-12), as torch.nn.functional.normalize does, gives a zero row a gradient of 1e12.

    (..., D) of any floating type -> (..., D) float32, or float64 if the input is.

    >>> normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    vectors = full_precision(vectors)
    length = lengths(vectors).unsqueeze(-1)
    is_zero = length == 0
    return torch.where(is_zero, 0.0, vectors / torch.where(is_zero, 1.0, length))


def lengths(vectors: Tensor) -> Tensor:
    """Return the Euclidean length of every row, (..., D) -> (...); below `SHORTEST_VECTOR` it and its gradient are zero.

    >>> lengths(torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    squared = full_precision(vectors).square().sum(-1)
    # Testing for "too short" rather than "long enough" lets NaN through, so that it is noticed.
    too_short = squared <= SHORTEST_VECTOR**2
    return torch.where(too_short, 0.0, torch.where(too_short, 1.0, squared).sqrt())


def mean_of_parts(samples: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return the mean of each sample's unit vectors, not normalised, so that the inner product of two samples is the
    mean cosine over all pairs of their parts: (n, L, D), (n,) -> (n, D). Without lengths all L parts count; samples of
    one vector, (n, D), are returned unchanged.

    >>> mean_of_parts(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), lengths=torch.tensor([2]))
    tensor([[0.5000, 0.5000]])
    """
    if samples.ndim == 2:
        return samples
    if lengths is None:
        return samples.mean(1)
    padded = padding_mask(lengths, samples.shape[1])
    return torch.where(padded[..., None], 0.0, samples).sum(1) / lengths.clamp_min(1)[:, None]


@torch.no_grad()
def best_columns(scores: Tensor) -> Tensor:
    """Return (Q,) int64, the column of each row's largest value (the first if several are equal), for (Q, C) scores.

    >>> best_columns(torch.tensor([[0.0, 2.0, 2.0]]))
    tensor([1])
    """
    if scores.device.type == "cpu" and scores.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(scores.detach().numpy().argmax(1))  # a tenth of the time of PyTorch's
    return scores.argmax(1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the last axis of the entries where `mask` is true; 0 if a row has none.

    Other entries may have any value, even NaN: they affect neither the result nor the gradient.

    >>> masked_mean(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([2.])
    """
    values = torch.where(mask, full_precision(values), 0.0)
    return values.sum(-1) / mask.sum(-1).clamp_min(1)


def log1p_sum_exp(values: Tensor, mask: Tensor) -> Tensor:
    """Return log(1 + Σ exp(x)) over the last axis where `mask` is true, as logsumexp([0, x]), which cannot overflow.

    (Q, C), (Q, C) bool -> (Q,); a row without true entries gives log 1 = 0.

    >>> log1p_sum_exp(torch.zeros(1, 2), torch.tensor([[True, False]]))  # log(1 + 1)
    tensor([0.6931])
    """
    exponents = torch.where(mask, full_precision(values), FAR_BELOW)
    sums = torch.logsumexp(exponents, dim=-1)
    return torch.logaddexp(sums, torch.zeros_like(sums))


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device without waiting; `on_host` then finds the original.

    >>> to_device(torch.ones(2), torch.device("cpu"))
    tensor([1., 1.])
    """
    if device.type == "cpu":
        return values
    copy = values.pin_memory().to(device, non_blocking=True)
    setattr(copy, _HOST, values)
    return copy


def on_host(values: Tensor) -> Tensor:
    """Return values on the CPU: the original of `to_device`, or a copy, for which the program waits.

    >>> on_host(torch.ones(2))
    tensor([1., 1.])
    """
    if values.device.type == "cpu":
        return values
    known = None if torch.compiler.is_compiling() else getattr(values, _HOST, None)
    return values.cpu() if known is None else known
