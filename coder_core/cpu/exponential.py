"""The exponential of a large float32 matrix on a CPU through NumPy, which takes about half of PyTorch's time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def exp_(values: Tensor) -> Tensor:
    """Replace values by their exponentials, without gradient. Returns them.

    >>> exp_(torch.tensor([0.0, -torch.inf]))
    tensor([1., 0.])
    """
    if values.device.type != "cpu" or values.dtype != torch.float32:
        return values.exp_()
    array = values.numpy()
    np.exp(array, out=array)
    return values
