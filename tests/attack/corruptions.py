"""Damage every kind of file of a run, then open the run with the API, `evaluate` and resumed training.

    python -m tests.attack corruptions --cases 700 --seed 0

Two runs, one with concepts, bank and prototypes and one with sample weights, are stopped during their last epoch,
evaluated, projected and clustered. One file is then cut, emptied, changed by one bit or replaced by another file's
contents. After a "sealed" change all checksums are recomputed, as an attacker could do; then only tracebacks are bad,
and a page of the app is opened too.
"""

import hashlib
import random
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core import cluster, evaluate, project, train
from coder_core.api import open_run
from coder_core.api.clusters import offline_clusters
from coder_core.api.joint_space import stored_layout
from coder_core.console.faults import InputError
from coder_core.files.sealed import MANIFEST, SealedFolder, write_sealed
from coder_core.geometry.settings import ClusterSettings, LayoutSettings
from coder_core.model.device import use_onednn
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.saves import SaveStore
from tests.attack.bad_inputs import flip
from tests.attack.campaign import FIXTURE, USUAL_EXITS, Finding, draw_again, try_all
from tests.support.pages import PAGES, open_page
from tests.support.run_folders import reseal
from tests.support.tiny_runs import events, position, state_tensors
from tests.support.trained_runs import stop_during

CASES = 700
RUNS = ("whole", "weighted")
LAST_STEP = 12  # of 15; the third epoch
CLUSTERS = 4
KINDS = ("cut", "bit", "empty", "swapped", "sealed")
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
VALUES = (b"1e999", b"-1", b"9" * 400, b"null", b"[]", b"true", b'""')


@dataclass(frozen=True)
class Corruption:
    """One file of one run, its new content, and a description of the change."""

    run: str
    path: str
    content: bytes
    change: str

    def __str__(self):
        return f"{self.run}/{self.path} {self.change}"


def three_epochs(name, folder):
    """Write the initial files of the fixture's run `name`, with three epochs, and return the folder."""
    like = SealedFolder(FIXTURE / "checkpoints" / name)
    files = {file: like.read(file) for file in like.manifest["files"]}
    files["config.toml"] = re.sub(rb"\nepochs = \d+", b"\nepochs = 3", files["config.toml"])
    return write_sealed(folder, files)


def prepare_runs(folder):
    """Make both runs and their derived results, and record what each door reads while they are intact."""
    use_onednn()  # as the commands do
    for name in RUNS:
        run = stop_during(three_epochs(name, folder / "like" / name), folder / "runs" / name, LAST_STEP)
        assert evaluate.main([str(run)]) == 0
        assert project.main([str(run), "--method", "pca"]) == 0
        assert cluster.main([str(run), "--clusters", str(CLUSTERS)]) == 0
        show_page(folder / "runs", "overview", name)
        for door, (use, facts) in DOORS.items():
            copy = Path(shutil.copytree(run, folder / door / name)) if use else run
            assert use is None or use(copy) == 0
            seen, faults = facts(copy)
            assert not faults, faults
            torch.save(seen, folder / f"{door}-{name}.facts")


def digest(value):
    """Return the SHA-256 (hexadecimal) of an array, a tensor, a table or a plain value."""
    if isinstance(value, np.ndarray):
        shape = f"{value.dtype}{value.shape}".encode()
        return hashlib.sha256(shape + np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, torch.Tensor):
        return digest(value.float().numpy())
    if isinstance(value, dict):
        return digest([(key, digest(part)) for key, part in sorted(value.items())])
    if isinstance(value, tuple):
        return digest([digest(part) for part in value])
    text = value.to_json() if hasattr(value, "to_json") else repr(value)
    return hashlib.sha256(text.encode()).hexdigest()


def seen_by_the_api(folder):
    """Return the parts of a run that pages show (name → digest), and the faults shown instead of parts."""
    faults = []

    def stored(result):
        faults.extend([result.fault] if result.fault else [])
        return result.value and vars(result.value)

    try:
        run = open_run(folder)
    except InputError as error:
        return {}, [str(error)]
    of_split = ("embeddings", "scoring", "diversity", "ranks")
    parts = {name: lambda name=name: getattr(run, name)("dev") for name in of_split} | {
        "metrics": lambda: dict(run.analysis("dev").metrics),
        "config": lambda: dict(run.config),
        "status": lambda: dict(run.status),
        "captions": lambda: list(run.captions("dev")),
        "tables": lambda: tables_of(run.analysis("dev")),
        "images": lambda: run.analysis("dev").image_names,
        "documents": lambda: documents_of(run.analysis("dev")),
        "history": lambda: run.history,
        "steps": lambda: run.steps,
        "layout": lambda: stored(stored_layout(run, "dev", LayoutSettings("pca"))),
        "clusters": lambda: stored(offline_clusters(run, "dev", ClusterSettings(CLUSTERS))),
        "query": lambda: run.encode_text(["a red ring"]),
    }
    seen = {}
    for name, part in parts.items():
        before = len(faults)
        try:
            seen[name] = digest(part())
        except InputError as error:
            faults.append(str(error))
        if len(faults) > before:
            seen.pop(name, None)
    if run.history_faults:  # the page lists them in a separate table
        faults += run.history_faults
        seen.pop("history", None)
        seen.pop("steps", None)
    return seen, list(dict.fromkeys(faults))


def tables_of(analysis):
    return {name: np.asarray(analysis.array(name)) for name in analysis.arrays}


def documents_of(analysis):
    return {name: analysis.document(name) for name in analysis.manifest["documents"]}


def written_by_evaluate(folder, split="dev"):
    """Return the analysis of a split (name → digest) and an empty list of faults."""
    analysis = open_analysis(folder, split, verify=True)
    facts = {name: digest(table) for name, table in tables_of(analysis).items()}
    return facts | {"metrics": digest(analysis.metrics), "captions": digest(analysis.captions)}, []


def written_by_resume(folder):
    """Return last state, best model, history and analysis of a run that was resumed to its end, as above."""
    best = SaveStore(folder / "best", keep=1).newest()
    states = {"state": state_tensors(folder), "position": position(folder), "history": events(folder)}
    facts = {name: digest(state) for name, state in states.items()}
    return facts | {"best": best.fingerprint if best else ""} | written_by_evaluate(folder)[0], []


DOORS = {
    "evaluate": (lambda run: evaluate.main([str(run)]), written_by_evaluate),
    "resume": (lambda run: train.main(["--resume", str(run)]), written_by_resume),
    # last: the commands choose the matrix library, and with it the last bits of an encoded query
    "api": (None, seen_by_the_api),
}


def meet(case, folder, listener, base):
    """Try one corruption at every door, each with its own copy of the run."""
    if case.change == "sealed":
        yield meet_pages(case, folder / "runs", listener, base)
    for door in DOORS:
        run = Path(shutil.copytree(base / "runs" / case.run, folder / door))
        spoil(run, case)
        yield judge(case, door, run, torch.load(base / f"{door}-{case.run}.facts"), listener)


def spoil(run, case):
    """Write the new content of a file and, for a sealed change, recompute the checksums."""
    (run / case.path).write_bytes(case.content)
    if case.change == "sealed":
        with suppress(ValueError, LookupError, TypeError, AttributeError, OSError, InputError):
            reseal((run / case.path).parent)


def meet_pages(case, root, listener, base):
    """Open one page on a folder with the damaged run and an intact one."""
    shutil.copytree(base / "runs", root)
    spoil(root / case.run, case)
    page = PAGES[sum(case.content) % len(PAGES)]
    status, text = listener.hear(lambda: show_page(root, page, case.run))
    return Finding(str(case), f"page {page}", "harmless" if status == 0 else "traceback", text)


def show_page(root, page, run):
    """Run a page's script, which must show faults instead of raising; return status 0."""
    with pytest.MonkeyPatch.context() as patch:
        open_page(patch, root, page, run=run)
    return 0


def judge(case, door, run, expected, listener):
    """Return the finding at one door."""
    use, facts = DOORS[door]
    status, text = (0, "") if use is None else listener.hear(lambda: use(run))
    if status is None or status not in (0, *USUAL_EXITS):
        return Finding(str(case), door, "traceback", f"{status}: {text}")
    if case.change == "sealed":
        status, trace = (0, "") if status else listener.hear(lambda: facts(run) and 0)
        return Finding(str(case), door, "harmless" if status == 0 else "traceback", f"{text} … {trace}")
    names = [str(run / case.path), case.path]
    if Path(case.path).name == MANIFEST:  # another folder's manifest disagrees with the files beside it
        names += [f"{(run / case.path).parent}/"]
    named = any(name in text for name in names)
    if status in USUAL_EXITS:
        return Finding(str(case), door, "named" if named else "silent", text)
    results = []
    status, trace = listener.hear(lambda: results.append(facts(run)))
    if status is None:
        return Finding(str(case), door, "traceback", f"{text} … {trace}")
    seen, faults = results[0]
    text = f"{text} {faults}"
    different = [name for name, value in expected.items() if name in seen and seen[name] != value]
    named = named or any(name in " ".join(faults) for name in names)
    if different and (use is None or not named):
        return Finding(str(case), door, "silent", f"{', '.join(different)} differ. {text}")
    lost = [name for name in expected if name not in seen]
    if lost and not named:
        return Finding(str(case), door, "silent", f"{', '.join(lost)} refused without naming it. {text}")
    return Finding(str(case), door, "named" if named else "harmless", text)


def draw(base, cases, seed):
    """Draw corruptions; every kind of every file occurs once before any repeats."""
    rng = random.Random(seed)
    files = [path.relative_to(base / "runs") for path in sorted((base / "runs").rglob("*")) if path.is_file()]
    files = [(path.parts[0], str(path.relative_to(path.parts[0]))) for path in files]
    possible = [(*file, kind) for file in files if file[0] in RUNS for kind in KINDS]
    return [corrupt(base, *corruption, rng) for corruption in draw_again(rng, possible, cases)]


def corrupt(base, run, path, kind, rng):
    """Return one corruption of this kind of a file."""
    content = (base / "runs" / run / path).read_bytes()
    if not content or kind == "empty":
        return Corruption(run, path, b"", "emptied")
    if kind == "cut":
        length = rng.randrange(len(content))
        return Corruption(run, path, content[:length], f"cut to {length} of {len(content)} bytes")
    if kind == "bit":
        return Corruption(run, path, flip(content, rng), "one bit flipped")
    if kind == "sealed":
        return Corruption(run, path, poison(content, Path(path).suffix, rng), kind)
    files = [file for file in sorted((base / "runs").rglob("*")) if file.is_file()]
    files = [file for file in files if file.read_bytes() != content]
    source = rng.choice([file for file in files if file.suffix == Path(path).suffix] or files)
    return Corruption(run, path, source.read_bytes(), f"replaced by {source.relative_to(base / 'runs')}")


def poison(content, suffix, rng):
    """Return the content with an odd value in a text, NaN or −1 in an array, a flipped bit in other files."""
    numbers = list(NUMBER.finditer(content)) if suffix in (".json", ".toml", ".jsonl") else []
    if numbers:
        start, end = rng.choice(numbers).span()
        return content[:start] + rng.choice(VALUES) + content[end:]
    if suffix != ".npy" or len(content) < 144:
        return flip(content, rng)
    start = 128 + 8 * rng.randrange((len(content) - 128) // 8)
    return content[:start] + b"\xff" * 8 + content[start + 8 :]


def campaign(folder, cases=CASES, seed=0, jobs=2):
    """Draw the corruptions and try them all."""
    drawn = partial(draw, folder, cases, seed)
    attack = partial(meet, base=folder)
    return try_all("corruptions", folder, prepare_runs, drawn, attack, jobs)
