"""Die while saving, many times: `python -m tests.support.killing crash FOLDER STEP …` or `… kill FOLDER TIMES`.

One process imports torch and forks the writers, so that a death costs milliseconds. Every line of output is one JSON
object: how the writer died and what the store holds afterwards.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from coder_core.runs.saves import SaveStore

CODE = tuple(str(Path(sys.modules[f"coder_core.{name}"].__path__[0])) for name in ("files", "runs"))


def write(store: SaveStore, step: int, size: int = 100) -> None:
    tensors = {"model": {"weight": torch.full((size,), float(step))}}
    store.write(str(step), tensors, {"progress": {"step": step}})


def die_at_line(number: int) -> None:
    """Leave without a word before the `number`-th line of `coder_core.files` and `coder_core.runs` is run."""
    left = number

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os._exit(9)
        return trace

    sys.settrace(trace)


def crash(folder: Path, step: int) -> None:
    """Die before every single line of one save; report the newest save each time."""
    prepared = SaveStore(folder / f"prepared-{step}", keep=2)
    write(prepared, 10)
    write(prepared, 20)
    number = 0
    while True:
        store = SaveStore(folder / str(number), keep=2)
        shutil.copytree(prepared.folder, store.folder)
        writer = os.fork()
        if writer == 0:
            die_at_line(number)
            write(store, step)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == 9
        newest = store.newest()
        report = {
            "step": step,
            "died": died,
            "newest": newest and newest.name,
            "skipped": newest and len(newest.skipped),
        }
        write(store, 40)
        rest = sorted(path.name for path in store.folder.iterdir() if path.name.startswith("."))
        print(json.dumps({**report, "names": store.names(), "rest": rest}), flush=True)
        shutil.rmtree(store.folder)
        if not died:
            return
        number += 1


def kill(folder: Path, times: int) -> None:
    """kill −9 inside a save until it happened `times` times; the writer tells when it begins and ends one."""
    store = SaveStore(folder / "state", keep=2)
    random.seed(0)
    step, inside = 0, 0
    while inside < times:
        reading, writing = os.pipe()
        writer = os.fork()
        if writer == 0:
            save_forever(store, step, writing)
        os.close(writing)
        time.sleep(random.uniform(0.005, 0.08))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        with os.fdopen(reading) as pipe:
            messages = pipe.read().split()
        began = [int(message[1:]) for message in messages if message[0] == "b"]
        ended = [int(message[1:]) for message in messages if message[0] == "e"]
        save = store.newest()
        newest = int(save.name) if save else 0
        died_inside = len(began) > len(ended)
        inside += died_inside
        last = ended[-1] if ended else step
        print(
            json.dumps({"inside": died_inside, "last": last, "newest": newest, "began": began[-1:]}),
            flush=True,
        )
        step = newest


def save_forever(store: SaveStore, step: int, writing: int) -> None:
    while True:
        step += 1
        os.write(writing, f"b{step}\n".encode())
        write(store, step, size=500_000)
        os.write(writing, f"e{step}\n".encode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    for argument in sys.argv[3:]:
        (crash if sys.argv[1] == "crash" else kill)(Path(sys.argv[2]), int(argument))
