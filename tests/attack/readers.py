"""Damage tar, Parquet, positives, reviews and tower files: their commands must name the damaged file or read it.

    python -m tests.attack readers --cases 300 --seed 0

These files have no checksums, so a changed value is not a finding.
"""

import random
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coder_core import check_data, embed, evaluate, reviews
from coder_core.data.reviews import Review, append_review
from tests.attack.bad_inputs import flip
from tests.attack.campaign import FIXTURE, ROOT, USUAL_EXITS, Finding, draw_again, try_all
from tests.support.picture_folders import LAYOUTS
from tests.support.tiny_towers import write_tiny_clip

CASES = 300
KINDS = ("cut", "bit", "bytes", "empty", "swapped")


@dataclass(frozen=True)
class Damage:
    """One file of one kind of input, its new content, and the kind of damage."""

    subject: str
    file: str
    content: bytes
    change: str

    def __str__(self):
        return f"{self.subject}/{self.file} {self.change}"


def embed_small(data, model, root):
    flags = ["--name=run", "--split=train", "--workers=0", "--device=cpu"]
    return embed.main(["pictures", str(data), f"--model={model}", f"--root={root}", *flags])


def judge_run(file, folder):
    run = shutil.copytree(ROOT / FIXTURE / "checkpoints" / "whole", folder / "run")
    return evaluate.main([str(run), f"--data={ROOT / FIXTURE / 'data'}", f"--positives={file}"])


DOORS = {
    "tar": lambda base, case: embed_small(case, base / "tower", case.parent / "runs"),
    "parquet": lambda base, case: embed_small(case, base / "tower", case.parent / "runs"),
    "checked": lambda base, case: check_data.main([str(case)]),
    "positives": lambda base, case: judge_run(case / "positives.tsv", case.parent),
    "reviews": lambda base, case: reviews.main(
        ["merge", str(case / "a.jsonl"), str(case / "b.jsonl"), f"--out={case.parent / 'c.jsonl'}"]
    ),
    "tower": lambda base, case: embed_small(base / "parquet", case, case.parent / "runs"),
}


def prepare(folder):
    """Make one good input of every kind, and check that its command accepts it."""
    LAYOUTS["webdataset"](folder / "tar")
    for subject in ("parquet", "checked"):
        LAYOUTS["parquet"](folder / subject)
    write_tiny_clip(folder / "tower")
    for subject in ("positives", "reviews"):
        (folder / subject).mkdir()
    names = (ROOT / FIXTURE / "data" / "dev_ids.txt").read_text().split()
    lines = (f"{first}#0\t{second}\n" for first, second in zip(names, [*names[1:], names[0]], strict=True))
    (folder / "positives" / "positives.tsv").write_text("".join(dict.fromkeys(lines)))
    for number in range(8):
        file = folder / "reviews" / f"{'ab'[number % 2]}.jsonl"
        append_review(file, Review("x.jpg", f"a {{dog}} {number}", "too-vague", "anna"))
    for subject in DOORS:
        copy = Path(shutil.copytree(folder / subject, folder / "tried" / subject / "input"))
        assert DOORS[subject](folder, copy) == 0, subject


def draw(base, cases, seed):
    """Draw damage; every kind at every file occurs once before any repeats."""
    rng = random.Random(seed)
    files = [(s, path) for s in DOORS for path in sorted((base / s).rglob("*")) if path.is_file()]
    drawn = draw_again(rng, [(*file, kind) for file in files for kind in KINDS], cases)
    return [spoil(base, *file, rng, [path for _, path in files]) for file in drawn]


def spoil(base, subject, path, kind, rng, files):
    content = path.read_bytes()
    if kind == "cut":
        new = content[: rng.randrange(len(content))]
    elif kind == "bit":
        new = flip(content, rng)
    elif kind == "bytes":  # mostly near the end, where Parquet describes its columns
        new = bytearray(content)
        for _ in range(5):
            new[-1 - int(len(new) * rng.random() ** 3)] = rng.randrange(256)
    else:
        new = b"" if kind == "empty" else rng.choice(files).read_bytes()
    return Damage(subject, str(path.relative_to(base / subject)), bytes(new), kind)


def meet(case, folder, listener, base):
    """Damage a copy and give it to the command."""
    copy = Path(shutil.copytree(base / case.subject, folder / "input"))
    (copy / case.file).write_bytes(case.content)
    status, text = listener.hear(lambda: DOORS[case.subject](base, copy))
    if status is None or status not in (0, *USUAL_EXITS):
        yield Finding(str(case), case.subject, "traceback", f"{status}: {text}")
    else:
        named = any(name in text for name in (str(copy), Path(case.file).name))
        outcome = "harmless" if not status else "named" if named else "silent"
        yield Finding(str(case), case.subject, outcome, text)


def campaign(folder, cases=CASES, seed=0, jobs=2):
    """Draw the damage and try it all."""
    drawn = partial(draw, folder, cases, seed)
    attack = partial(meet, base=folder)
    return try_all("readers", folder, prepare, drawn, attack, jobs)
