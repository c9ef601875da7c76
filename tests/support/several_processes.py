"""Run a worker in two processes, and what every such worker does around its own training."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from coder_core.model import parallel

ROOT = Path(__file__).resolve().parents[2]


def run_two(*arguments: str, timeout: float = 500) -> list[tuple[int, str]]:
    """The same command twice, as torchrun starts it: exit codes and outputs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = []
    for rank in range(2):
        environment = os.environ | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in processes]
        return [(process.returncode, text) for process, text in zip(processes, outputs, strict=True)]
    finally:
        for process in processes:
            process.kill()


def run_as_one_of_several(train: Callable[[], dict[str, Tensor]], out: str) -> None:
    """Join the other processes, train, check that all came to exactly the same, and save it once."""
    torch.set_num_threads(1)
    parallel.start(torch.device("cpu"))
    tensors = train()
    for name, value in tensors.items():
        same = parallel.gather_rows(value.reshape(1, -1))
        assert torch.equal(same[0], same[-1]), name
    if parallel.rank() == 0:
        save_file({name: value.contiguous() for name, value in tensors.items()}, out)
    parallel.barrier()  # rank 0 has saved
    parallel.finish()
