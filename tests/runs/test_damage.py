"""Every file of a run, damaged in every way: it is named, and refused or replaced by an older save."""

import json
import os
import random
import time
from functools import partial

import pytest

from coder_core.ablation.results import _hits
from coder_core.api import list_runs, open_run
from coder_core.console.faults import collect
from coder_core.files.sealed import render_manifest
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import load_model
from coder_core.runs.record import history_faults, read_history, read_status
from coder_core.runs.saves import Save, SaveStore
from tests.attack.bad_inputs import flip
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import overwritten, reseal

TEXTS = ["status.json", "history.jsonl", "config.toml", "words.json", "concepts.json", "manifest.json"]
TEXTS += ["best/*/manifest.json", "analysis/dev/manifest.json", "analysis/dev/captions.json"]
FILES = [*TEXTS, "concepts.safetensors", "analysis/dev/image_embeddings.npy"]
FILES += ["best/*/model.safetensors", "state/*/model.safetensors", "state/*/manifest.json"]
STRANGE = {
    "pipe": os.mkfifo,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "terabyte": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "folder": lambda path: path.mkdir(),
    "link": lambda path: path.symlink_to(__file__),
}
TIMES = 3  # each file is changed at this many random places


def open_everything(run):
    """Read all of a run as API and commands do; return the faults that were raised or listed."""
    faults = []
    listed = [summary.fault for summary in list_runs(run.parent) if summary.fault]
    save = collect(SaveStore(run / "state", keep=2).newest, faults)
    faults += save.skipped if save else []
    faults += collect(lambda: history_faults(run / "history.jsonl"), faults) or []
    for read in (lambda: open_run(run), lambda: read_status(run), lambda: load_model(run)):
        collect(read, faults)
    if not faults and not listed:
        opened = open_run(run)
        for part in (opened.captions, lambda split: opened.analysis(split).image_names, opened.concepts):
            collect(lambda part=part: part("dev"), faults)
    return [*listed, *map(str, faults)]


@pytest.mark.parametrize("kind", STRANGE)
def test_pipes_devices_and_endless_files_are_not_read(whole, kind):
    for file in FILES:
        [path] = whole.glob(file)
        kept = path.rename(whole.parent.with_name("kept"))
        STRANGE[kind](path)
        assert any(str(path) in fault for fault in open_everything(whole)), file
        path.rmdir() if kind == "folder" else path.unlink()
        kept.rename(path)


def cut(content, rng):
    """Return the content up to a random length."""
    return content[: rng.randrange(len(content))]


def readings(history):
    """Return step, losses and metrics of every event that is read."""
    return {
        (event["step"], str(event.get("losses")), str(event.get("metrics")))
        for event in read_history(history)
    }


@pytest.mark.parametrize("harm", [flip, cut])
def test_flipped_bits_and_truncation_are_named(whole, harm):
    """A kill, too, leaves a shorter history; a bit of the word "crc" or of the last newline leaves the data whole."""
    assert open_everything(whole) == []
    status = read_status(whole)
    history = whole / "history.jsonl"
    lines = readings(history)
    rng = random.Random(0)
    for file in [*FILES * TIMES, *["history.jsonl"] * 20]:
        [path] = whole.glob(file)
        with overwritten(path, harm(path.read_bytes(), rng)):
            named = any(str(path) in fault for fault in open_everything(whole))
            if path.name == "status.json" and not named:
                assert read_status(whole) == status
            assert readings(history) <= lines  # no number is misread
            assert named or path.name in ("history.jsonl", "status.json"), file


def test_every_cut_of_the_status_is_named_except_that_of_its_last_newline(whole):
    path = whole / "status.json"
    status = read_status(whole)
    content = path.read_bytes()
    for length in range(len(content) - 1):
        path.write_bytes(content[:length])
        assert_refused(r"status\.json", read_status, whole)
    path.write_bytes(content[:-1])
    assert read_status(whole) == status


def test_deeply_nested_files_are_named(whole):
    deep = "[" * 100_000 + "]" * 100_000
    for file in [*TEXTS, "state/*/position.json"]:
        path = next(whole.glob(file))
        before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
        path.write_text(f"a = {deep}\n" if path.suffix == ".toml" else f'{{"a":{deep}}}\n')
        if path.name not in ("status.json", "history.jsonl", "manifest.json"):
            reseal(path.parent)
        faults = open_everything(whole)
        if path.name == "position.json":
            collect(partial(Save(path.parent).document, "position"), faults)
        assert any(str(path) in str(fault) for fault in faults), file
        for changed, content in before.items():
            changed.write_bytes(content)


def test_all_damaged_saves_are_named_and_newer_formats_are_refused(run):
    paths = [run / "state" / step / "model.safetensors" for step in ("20", "10")]
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1])
    faults = refusal(SaveStore(run / "state", keep=2).newest).faults
    assert [fault.place for fault in faults] == [str(path) for path in paths]
    path = run / "state" / "20" / "manifest.json"
    path.write_bytes(render_manifest({**json.loads(path.read_text()), "format": 2}))
    assert_refused("has format 2; expected format 1", SaveStore(run / "state", keep=2).newest)


def test_flipped_bits_in_arrays_are_named_and_unchanged_files_checked_once(whole):
    """The API of the pages does so even in the process that read the array before it was damaged."""
    for number, path in enumerate(sorted((whole / "analysis" / "dev").glob("*.npy"))):
        content = path.read_bytes()
        for age in (0, 3600):  # a file that was just written, and one that this process remembers
            os.utime(path, (time.time() - age,) * 2)
            assert len(open_run(whole).captions("dev")) == 40
            damaged = bytearray(content)
            damaged[-1 if number % 2 else (len(content) + 128) // 2] ^= 4
            with overwritten(path, damaged):
                assert_refused(rf"{path.name}: is damaged.*coder-lab evaluate", open_run(whole).ranks, "dev")
                assert_refused(path.name, open_analysis, whole, "dev")
                assert_refused(path.name, _hits, {0: whole}, "dev")  # of an ablation

    for path in (whole / "analysis" / "dev").iterdir():
        os.utime(path, (1, 1))

    open_analysis(whole, "dev")
    path = whole / "analysis" / "dev" / "text_ranks.npy"
    content = path.read_bytes()
    with path.open("r+b") as file:  # as only a broken disk would change it: same inode, same time
        file.write(content[:-8] + bytes([content[-8] ^ 1]) + content[-7:])  # the rank stays in range

    os.utime(path, (1, 1))
    open_analysis(whole, "dev")
    assert_refused(r"text_ranks\.npy: is damaged", open_analysis, whole, "dev", verify=True)
