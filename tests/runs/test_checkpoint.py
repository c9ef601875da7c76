"""Saves: read back as written, old ones removed, half-written ones never seen, none lost by a crash."""

import json
import os
import signal
import sys
import threading
from itertools import takewhile
from pathlib import Path

import pytest
import torch

from coder_core.files import sealed
from coder_core.files.atomic import WriteError, appearing
from coder_core.files.sealed import SealedFolder, write_sealed
from coder_core.runs import saves
from coder_core.runs.saves import Save, SaveStore
from tests.runs.conftest import in_a_child, save_step
from tests.support.precomp_folders import assert_refused

CODE = tuple(str(Path(module.__file__).parent) for module in (saves, sealed))


def test_tensors_and_documents_are_read_back(tmp_path):
    store = SaveStore(tmp_path / "state", keep=1)
    assert store.newest() is None
    shared = torch.arange(12.0).view(3, 4)
    bytes_ = torch.arange(5, dtype=torch.uint8)
    scalar = torch.tensor(3)
    empty = torch.empty(0, 2)
    tensors = {
        "model": {"a": shared, "b": shared, "column": shared[:, 1], "turned": shared.T},
        "rest": {"bytes": bytes_, "scalar": scalar, "empty": empty},
    }
    store.write("7", tensors, {"text": {"caption": "äöü"}})
    save = store.newest()
    for stem, content in tensors.items():
        loaded = save.tensors(stem)
        assert set(loaded) == set(content)
        for key, tensor in content.items():
            assert loaded[key].dtype == tensor.dtype
            assert torch.equal(loaded[key], tensor)

    assert (save.document("text"), save.skipped) == ({"caption": "äöü"}, [])
    for name, read in (("words.safetensors", save.tensors), ("words.json", save.document)):
        assert_refused(f"has no {name}", read, "words")


def test_superseded_saves_are_removed_and_only_saves_are_pruned(tmp_path):
    """The save of step 30 was damaged and the run continued from 20: the next save is the newest."""
    store = SaveStore(tmp_path / "state", keep=2)
    for step in (20, 30):
        save_step(store, step)
    (tmp_path / "state/30/progress.json").write_text("{}")
    newest = store.newest()
    assert newest.name == "20"
    assert "state/30/progress.json" in newest.skipped[0].place
    save_step(store, 25)
    assert store.names() == ["20", "25"]
    # A folder whose name is not a step belongs to the user
    store = SaveStore(tmp_path / "best", keep=2)
    for name in ("notes", "5.old", "zz"):
        (store.folder / name).mkdir(parents=True)
        (store.folder / name / "mine").write_text("x")
    for step in (9, 90, 100):
        save_step(store, step)
    assert store.names() == ["90", "100"]
    assert Save(store.folder / "90").document("progress") == {"step": 90}
    assert sorted(path.name for path in store.folder.iterdir()) == ["100", "5.old", "90", "notes", "zz"]


def test_nothing_is_saved_after_a_run_was_moved(tmp_path):
    store = SaveStore(tmp_path / "run" / "state", keep=2)
    moved = tmp_path / "moved"
    (tmp_path / "run").mkdir()
    save_step(store, 20)
    store.folder.parent.rename(moved)
    with pytest.raises(WriteError, match="moved or removed"):
        save_step(store, 30)
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
    assert SaveStore(moved / "state", keep=2).newest().name == "20"


def test_a_save_is_replaced_by_name_and_one_set_aside_is_restored(tmp_path):
    store = SaveStore(tmp_path / "state", keep=2)
    other = SaveStore(tmp_path / "other", keep=2)
    save_step(store, 20)
    save_step(other, 20)
    first = store.newest().fingerprint
    assert other.newest().fingerprint == first
    store.write("20", {}, {"progress": {"step": "again"}})
    assert store.newest().document("progress") == {"step": "again"}
    assert store.newest().fingerprint != first
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["20"]

    # set aside by a writer that was killed between the two renames of a replacement
    (store.folder / "20").rename(store.folder / ".tmp-20-old")
    newest = store.newest()
    assert (newest.name, newest.document("progress")) == ("20", {"step": "again"})
    store.tidy()
    assert [path.name for path in store.folder.iterdir()] == ["20"]


def test_concurrent_writers_wait_for_each_other(tmp_path):
    """A single writer removes the remains of killed writers, but nothing of a living one."""
    left = tmp_path / ".tmp-x-1-0123abcd"
    left.mkdir()
    second = threading.Thread(target=write_sealed, args=(tmp_path / "b", {"text": "b"}))
    with appearing(tmp_path / "a") as temporary:
        assert not left.exists()
        second.start()
        second.join(0.2)
        assert second.is_alive()
        assert temporary.is_dir()
    second.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_readers_see_either_the_old_or_the_new_save(memory_folder):
    """The best model of a run may be replaced while it is evaluated."""
    store = SaveStore(memory_folder / "best", keep=1)
    save_step(store, 1)
    seen = []  # a busy machine needs more than 60 steps
    steps = takewhile(lambda step: step < 60 or len(set(seen)) <= 5, range(2, 2_000))
    writer = threading.Thread(target=lambda: [save_step(store, step // 2) for step in steps])
    writer.start()
    while writer.is_alive():
        newest = store.newest()
        assert newest.skipped == []
        seen.append(int(newest.name))
    writer.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 5


def test_file_modes_follow_the_umask(tmp_path):
    """For example, a colleague may evaluate the run."""
    before = os.umask(0o027)
    try:
        save_step(SaveStore(tmp_path / "state", keep=1), 20)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state" / "20").iterdir()} == {0o640}


def test_failed_saves_leave_nothing_behind_and_runs_are_created_once(tmp_path):
    store = SaveStore(tmp_path / "state", keep=1)
    for name in ("../1", ".tmp-1", "", "a/b", "1\n"):
        with pytest.raises(ValueError, match="named by its step"):
            store.write(name, {}, {})
    with pytest.raises(TypeError):
        store.write("1", {}, {"bad": {1, 2}})
    assert list(tmp_path.rglob("*")) == []
    run = write_sealed(tmp_path / "checkpoints" / "one", {"config.toml": "a = 1\n", "glove.bin": b"\x00\xff"})
    assert SealedFolder(run).read("glove.bin") == b"\x00\xff"
    assert set(json.loads((run / "manifest.json").read_text())["files"]) == {"config.toml", "glove.bin"}
    assert_refused("exists and is not empty", write_sealed, run, {"config.toml": "a = 2\n"})
    assert SealedFolder(run).read("config.toml") == b"a = 1\n"
    for name in ("words.json", "../../etc/passwd"):
        assert_refused(f"{name}: is not listed", SealedFolder(run).read, name)


def stopped_at_line(number, store, step, stop):
    """Save a step, calling `stop` before the `number`-th line of our code; return False if the save runs fewer lines."""
    left = number

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        left -= event == "line"
        if left == -1:
            left = -2
            stop()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        save_step(store, step)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def interrupted(number, store, step):
    """Raise KeyboardInterrupt before a line, as Ctrl-C does."""
    return stopped_at_line(number, store, step, lambda: signal.default_int_handler(signal.SIGINT, None))


def killed(number, store, step):
    """End a child before a line without any cleanup, as SIGKILL does."""
    return in_a_child(lambda: stopped_at_line(number, store, step, lambda: os._exit(9))) != "False"


@pytest.mark.parametrize("step", [30, 20])
@pytest.mark.parametrize("stopped", [interrupted, killed])
def test_a_save_interrupted_at_any_line_loses_nothing(memory_folder, stopped, step):
    """Step 30 is a new save, step 20 replaces one; after a kill the next writer cleans up."""
    for number in range(0, 1000, 5):
        store = SaveStore(memory_folder / f"{stopped.__name__}-{step}-{number}", keep=2)
        save_step(store, 10)
        save_step(store, 20)
        ended = not stopped(number, store, step)
        newest = store.newest()
        assert newest.skipped == []
        assert newest.name in (("20", str(step)) if not ended else (str(step),))
        if stopped is killed:
            save_step(store, 40)
            assert sorted(path.name for path in store.folder.iterdir()) == [newest.name, "40"]
        if ended:
            assert number > 100
            return
    pytest.fail("the save never ended")
