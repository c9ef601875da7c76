"""Test programs in separate processes: one that reports as JSON, or two that train together."""

import json
import multiprocessing
import os
import socket
from importlib import import_module
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
# A server imports everything once and never trains, so it can fork safely; a new interpreter would take seconds.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.preloaded"])


def _fork(program, arguments, environment, output):
    """Run `main` of a program of `tests.support` on one thread; append its output to the file `output`."""
    for descriptor in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.environ |= environment
    os.chdir(environment.get("HOME", ROOT))
    torch.set_num_threads(1)
    import_module(f"tests.support.{program}").main(*map(str, arguments))


def reported_by(program, *arguments, **limits):
    """Run a program of `tests.support` and return the JSON object that it prints last."""
    return json.loads(forked(program, *arguments, **limits)[0].splitlines()[-1])


def run_two(program, *arguments, machines, **limits):
    """Run a program as torchrun would start one process on each of two machines, and return both outputs. A machine has
    a folder of its own in `machines`, for the current directory, the home, the cache and temporary files."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = []
    for rank in "01":
        own = machines / rank
        own.mkdir(parents=True)
        folders = dict.fromkeys(("HOME", "CODER_CACHE", "TMPDIR"), str(own))
        ranks.append(shared | folders | {"RANK": rank, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"})
    return forked(program, *arguments, ranks=ranks, **limits)


def forked(program, *arguments, output, ranks=({},), timeout=500):
    """Run `main` of a program of `tests.support` in a fork for each environment; return what each printed."""
    outputs = [output.with_name(f"{output.name}-{number}") for number in range(len(ranks))]
    tasks = zip(ranks, outputs, strict=True)
    processes = [FORKS.Process(target=_fork, args=(program, arguments, *task)) for task in tasks]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout)
    finally:
        for process in processes:
            process.kill()
    printed = [file.read_text("utf-8") for file in outputs]
    assert [process.exitcode for process in processes] == [0] * len(processes), printed
    return printed
