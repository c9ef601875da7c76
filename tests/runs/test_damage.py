"""Every file of a run, cut or with one bit flipped: it is named, and refused or replaced by an older save."""

import json
import os
import random
import time

import pytest

from coder_core.ablation.results import _hits
from coder_core.api import open_run
from coder_core.console.faults import collect
from coder_core.files.sealed import SealedFolder, render_manifest
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.history import history_faults, read_history
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import read_status
from tests.attack.bad_inputs import flip
from tests.support.precomp_folders import assert_refused, refusal
from tests.support.run_folders import overwritten


def read_everything(run):
    """Read the run as training and the app would; return the faults that were raised or reported."""
    faults = []
    for name in ("config.toml", "words.json"):
        collect(lambda name=name: SealedFolder(run).read(name), faults)
    collect(lambda: read_status(run), faults)
    collect(lambda: open_analysis(run, "test", verify=True), faults)
    save = SaveStore(run / "state", keep=2).newest()
    assert (save.tensors("model")["weight"] == float(save.name)).all()
    assert save.document("progress") == {"step": int(save.name)}
    events = read_history(run / "history.jsonl")
    assert [event["loss"] for event in events] == [1 / event["step"] for event in events]
    return faults + save.skipped + history_faults(run / "history.jsonl")


def cut(content, rng):
    """Return the content up to a random length."""
    return content[: rng.randrange(len(content))]


@pytest.mark.parametrize(("harm", "times"), [(flip, 48), (cut, 24)])
def test_flipped_bits_and_truncation_are_detected_and_named(run, harm, times):
    assert read_everything(run) == []
    assert [event["step"] for event in read_history(run / "history.jsonl")] == [1, 2, 3, 4]
    rng = random.Random(0)
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.parent.name != "10"]
    for turn in range(times):
        path = files[turn % len(files)]
        with overwritten(path, harm(path.read_bytes(), rng)):
            if path.name == "history.jsonl" and harm is cut:
                read_everything(run)  # a kill, too, leaves a shorter history: the rest is still read
            elif path.name in ("history.jsonl", "status.json"):
                read_or_named(run, path)
            else:
                assert any(str(path) in fault.place for fault in read_everything(run)), path

    # every cut of the status is named, except that of its last newline
    path = run / "status.json"
    content = path.read_bytes()
    for length in range(len(content) - 1):
        path.write_bytes(content[:length])
        assert_refused(r"status\.json", read_status, run)
    path.write_bytes(content[:-1])
    read_or_named(run, path)


def read_or_named(run, path):
    """A flip inside the word "crc" or the last newline leaves the data whole; anything else is named."""
    if any(str(path) in fault.place for fault in read_everything(run)) or path.name != "status.json":
        return
    status = read_status(run)
    assert (status["state"], status["step"]) == ("finished", 20)


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
                assert_refused(
                    rf"{path.name}: is damaged.*coder_core\.evaluate", open_run(whole).ranks, "dev"
                )
                assert_refused(path.name, open_analysis, whole, "dev")
                assert_refused(path.name, _hits, whole, "dev")  # of an ablation
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
