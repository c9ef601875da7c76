"""What embedding pictures costs beyond the model, and whether its memory grows with the pictures.

Speed: the pictures of `embed_split` — reading, decoding and preparing in a worker process, the model, sealing what is
done — against the bare model on prepared pictures in memory, or against decoding alone where that takes longer. The
worker's processor time counts. Memory: the largest private (anonymous) memory of `python -m coder_core.embed pictures`
and of its worker is judged. Pages of mapped files, which the kernel drops when it needs room, count in the resident
size (RSS) alone, which is printed beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from benchmarks.clip_shaped import write_clip, write_pictures
from benchmarks.timing import Line, Seconds, milliseconds, quotient
from coder_core.console.bars import Watch
from coder_core.data.captioned import CaptionedSplit, read_captioned
from coder_core.data.captioned.decoding import prepared_blocks, usual_workers
from coder_core.embedding.embed import embed_split
from coder_core.embedding.plan import BLOCK_ON_CPU, make_plan
from coder_core.model.towers.dual_encoder import DualEncoder

BAR = 1.15
PICTURES, SIZE = 96, (500, 375)  # as photographs of Flickr8k, Flickr30K and MS-COCO are
WIDTH, LAYERS, PIXELS, PATCH, EMBEDDING = 768, 12, 224, 32, 512  # CLIP's ViT-B/32

FEW, MANY = 1_000, 100_000  # pictures
GROWTH, INDEX = (
    1.1,
    400,
)  # of private memory; and bytes a picture of names, captions, ranks and lists (docs/results.md)
SIZE_MEASURED = 128  # D: the embeddings of the many alone are 98 MiB
PROCESSES = ("the command", "its worker")
POLL = 0.05  # seconds
MEASURED = f"""
import json, sys, threading, time
import psutil
from coder_core.embed import main
peaks = [[0.0, 0.0], [0.0, 0.0]]  # private and resident, of the command and of its worker
def watch():
    me = psutil.Process()
    while True:
        for who, processes in enumerate(([me], me.children())):
            for process in processes:
                try:
                    memory = process.memory_info()
                    now = memory.rss - memory.shared, memory.rss
                    peaks[who] = [max(peak, size / 2**20) for peak, size in zip(peaks[who], now)]
                except psutil.NoSuchProcess:
                    pass
        time.sleep({POLL})
threading.Thread(target=watch, daemon=True).start()
status = main(sys.argv[1:])
print("\\n" + json.dumps([status, *peaks]))
"""


def spent(work: Callable[[], object]) -> Seconds:
    """Time one call, its finished child processes included."""
    wall, before = time.perf_counter(), os.times()
    work()
    after = os.times()
    return Seconds(sum(after[:4]) - sum(before[:4]), time.perf_counter() - wall)


def lines(folder: Path, rounds: int) -> list[Line]:
    """Speed, then memory."""
    return [_speed(folder, max(3, rounds // 2)), *_memory(folder)]


def _speed(folder: Path, rounds: int) -> Line:
    data = write_pictures(folder / "photographs", PICTURES, SIZE)
    towers = DualEncoder(
        str(
            write_clip(
                folder / "clip", width=WIDTH, layers=LAYERS, pixels=PIXELS, patch=PATCH, embedding=EMBEDDING
            )
        )
    )
    split = read_captioned(data).split("train")
    plan, workers = make_plan(split, towers.about, BLOCK_ON_CPU), usual_workers("cpu")
    numbers = range(len(plan.images))
    blocks = [block.prepared for block in prepared_blocks(split, plan.images, numbers, towers.prepare, 0)]
    pixels = [torch.from_numpy(np.stack([one["pixel_values"] for one in block])) for block in blocks]

    def bare() -> None:
        with torch.inference_mode():
            for batch in pixels:
                towers._model.get_image_features(pixel_values=batch)

    def decode() -> None:
        for _ in prepared_blocks(split, plan.images, numbers, towers.prepare, workers):
            pass

    taken: dict[str, list[Seconds]] = {"bare": [], "decode": [], "embed": []}
    for turn in range(rounds + 1):
        seconds = {
            "bare": spent(bare),
            "decode": spent(decode),
            "embed": _embed(split, towers, folder, turn, workers),
        }
        for name in taken if turn else ():  # the first round warms up
            taken[name].append(seconds[name])
    slower = max(("bare", "decode"), key=lambda name: milliseconds(taken[name]))
    limit = {"bare": "the bare model in memory", "decode": "decoding alone"}[slower]
    ratio = quotient(taken["embed"], taken[slower])
    rates = {name: PICTURES / min(seconds.wall for seconds in taken[name]) for name in taken}
    note = f"pictures a second: embed {rates['embed']:.0f}, model {rates['bare']:.0f}, decoding {rates['decode']:.0f}"
    name = f"embed pictures, {SIZE[0]} × {SIZE[1]}, {workers} worker ÷ {limit}, which is the limit"
    return Line(name, f"≤ {BAR:g}", *ratio, milliseconds(taken["embed"]), ratio.processor <= BAR, note)


def _embed(split: CaptionedSplit, towers: DualEncoder, folder: Path, turn: int, workers: int) -> Seconds:
    """Time of the pictures' phase of a new run."""
    phases: dict[str, Seconds] = {}

    @contextmanager
    def watching(what: str) -> Iterator[Watch]:
        wall, before = time.perf_counter(), os.times()
        yield lambda done, total, now="": None
        after = os.times()
        phases[what] = Seconds(sum(after[:4]) - sum(before[:4]), time.perf_counter() - wall)

    embed_split(split, towers, folder / "runs", f"turn-{turn}", "train", workers=workers, watching=watching)
    return phases["pictures"]


def _memory(folder: Path) -> Iterator[Line]:
    """Peak MiB of embedding few and many pictures with one small model; the bar is on the difference."""
    model = write_clip(folder / "small", width=64, layers=1, pixels=32, patch=16, embedding=SIZE_MEASURED)
    peaks = {}
    for count in (FEW, MANY):
        data = write_pictures(folder / f"pictures-{count}", count, (32, 32))
        given = [
            str(data),
            f"--model={model}",
            "--split=train",
            f"--root={folder / 'runs'}",
            f"--name=of-{count}",
        ]
        program = [sys.executable, "-c", MEASURED, "pictures", *given]
        said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        status, *peaks[count] = json.loads(said.splitlines()[-1])
        if status:
            raise RuntimeError(f"embedding {count:,} pictures failed: {said}")
    bar = f"≤ {GROWTH:g} × + {INDEX} bytes a picture"
    for place, (few, few_rss), (many, many_rss) in zip(PROCESSES, peaks[FEW], peaks[MANY], strict=True):
        name = f"private memory of embed pictures at its peak, {FEW:,} and {MANY:,} pictures, D = {SIZE_MEASURED}: {place}"
        note = f"{few:,.0f} and {many:,.0f} MiB; RSS with mapped files {few_rss:,.0f} and {many_rss:,.0f}"
        yield Line(name, bar, None, many / few, None, many <= GROWTH * few + INDEX * MANY / 2**20, note)
