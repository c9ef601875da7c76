"""Two hundred hostile runs: each is listed with its fault in milliseconds, whatever is inside; the others open."""

import json
import os
import shutil
from pathlib import Path

import pytest

from coder_core.api import list_runs, open_run
from coder_core.files.sealed import render_manifest
from tests.support.run_folders import FINISHED_RUNS, reseal

COPIES = 18
GIBIBYTES = 8 << 30


def declare(file, size, shape=None):
    """Give a file this size without using the disk, and declare it, perhaps with a shape, in the manifest."""
    os.truncate(file, size)
    path = file.parent / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][file.name]["bytes"] = size
    if shape is not None:
        manifest["arrays"][file.stem]["shape"] = shape
    path.write_bytes(render_manifest(manifest))


def sparse_array(run):
    declare(run / "analysis" / "dev" / "image_ranks.npy", GIBIBYTES)


def sparse_array_that_fits_its_shape(run):
    for name in ("image_ranks", "image_embeddings", "image_best"):
        shape = [1 << 30] if name == "image_ranks" else [1 << 30, 2]
        declare(run / "analysis" / "dev" / f"{name}.npy", GIBIBYTES + 128, shape)


def sparse_captions(run):
    declare(run / "analysis" / "dev" / "captions.json", GIBIBYTES)


def sparse_configuration(run):
    declare(run / "config.toml", GIBIBYTES)


def sparse_status(run):
    os.truncate(run / "status.json", GIBIBYTES)


def many_tables(run):
    (run / "config.toml").write_text("".join(f"[t{number}]\n" for number in range(4_000)))
    reseal(run)


def many_files(run):
    path = run / "analysis" / "dev" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] |= {f"file{number}": {"bytes": 1, "sha256": ""} for number in range(20_000)}
    path.write_bytes(render_manifest(manifest))


def many_splits(run):
    text = (run / "analysis" / "dev" / "manifest.json").read_bytes()
    for number in range(100):
        (run / "analysis" / f"split{number}").mkdir()
        (run / "analysis" / f"split{number}" / "manifest.json").write_bytes(text)


def nested(run):
    (run / "analysis" / "dev" / "manifest.json").write_text("[" * (1 << 20))


def link_outside(run):
    shutil.rmtree(run / "analysis")
    (run / "analysis").symlink_to(FINISHED_RUNS / "checkpoints" / "whole" / "analysis")


HOSTILE = {
    sparse_array: "has shape [8] and 8,589,934,592 bytes; expected 64 bytes and a header",
    sparse_array_that_fits_its_shape: "",  # hashed when it is opened
    sparse_captions: "captions.json: has 8,589,934,592 bytes; expected at most 268,435,456",
    sparse_configuration: "config.toml: has 8,589,934,592 bytes; expected at most",
    sparse_status: "status.json: has 8,589,934,592 bytes; expected at most 65,536",
    many_tables: "config.toml: is nested too deeply",
    many_files: "bytes; expected at most",
    many_splits: "has 101 analyses, whose manifests have",
    nested: "bytes; expected at most",
    link_outside: "analysis: is a link to",
}


@pytest.mark.timeout(120)  # 50 ms a run take ten seconds, a single hashed file more than a minute
def test_hostile_runs_are_listed_at_once_with_their_fault(memory_folder):
    root = memory_folder / "runs"
    good = FINISHED_RUNS / "checkpoints" / "weighted"
    shutil.copytree(good, root / "good")
    for make in HOSTILE:
        first = Path(shutil.copytree(good, root / f"{make.__name__}-0"))
        make(first)
        for number in range(1, COPIES):
            (root / f"{make.__name__}-{number}").symlink_to(first)

    for number in range(COPIES):
        name = os.fsencode(str(root)) + b"/\xff%d" % number
        os.symlink(os.fsencode(str(root / "good")), name)

    runs = {run.name: run for run in list_runs(root)}
    assert len(runs) == COPIES * (len(HOSTILE) + 1) + 1
    for make, message in HOSTILE.items():
        for number in range(COPIES):
            run = runs[f"{make.__name__}-{number}"]
            assert message in f"{run.fault} {run.damaged}", run
    for number in range(COPIES):
        assert (runs[f"\\xff{number}"].state, "not UTF-8" in runs[f"\\xff{number}"].fault) == (
            "damaged",
            True,
        )

    assert all(text.isprintable() for run in runs.values() for text in (run.name, str(run.path)))
    assert len(open_run(runs["good"].path).captions("dev")) == 40
