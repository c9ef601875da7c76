"""Die before every line of a save: `python -m tests.support.killing FOLDER STEP …`.

One process imports torch and forks the writers, so that a death costs milliseconds. Every line of output is one JSON
object: how the writer died and what the store holds afterwards.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from coder_core.runs.saves import SaveStore

CODE = tuple(str(Path(sys.modules[f"coder_core.{name}"].__path__[0])) for name in ("files", "runs"))


def write(store: SaveStore, step: int) -> None:
    tensors = {"model": {"weight": torch.full((100,), float(step))}}
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
        report = {"step": step, "died": died, "newest": newest and newest.name}
        report["skipped"] = newest and len(newest.skipped)
        write(store, 40)
        rest = sorted(path.name for path in store.folder.iterdir() if path.name.startswith("."))
        print(json.dumps({**report, "names": store.names(), "rest": rest}), flush=True)
        shutil.rmtree(store.folder)
        if not died:
            return
        number += 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    for argument in sys.argv[2:]:
        crash(Path(sys.argv[1]), int(argument))
