"""What every worker of the tests with several processes does around its own training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from safetensors.torch import save_file
from torch import Tensor

from coder_core.training import parallel


def run_as_one_of_several(train: Callable[[], dict[str, Tensor]], out: str) -> None:
    """Join the other processes, train, check that all came to exactly the same, and save it once."""
    torch.set_num_threads(1)
    parallel.start(torch.device("cpu"))
    found = train()
    for name, value in found.items():
        same = parallel.gather_rows(value.reshape(1, -1))
        assert torch.equal(same[0], same[-1]), name
    if parallel.rank() == 0:
        save_file({name: value.contiguous() for name, value in found.items()}, out)
    parallel.finish()
