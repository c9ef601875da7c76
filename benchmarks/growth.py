"""Cost of every command that analyses a collection, at n, 2n and 4n pairs: python -m benchmarks.growth [PAIRS] [WORDS …].

One caption per image, 64 random numbers each, in groups of fifty; more than 10¹⁰ pairs of images and captions, of which
a sample is ranked. Prints CPU seconds and peak memory of each command in a process of its own, and the factors from n
to 2n and from 2n to 4n: 2 is linear, 4 quadratic. With WORDS only commands are measured that have one of them.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.scale import GROUP, embeddings
from coder_core.data.embeddings import Embeddings

PAIRS = 110_000
WIDTH = 64
LONGEST = 3_600  # seconds of a command
PEAK = "peak memory: "
JUDGED = 2_000  # queries with judgments, positives or verdicts


@dataclass(frozen=True)
class Measured:
    """The cost of one command."""

    seconds: float  # CPU time
    mebibytes: float  # peak memory, with mapped files


def commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the arguments of every command, the imports of both runs first."""
    first = str(folder / "runs" / "first")
    second = str(folder / "runs" / "second")
    for name, rows in (("first", "texts"), ("second", "other-texts")):
        files = ["--images", f"{folder}/images.npy", "--texts", f"{folder}/{rows}.npy"]
        files += [
            "--captions",
            f"{folder}/captions.txt",
            "--ids",
            f"{folder}/ids.txt",
            "--root",
            f"{folder}/runs",
        ]
        files += ["--columns", f"{folder}/columns.csv", "--name", name, "--split"]
        yield f"embed import ({name} run)", ["embed", "import", *files, "dev"]
        if name == "first":
            yield (
                "embed import (train split, not ranked)",
                ["embed", "import", *files, "train", "--rank", "0"],
            )

    yield "evaluate", ["evaluate", first]
    yield "evaluate, two runs and their ensemble", ["evaluate", first, second]
    for name, flags in {
        "--groups": ["--groups", f"{folder}/groups.tsv"],
        "--equal-texts match": ["--equal-texts", "match"],
        "--by": ["--by", "brand", "price", "length"],
        "--ways": ["--ways", "5", "100"],
        "--positives": ["--positives", f"{folder}/positives.tsv"],
        "--qrels": ["--qrels", f"{folder}/qrels.txt"],
        "--reviews": ["--reviews", f"{folder}/reviews.jsonl"],
        "--similarities": ["--similarities", f"{folder}/similarities.csv", "--overwrite"],
        "--run-out": ["--run-out", f"{folder}/run.trec", "--overwrite"],
        "--hub-correction": ["--hub-correction"],
    }.items():
        yield f"evaluate {name}", ["evaluate", first, *flags]

    for method in ("umap", "tsne", "pca"):
        yield f"project --method {method}", ["project", first, "--method", method]
    yield "cluster", ["cluster", first]
    yield "report, two runs", ["report", first, second, "--out", f"{folder}/report.html", "--overwrite"]
    yield "check", ["check", f"{folder}/data"]
    for form in ("faiss", "parquet", "triplets"):
        yield f"export --to {form}", ["export", first, "--to", form, f"{folder}/export-{form}"]


def write(folder: Path, pairs: int) -> None:
    """Write what the commands read."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = embeddings(pairs, WIDTH)
    random = np.random.default_rng(0)
    np.save(folder / "images.npy", data.images)
    np.save(folder / "texts.npy", data.texts)
    other = data.texts + np.float32(0.05) * random.standard_normal(data.texts.shape, dtype=np.float32)
    np.save(folder / "other-texts.npy", other)
    names = [f"picture-{row}.jpg" for row in range(pairs)]
    (folder / "ids.txt").write_text("\n".join(names) + "\n")
    (folder / "captions.txt").write_text("\n".join(data.captions) + "\n")
    rows = [f"{name},brand {row % 37},{row % 211}" for row, name in enumerate(names)]
    (folder / "columns.csv").write_text("\n".join(["picture,brand,price", *rows]) + "\n")
    groups = [f"{name}\tproduct {row // 3}" for row, name in enumerate(names)]
    (folder / "groups.tsv").write_text("\n".join(groups) + "\n")
    _write_judgments(folder, data, names)

    (folder / "data").mkdir()
    for split in ("train", "dev"):
        np.save(folder / "data" / f"{split}_ims.npy", data.images[:, None])
        shutil.copy(folder / "captions.txt", folder / "data" / f"{split}_caps.txt")
        shutil.copy(folder / "ids.txt", folder / "data" / f"{split}_ids.txt")


def _write_judgments(folder: Path, data: Embeddings, names: list[str]) -> None:
    """Write positives, graded judgments and verdicts on some pairs."""
    random = np.random.default_rng(1)
    queries = random.choice(len(names), min(JUDGED, len(names)), replace=False).tolist()
    others = [(query + 1 + GROUP) % len(names) for query in queries]
    positives = []
    judgments = []
    verdicts = []
    for number, (query, other) in enumerate(zip(queries, others, strict=True)):
        positives.append(f"{names[query]}#0\t{names[other]}")
        judgments.append(f"{names[query]}#0 0 {names[query]} 2")
        judgments.append(f"{names[query]}#0 0 {names[other]} 1")
        verdict = {"version": 1, "id": f"{number:032x}", "time": "2026-11-29T12:00:00Z", "reviewer": "a"}
        verdict |= {"image": names[query], "caption": data.captions[query], "verdict": "wrong-caption"}
        verdicts.append(json.dumps(verdict | {"tags": [], "note": ""}))

    for name, lines in (("positives.tsv", positives), ("qrels.txt", judgments), ("reviews.jsonl", verdicts)):
        (folder / name).write_text("\n".join(lines) + "\n")


def measure(arguments: list[str]) -> Measured:
    """Run a command of coder-lab in a process of its own. SystemExit: it failed; its last lines."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "benchmarks.growth", "--run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(
            f"coder-lab {' '.join(arguments)} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}"
        )
    peak = float(done.stdout.rsplit(PEAK, 1)[1])
    return Measured(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak)


def run(arguments: list[str]) -> int:
    """Run a command of coder-lab in this process, and print its peak memory in MiB after everything else."""
    from coder_core.__main__ import main as lab

    returned = lab(arguments)
    print(f"{PEAK}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
    return int(returned)


def main(arguments: list[str]) -> int:
    """Measure the three sizes and print a table."""
    if arguments[:1] == ["--run"]:
        return run(arguments[1:])
    sizes = [word for word in arguments if word.isdigit()]
    words = [word for word in arguments if not word.isdigit()]
    pairs = int(sizes[0]) if sizes else PAIRS
    table: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as root:
        for size in (pairs, 2 * pairs, 4 * pairs):
            folder = Path(root) / str(size)
            print(f"writing {size:,} pairs …", flush=True)
            write(folder, size)
            for name, command in commands(folder):
                needed = name.startswith("embed import")
                if words and not needed and not any(word in name for word in words):
                    continue
                cost = measure(command)
                table.setdefault(name, []).append(cost)
                print(f"  {name:44}{cost.seconds:9.1f} s{cost.mebibytes:9.0f} MiB", flush=True)
            shutil.rmtree(folder)

    heads = "".join(f"{count * pairs:>10,}" for count in (1, 2, 4))
    print(f"\n{'CPU seconds':40}{heads}{'2n ÷ n':>9}{'4n ÷ 2n':>9}{'MiB':>8}")
    for name, costs in table.items():
        taken = [cost.seconds for cost in costs]
        factors = f"{taken[1] / taken[0]:9.2f}{taken[2] / taken[1]:9.2f}"
        print(f"{name:40}{''.join(f'{t:10.1f}' for t in taken)}{factors}{costs[-1].mebibytes:8.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
