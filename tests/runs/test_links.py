"""Links, pipes, sockets and devices at every place of a run: named before anything is written; nothing else changes."""

import os
import shutil
from dataclasses import replace
from itertools import cycle, islice
from types import SimpleNamespace

import numpy as np
import pytest

from coder_core.console.plain_files import open_plain, read_plain, subfolder
from coder_core.console.processes import JobFolder
from coder_core.runs.record import HistoryWriter, RunLock, write_status
from tests.attack.links import COMMANDS, MADE, PLACES, SUBJECTS, Case, attack, digest, put, surroundings
from tests.support.precomp_folders import assert_refused


@pytest.mark.parametrize("subject", SUBJECTS)
def test_links_pipes_and_other_special_files_stop_every_writer(tmp_path, subject, capsys, monkeypatch):
    """Every place gets one kind and two doors; `make attack` tries every kind at every place, at all doors."""
    monkeypatch.setenv("CODER_CHECKPOINTS", "")  # the doors of jobs set it
    listener = SimpleNamespace(hear=lambda call: (call(), "".join(capsys.readouterr())))
    whole = SUBJECTS[subject]
    kinds = cycle(MADE)
    for number, place in enumerate(whole.places[: len(PLACES)]):
        turns = set(islice(cycle(whole.doors), number, number + 2))
        doors = {name: door for name, door in whole.doors.items() if name in turns}
        monkeypatch.setitem(SUBJECTS, subject, replace(whole, doors=doors))
        findings = list(attack(Case(subject, place, next(kinds)), tmp_path / "case", listener))
        assert len(findings) == 2
        assert [finding for finding in findings if finding.bad] == []
        shutil.rmtree(tmp_path / "case")


@pytest.fixture
def run(tmp_path):
    """A finished run beside files that must not be touched."""
    return surroundings(tmp_path, "run")


def test_small_files_are_never_written_through_links(run, tmp_path):
    """The last line of defence, should a link appear after the check."""
    outside = tmp_path / "outside"
    folder = tmp_path / "folder"
    folder.mkdir()
    before = digest(outside)
    for name in (".tmp-status.json", "status.json", "history.jsonl", ".lock", ".tmp-job.json"):
        (folder / name).symlink_to(outside / "dotfile")
    assert_refused(r"\.tmp-status\.json: is a link", write_status, folder, "running")
    (folder / ".tmp-status.json").unlink()
    write_status(folder, "running")
    assert not (folder / "status.json").is_symlink()
    for write in (
        lambda: HistoryWriter(folder / "history.jsonl"),
        lambda: RunLock(folder).__enter__(),
        lambda: JobFolder(folder).start(("true",)),
    ):
        assert_refused("is a link", write)
    assert digest(outside) == before


@pytest.mark.parametrize("name", ["history.jsonl", ".lock", ".tmp-status.json"])
def test_files_written_in_place_must_not_be_hard_links(run, tmp_path, name, complaint):
    """Otherwise a file elsewhere would change with it. Files that are replaced, or only read, may have hard links."""
    outside = tmp_path / "outside"
    path = put(run, name, lambda path: path.hardlink_to(outside / "dotfile"))
    (outside / "words").hardlink_to(run / "words.json")
    before = digest(outside)
    assert f"{path}: has a second name (a hard link)" in complaint(COMMANDS["resume"], run)
    path.unlink()
    assert name != ".lock" or COMMANDS["evaluate"](run) == 0
    assert digest(outside) == before


def test_plain_files_are_read_up_to_a_size_limit(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert len(read_plain(tmp_path / "a.npy")) == 152
    assert_refused("has 152 bytes; expected at most 100", read_plain, tmp_path / "a.npy", 100)
    assert_refused("is a folder; expected a plain file", open_plain, tmp_path, os.O_RDONLY)
    assert subfolder(tmp_path, "nowhere", "x") == tmp_path / "nowhere" / "x"
    assert_refused("a.npy: is a file; expected a folder", subfolder, tmp_path, "a.npy")
