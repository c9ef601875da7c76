"""What the first answers of the Retrieval page take once a run's model is loaded, against the bare model.

A fresh process opens a run that a CLIP of ViT-B/32's size embedded, loads its towers, and gives one answer, the first
of that process: a free text, an uploaded picture, or a heat map. The same process then calls the bare model on what it
had read. The budget of an answer is a second.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.clip_shaped import write_clip, write_pictures
from benchmarks.timing import Line, Seconds, clock, milliseconds, quotient
from coder_core.data.captioned import read_captioned
from coder_core.embedding.embed import embed_split
from coder_core.model.towers.dual_encoder import DualEncoder

BUDGET = 1.0  # seconds
PICTURES, SIZE, SPLIT = 64, (500, 375), "train"
TEXT = "two dogs run over a wet meadow"
ANSWERS = {"text": "a free text", "picture": "an uploaded picture", "heat map": "a heat map of its words"}
BARE_ROUNDS = 5


def answer(kind: str, run_folder: str, picture_file: str) -> dict[str, list[float]]:
    """In a fresh process: seconds of loading, of the first answer, and of the bare model on the same (median)."""
    import torch

    from coder_core.api import decode, open_run
    from coder_core.api.heat_maps import heat_map, load_encoders

    run, content = open_run(run_folder), Path(picture_file).read_bytes()
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
    model, tokenizer = run.towers.model, run.towers._tokenizer
    texts = [TEXT] if kind == "text" else TEXT.split()
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    pixels = torch.from_numpy(run.towers.prepare(decode(content, "the picture"))["pixel_values"][None])

    def bare() -> None:
        with torch.inference_mode():
            if kind != "picture":
                model.get_text_features(**tokens)
            if kind != "text":
                model.get_image_features(pixel_values=pixels)

    rounds = [clock(bare) for _ in range(BARE_ROUNDS)]
    usual = [statistics.median(part) for part in zip(*rounds, strict=True)]
    return {"loading": list(loading), "first": list(first), "bare": usual}


def lines(folder: Path, rounds: int) -> list[Line]:
    """One line an answer: the first of a process ÷ the bare model."""
    clip = write_clip(
        folder / "vit-b-32",
        width=768,
        layers=12,
        pixels=224,
        patch=32,
        embedding=512,
        text_width=512,
        longest=77,
        words=49_408,
    )
    data = write_pictures(folder / "first-answers", PICTURES, SIZE)
    split = read_captioned(data).split(SPLIT)
    embed_split(split, DualEncoder(str(clip)), folder / "first", "run", SPLIT, workers=0)
    picture = str(data / SPLIT / split.image_names[0].rpartition("/")[2])
    result = []
    for kind, name in ANSWERS.items():
        given = [
            sys.executable,
            "-m",
            "benchmarks.first_answers",
            kind,
            str(folder / "first" / "run"),
            picture,
        ]
        taken: dict[str, list[Seconds]] = {"loading": [], "first": [], "bare": []}
        for _ in range(rounds):
            said: dict[str, Any] = json.loads(
                subprocess.run(given, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
            )
            for what, seconds in said.items():
                taken[what].append(Seconds(*seconds))
        wall = {what: statistics.median(seconds.wall for seconds in values) for what, values in taken.items()}
        note = f"{wall['first']:.2f} s on the clock, bare {wall['bare']:.2f} s; loading took {wall['loading']:.1f} s"
        ratio = quotient(taken["first"], taken["bare"])
        title = f"first answer to {name} ÷ bare ViT-B/32"
        result.append(
            Line(title, f"{BUDGET:g} s", *ratio, milliseconds(taken["first"]), wall["first"] <= BUDGET, note)
        )
    return result


if __name__ == "__main__":
    print("\n" + json.dumps(answer(*sys.argv[1:])))
