"""Results are written beside their names and renamed: after a kill, a full disk or an error none is half or mixed."""

import os
import re
import resource

import pytest

import coder_core.api.report
import coder_core.embedding.exports.vectors  # noqa: F401  imported once, before the forks
from coder_core import export, report
from coder_core.files.atomic import WriteError, check_new_files, existing_outputs, write_output, writing
from tests.runs.conftest import in_a_child
from tests.support.fork_driver import AtOperation, child, wait
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import write_run


def pair(folder):
    return folder / "index", folder / "names"


def write_pair(folder, text):
    with writing(*pair(folder)) as drafts:
        for draft in drafts:
            draft.write_text(text)


def contents(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_pair_killed_at_any_operation_is_never_mixed_and_can_be_written_again(tmp_path):
    kills = 0
    for before in ("", "old"):
        for number in range(1, 99):
            folder = tmp_path / f"{before}{number}"
            folder.mkdir()
            if before:
                write_pair(folder, before)
            code = wait(child(lambda: AtOperation(folder, number) and write_pair(folder, "new")))  # noqa: B023
            kills += code == -9
            left = contents(folder)
            index = left.get("index", "")
            assert index in (before, "new")
            assert left.get("names", index) == index  # missing, or of the same command
            complete = index == left.get("names") == "new"
            if not before:
                existing = existing_outputs(*pair(folder))
                assert bool(existing) == complete == bool(check_new_files("--out", *pair(folder)))
            write_pair(folder, "again")
            assert contents(folder) == {"index": "again", "names": "again"}
            if code == 0:
                break

    assert kills > 20


def test_errors_and_full_disks_keep_the_old_file(tmp_path):
    file = tmp_path / "report.html"
    write_output(file, "old")

    def fail():
        with writing(file) as (draft,):
            draft.write_text("half")
            raise ZeroDivisionError

    def write():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
        write_output(file, "x" * 100_000)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert re.search(r"report\.html: could not be written \(File too large\)", in_a_child(write))
    with pytest.raises(WriteError, match="bytes are needed"), writing(file, needed=1 << 60):
        pytest.fail("nothing is written")
    assert contents(tmp_path) == {"report.html": "old"}
    assert "already exists" in str(check_new_files("--out", file)[0])
    assert check_new_files("--out", file, overwrite=True) == []
    assert "there is no folder" in str(check_new_files("--out", tmp_path / "nowhere" / "x")[0])


def test_a_second_writer_is_refused_and_links_are_not_followed(tmp_path):
    file = tmp_path / "x.csv"
    with writing(file) as (draft,):
        draft.write_text("first")
        assert "is being written by another process" in in_a_child(lambda: write_output(file, "second"))
    assert contents(tmp_path) == {"x.csv": "first"}
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / ".tmp-x.csv").symlink_to(outside)
    assert_refused("is a link", write_output, file, "third")
    os.unlink(tmp_path / ".tmp-x.csv")
    file.unlink()
    file.symlink_to(outside)
    write_output(file, "fourth")
    assert (outside.read_text(), file.read_text(), file.is_symlink()) == ("mine", "fourth", False)


def test_commands_killed_between_two_files_can_be_repeated(tmp_path):
    """An index and its names, a report and its verdict."""
    run = str(write_run(tmp_path, "run", images=8, pictures=False))
    exported = [run, "--to", "faiss", str(tmp_path / "out" / "x.faiss")]
    page = tmp_path / "out" / "r.html"
    reported = [run, run, f"--out={page}", "--gate", "rsum=-1000"]
    folder = tmp_path / "out"
    folder.mkdir()
    for main, arguments, last_rename in ((export.main, exported, 8), (report.main, reported, 9)):
        before = len(list(folder.iterdir()))
        killed = child(lambda: AtOperation(folder, last_rename) and main(arguments))  # noqa: B023
        assert wait(killed) == -9
        assert len(list(folder.iterdir())) == before + 2  # the first file, and what would be the second
        assert wait(child(lambda: main(arguments))) == 0  # noqa: B023
        assert wait(child(lambda: main(arguments))) != 0  # noqa: B023  nothing is overwritten
    assert sorted(path.name for path in folder.iterdir()) == ["r.html", "r.json", "x.faiss", "x.faiss.json"]
