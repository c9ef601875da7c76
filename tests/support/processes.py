"""Programs of the tests in processes of their own: one that reports as JSON, or two that train together."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from coder_core.ops import parallel

ROOT = Path(__file__).resolve().parents[2]


def reported_by(program, *arguments, timeout):
    """Run `python -m tests.support.<program> …` on one thread and return the JSON object it prints last."""
    command = [sys.executable, "-m", f"tests.support.{program}", *map(str, arguments)]
    threads = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=threads, capture_output=True, text=True, timeout=timeout)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def run_two(*arguments, timeout=500):
    """Run the same command twice, as torchrun starts it, and return both outputs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    shared = os.environ | address | {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, *arguments]
    ranks = ({"RANK": rank, "LOCAL_RANK": rank} for rank in "01")
    processes = [subprocess.Popen(command, cwd=ROOT, env=shared | rank, **pipes) for rank in ranks]
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], outputs
    return outputs


def run_as_one_of_several(train, out, then=parallel.barrier):
    """Join the other processes, train, check that all came to exactly the same, save it once, and go on together."""
    torch.set_num_threads(1)
    parallel.start(torch.device("cpu"))
    tensors = train()
    values = [value.reshape(-1).contiguous().view(torch.uint8) for value in tensors.values()]
    everywhere = parallel.gather_rows(torch.cat(values)[None])  # at once: thousands of them
    rows = (row.split([len(value) for value in values]) for row in (everywhere[0], everywhere[-1]))
    assert [name for name, *both in zip(tensors, *rows, strict=True) if not torch.equal(*both)] == []
    if parallel.rank() == 0:
        save_file({name: value.contiguous() for name, value in tensors.items()}, out)
    then()
    parallel.finish()
