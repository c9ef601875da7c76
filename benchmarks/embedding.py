"""Overhead of embedding pictures beyond the model, its memory, and the first answers of a freshly loaded run.

Speed: the picture phase of `embed_split` (reading, decoding and preparing in a worker process, the model, sealing) ÷ the
slower of the bare model on prepared pictures and decoding alone, for a model of ViT-B/32's size, in processor time
including the worker's. Memory: growth of the peak private memory from 1,000 to 100,000 pictures. First answers: a fresh
process opens the run, loads its towers and answers one query, ÷ the bare model on the same input; the bar is one second.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.synthetic import write_clip, write_pictures, write_vit_b32
from benchmarks.timing import Line, Seconds, clock, in_a_process, milliseconds, quotient
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.decoding import prepared_blocks, usual_workers
from coder_core.data.captioned.reading import read_captioned
from coder_core.embedding.embed import Encoding, Target, embed_split
from coder_core.embedding.resumable import make_plan
from coder_core.model.towers.dual_encoder import DualEncoder

BAR = 1.15
# the size of photographs in Flickr8k, Flickr30K and MS-COCO
PICTURES = 96
SIZE = (500, 375)
SPLIT = "train"
# pictures
FEW = 1_000
MANY = 100_000
# names, captions, ranks and lists of a picture (lab/pictures.md)
GROWTH = 1.1
BYTES_PER_PICTURE = 400
SMALL_WIDTH = 128  # D: the embeddings of 100,000 pictures alone are 98 MiB
BUDGET = 1.0  # seconds of wall time, for a first answer
TEXT = "two dogs run over a wet meadow"
ANSWERS = {"text": "a free text", "picture": "an uploaded picture", "heat map": "a heat map of its words"}
MEASURED = """
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
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
status = main(sys.argv[1:])
print("\\n" + json.dumps([status, *peaks]))
"""


def lines(folder: Path, rounds: int) -> list[Line]:
    """Measure speed, then memory."""
    return [_speed(folder, max(3, rounds // 2)), *_memory(folder)]


def _speed(folder: Path, rounds: int) -> Line:
    data = write_pictures(folder / "photographs", PICTURES, SIZE)
    towers = DualEncoder(str(write_vit_b32(folder / "clip")))
    split = read_captioned(data).split(SPLIT)
    plan = make_plan(split, towers.about, "cpu", 0)
    workers = usual_workers("cpu")
    numbers = range(len(plan.images))
    blocks = [block.prepared for block in prepared_blocks(split, plan.images, numbers, towers.prepare, 0)]
    pixels = [torch.from_numpy(np.stack([picture["pixel_values"] for picture in block])) for block in blocks]

    def bare() -> None:
        with torch.inference_mode():
            for batch in pixels:
                towers.model.get_image_features(pixel_values=batch)

    def decode() -> None:
        for _ in prepared_blocks(split, plan.images, numbers, towers.prepare, workers):
            pass

    taken: dict[str, list[Seconds]] = {"bare": [], "decode": [], "embed": []}
    for turn in range(rounds + 1):
        seconds = {"bare": clock(bare, children=True), "decode": clock(decode, children=True)}
        seconds["embed"] = _embed(split, towers, folder, turn, workers)
        for name in taken if turn else ():  # the first round warms up
            taken[name].append(seconds[name])
    slower = max(("bare", "decode"), key=lambda name: milliseconds(taken[name]))
    limit = {"bare": "the bare model in memory", "decode": "decoding alone"}[slower]
    ratio = quotient(taken["embed"], taken[slower])
    rates = {name: PICTURES / min(seconds.wall for seconds in taken[name]) for name in taken}
    rest = f"model {rates['bare']:.0f}, decoding {rates['decode']:.0f}"
    note = f"pictures/s: embed {rates['embed']:.0f}, {rest}"
    name = f"embed pictures, {SIZE[0]} × {SIZE[1]}, {workers} worker ÷ {limit}, which is the limit"
    return Line(name, f"≤ {BAR:g}", *ratio, milliseconds(taken["embed"]), ratio.processor <= BAR, note)


def _embed(split: CaptionedSplit, towers: DualEncoder, folder: Path, turn: int, workers: int) -> Seconds:
    """Return the time of the picture phase of a new run."""
    began: dict[str, Seconds] = {}

    def note(done: float, total: float, phase: str = "") -> None:
        if phase not in began:
            began[phase] = Seconds(sum(os.times()[:4]), time.perf_counter())

    encoding = Encoding(towers, workers=workers)
    embed_split(split, encoding, Target(folder / "runs", f"turn-{turn}", SPLIT), progress=note)
    return Seconds(*(end - start for start, end in zip(began["pictures"], began["captions"], strict=True)))


def _memory(folder: Path) -> Iterator[Line]:
    """Yield the peak MiB of embedding many pictures ÷ few with one small model; the bar limits the growth."""
    model = write_clip(folder / "small", width=64, layers=1, pixels=32, patch=16, embedding=SMALL_WIDTH)
    peaks = {}
    for count in (FEW, MANY):
        data = write_pictures(folder / f"pictures-{count}", count, (32, 32))
        flags = [f"--model={model}", f"--split={SPLIT}", f"--root={folder / 'runs'}", f"--name=of-{count}"]
        status, *peaks[count] = in_a_process("-c", MEASURED, "pictures", str(data), *flags)
        if status:
            raise RuntimeError(f"embedding {count:,} pictures failed")

    bar = f"≤ {GROWTH:g} × + {BYTES_PER_PICTURE} bytes per picture"
    processes = ("the command", "its worker")
    for process, (few, few_rss), (many, many_rss) in zip(processes, peaks[FEW], peaks[MANY], strict=True):
        counts = f"{FEW:,} and {MANY:,} pictures, D = {SMALL_WIDTH}"
        name = f"private memory of embed pictures, {counts}: {process}"
        note = f"{few:,.0f} and {many:,.0f} MiB; RSS with mapped files {few_rss:,.0f} and {many_rss:,.0f}"
        reached = many <= GROWTH * few + BYTES_PER_PICTURE * MANY / 2**20
        yield Line(name, bar, None, many / few, None, reached, note)


def answer(kind: str, run_folder: str, picture_file: str) -> dict[str, list[float]]:
    """Return seconds of loading, of the first answer, and of the bare model (median); call it in a fresh process."""
    from coder_core.api import decode, open_run
    from coder_core.api.heat_maps import heat_map, load_encoders

    run = open_run(run_folder)
    content = Path(picture_file).read_bytes()
    loading = clock(lambda: load_encoders(run, SPLIT, pictures=True))

    def by_picture() -> object:
        row = run.encode_picture(decode(content, "the picture"), split=SPLIT)
        return run.search(row, split=SPLIT, modality="image")

    answers: dict[str, Callable[[], object]] = {
        "text": lambda: run.search(TEXT, split=SPLIT),
        "picture": by_picture,
        "heat map": lambda: heat_map(run, SPLIT, TEXT, decode(content, "the picture"), "cosine"),
    }
    first = clock(answers[kind])
    model = run.towers.model
    tokenizer = run.towers._tokeniser.tokenizer
    tokens = tokenizer([TEXT] if kind == "text" else TEXT.split(), padding=True, return_tensors="pt")
    pixels = torch.from_numpy(run.towers.prepare(decode(content, "the picture"))["pixel_values"][None])

    def bare() -> None:
        with torch.inference_mode():
            if kind != "picture":
                model.get_text_features(**tokens)
            if kind != "text":
                model.get_image_features(pixel_values=pixels)

    medians = [statistics.median(part) for part in zip(*(clock(bare) for _ in range(5)), strict=True)]
    return {"loading": list(loading), "first": list(first), "bare": medians}


def answers(folder: Path, rounds: int) -> list[Line]:
    """Measure the first answer of a process ÷ the bare model, one line per kind."""
    clip = write_vit_b32(folder / "vit-b-32")
    data = write_pictures(folder / "first-answers", PICTURES, SIZE)
    split = read_captioned(data).split(SPLIT)
    encoding = Encoding(DualEncoder(str(clip)), workers=0)
    embed_split(split, encoding, Target(folder / "first", "run", SPLIT))
    picture = data / SPLIT / split.image_names[0].rpartition("/")[2]
    result = []
    for kind, name in ANSWERS.items():
        command = ("-m", "benchmarks.embedding", kind, f"{folder}/first/run", str(picture))
        taken: dict[str, list[Seconds]] = {"loading": [], "first": [], "bare": []}
        for _ in range(rounds):
            for part, seconds in in_a_process(*command).items():
                taken[part].append(Seconds(*seconds))
        wall = {part: statistics.median(seconds.wall for seconds in values) for part, values in taken.items()}
        clocks = f"{wall['first']:.2f} s of wall time, bare {wall['bare']:.2f} s"
        note = f"{clocks}; loading {wall['loading']:.1f} s"
        ratio = quotient(taken["first"], taken["bare"])
        reached = wall["first"] <= BUDGET
        title = f"first answer to {name} ÷ bare ViT-B/32"
        spent = milliseconds(taken["first"])
        result.append(Line(title, f"{BUDGET:g} s", *ratio, spent, reached, note))

    return result


if __name__ == "__main__":
    print("\n" + json.dumps(answer(*sys.argv[1:])))
