"""Kill commands with SIGKILL, repeat them, and compare the results with those of an undisturbed run.

    python -m tests.attack restarts --cases 60 --seed 0

Commands of a single process are killed three times, at file operations in their folder of runs. Tables and the app
start processes; they are killed once, at a random moment, with or without these processes.
"""

import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import psutil
import pytest

from app import jobs, training
from coder_core import ablate, embed, reviews, train
from coder_core.data.reviews import Review, append_review
from coder_core.runs.record import read_status
from coder_core.training.launch import start_run
from tests.attack.campaign import USUAL_EXITS, Finding, draw_again, try_all
from tests.attack.corruptions import written_by_evaluate, written_by_resume
from tests.attack.readers import embed_small
from tests.support.fork_driver import AtOperation, child, wait
from tests.support.pages import open_page
from tests.support.picture_folders import LAYOUTS
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data
from tests.support.tiny_towers import write_tiny_clip

boosted = partial(tiny_config, part="boosting")
weighted = partial(tiny_config, part="weights")

CASES = 60
KILLS = 3
SMALL = {"word_threshold": 1, "batch_size": 8, "dimension": 8, "threads": 1, "warmup_steps": 0}
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
FLAGS += ["--epochs=2", "--word-size=6", "--word-vectors=random", "--device=cpu", "--rows", "infonce", "dcl"]


@dataclass(frozen=True)
class Restart:
    """A command, and the seed of its kills."""

    command: str
    seed: int


def trained(make, root, base):
    """Start a run, or resume the one that exists."""
    if (root / "run" / "config.toml").exists():
        return train.main(["--resume", str(root / "run")])
    start_run(make(base / "data", "run", epochs=2, save_every=0.03), root, quiet())
    return 0


def imported(root, base):
    files = [f"--{name}={base / name}.npy" for name in ("images", "texts")]
    captions = f"--captions={base / 'data' / 'train_caps.txt'}"
    return embed.main(["import", *files, captions, "--name=run", f"--root={root}", "--split=train"])


def embedded(root, base):
    return embed_small(base / "pictures", base / "tower", root)


def merged(root, base):
    files = [str(base / f"{name}.jsonl") for name in ("anna", "ben")]
    return reviews.main(["merge", *files, f"--out={root / 'merged.jsonl'}"])


def lines_of(file):
    """Return the lines of a file, for comparison, in the form of the readers of runs."""
    return [file.read_text().splitlines()]


def tabulated(root, base):
    return ablate.main(["objectives", f"--data={base / 'data'}", f"--root={root}", *FLAGS])


def trained_by_the_app(root, base):
    """Start a run as the Train page does, or resume it with the page's button, and wait for its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODER_DATA", str(base))
        patch.setenv("CODER_CHECKPOINTS", str(root))
        if (root / "run" / "config.toml").exists():
            page = open_page(patch, root, "train", watch="run")
            if alive(root)[0] not in ("running", "finished"):
                page.click("train-resume")
        else:
            data = next(source for source in training.data_sets() if source.name == "data")
            training.start("demo", "run", data, SMALL | {"epochs": 2, "bank_size": 16})
        while "running" in alive(root):
            time.sleep(0.2)
    return 0


def alive(root):
    """Return the state of the run (None without a status) and of its job, "running" or "over"."""
    job = jobs.current(training.job_name("run"))
    status = {}
    with suppress(FileNotFoundError):  # the run has no manifest yet
        status = read_status(root / "run") or {}
    return status.get("state"), "running" if job and job.running else "over"


COMMANDS = {  # name → function, its runs, reader of the results to compare, share of the cases
    "boosting": (partial(trained, boosted), ["run"], written_by_resume, 4),
    "weights": (partial(trained, weighted), ["run"], written_by_resume, 4),
    "import": (imported, ["run"], partial(written_by_evaluate, split="train"), 4),
    "pictures": (embedded, ["run"], partial(written_by_evaluate, split="train"), 2),
    "reviews": (merged, ["merged.jsonl"], lines_of, 1),
    "table": (tabulated, ["infonce-s0", "dcl-s0"], written_by_resume, 1),
    "app": (trained_by_the_app, ["run"], written_by_resume, 1),
}
SEVERAL = ("table", "app")  # commands that start further processes


def facts(command, root):
    """Return a command's results by run."""
    _, runs, written, _ = COMMANDS[command]
    return {run: written(root / run)[0] for run in runs}


def prepare(folder):
    """Make the inputs, run every command undisturbed, and store its file operations, seconds and results."""
    write_tiny_data(folder / "data")
    rng = np.random.default_rng(0)
    for name, count in (("images", 20), ("texts", 40)):
        np.save(folder / f"{name}.npy", rng.normal(size=(count, 8)).astype(np.float32))
    for name in ("anna", "ben"):
        for row in range(200):
            verdict = Review(f"{row}.jpg", f"caption {row}", "label-right", name)
            append_review(folder / f"{name}.jsonl", verdict)
    if "pictures" in COMMANDS:
        LAYOUTS["parquet"](folder / "pictures")
        write_tiny_clip(folder / "tower")
    for name, (work, *_) in COMMANDS.items():
        root = folder / f"{name}-undisturbed"
        root.mkdir()
        counter = AtOperation(root, 10**9)
        started = time.monotonic()
        assert work(root, folder) == 0, name
        seen = [10**9 - counter.left, time.monotonic() - started, facts(name, root)]
        (folder / f"{name}.json").write_text(json.dumps(seen))


def kill(case, work, root, rng, undisturbed):
    """Start the command and kill it; if it starts processes, with or without them."""
    operations, seconds, _ = undisturbed

    def task():
        if case.command not in SEVERAL:
            AtOperation(root, rng.randrange(1, operations + 1))
        return work()

    pid = child(task)
    rng.random()  # skip the number that the child drew from its copy of the generator
    if case.command in SEVERAL:
        time.sleep(rng.uniform(0, seconds))
        with suppress(psutil.NoSuchProcess):
            command = psutil.Process(pid)
            for process in [command, *command.children(recursive=True)][: 1 if rng.random() < 0.5 else None]:
                process.kill()
    wait(pid)


def attack(case, folder, listener, base):
    """Kill a command, repeat it, and compare."""
    undisturbed = json.loads((base / f"{case.command}.json").read_text())
    rng = random.Random(case.seed)
    root = folder / "runs"
    kills = 1 if case.command in SEVERAL else KILLS
    root.mkdir()
    work = partial(COMMANDS[case.command][0], root, base)
    for _ in range(kills):
        kill(case, work, root, rng, undisturbed)
    status, text = listener.hear(work)
    if status not in (0, *USUAL_EXITS):
        yield Finding(str(case), case.command, "traceback", f"{status}: {text}")
        return
    results = []
    unreadable, trace = listener.hear(lambda: results.append(facts(case.command, root)))
    if unreadable is None or results != [undisturbed[2]]:
        yield Finding(str(case), case.command, "silent", f"{status}: {results} {text} … {trace}")
    else:
        yield Finding(str(case), case.command, "named" if status else "harmless", text)


def draw(cases, seed):
    """Draw the kills, each command by its share."""
    names = [name for name, (*_, part) in COMMANDS.items() for _ in range(part)]
    rng = random.Random(seed)
    return [Restart(name, rng.randrange(2**31)) for name in draw_again(rng, names, cases)]


def campaign(folder, cases=CASES, seed=0, jobs=2):
    """Draw the kills and try them all."""
    drawn = partial(draw, cases, seed)
    tried = partial(attack, base=folder)
    return try_all("restarts", folder, prepare, drawn, tried, jobs)
