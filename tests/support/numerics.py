"""Protection from process-wide settings that training changes."""

from contextlib import contextmanager

import torch


@contextmanager
def numerics_unchanged():
    """Restore the number of threads and the precision of matrix products for later tests in this process."""
    threads = torch.get_num_threads()
    precision = torch.backends.mkldnn.matmul.fp32_precision
    yield
    torch.set_num_threads(threads)
    torch.backends.mkldnn.matmul.fp32_precision = precision
