"""Settings of the whole process that training changes."""

from contextlib import contextmanager

import torch


@contextmanager
def numerics_unchanged():
    """Give the other tests of this process their threads and their precision of matrix products back."""
    threads, precision = torch.get_num_threads(), torch.backends.mkldnn.matmul.fp32_precision
    yield
    torch.set_num_threads(threads)
    torch.backends.mkldnn.matmul.fp32_precision = precision
