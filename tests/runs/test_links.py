"""Links, pipes, sockets and devices at every place of a run: named before anything is written; nothing else changes."""

import hashlib
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app import jobs
from coder_core import cluster, embed, evaluate, project, train
from coder_core.console.faults import InputError
from coder_core.console.plain_files import check_plain, open_plain, read_plain
from coder_core.console.processes import JobFolder
from coder_core.runs.history import HistoryWriter
from coder_core.runs.status import RunLock, write_status
from tests.support.run_folders import import_run_folder

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "finished_runs"
DATA = str(FIXTURE / "data")
PLACES = ["best", "state", "analysis", "derived", "analysis/dev", "derived/dev", "best/99", "best/x/y/z"]
PLACES += ["state/.tmp-5-old", "history.jsonl", "status.json", "config.toml", "words.json", "manifest.json"]
PLACES += [".lock", ".lock.json", ".tmp-.lock.json", ".tmp-status.json", "analysis/dev/captions.json"]
COMMANDS: dict[str, Callable[[Path], int]] = {
    "resume": lambda run: train.main(["--resume", str(run), f"--data={DATA}"]),
    "evaluate": lambda run: evaluate.main([str(run), "--data", DATA]),
    "project": lambda run: project.main([str(run), "--method", "pca"]),
    "cluster": lambda run: cluster.main([str(run), "--clusters", "3"]),
}
pytestmark = pytest.mark.usefixtures("own_threads")


def digest(folder: Path) -> str:
    """sha256 of every name, kind, time of change and content below a folder."""
    sha256 = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        sha256.update(f"{path.relative_to(folder)} {status.st_mode} {status.st_mtime_ns}".encode())
        if stat.S_ISREG(status.st_mode):
            sha256.update(path.read_bytes())
    return sha256.hexdigest()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in /tmp, whose short path a socket can have, beside what must not be touched."""
    base = tmp_path_factory.mktemp("links")
    shutil.copytree(FIXTURE / "checkpoints" / "whole", base / "runs" / "run")
    outside = base / "outside"
    shutil.copytree(FIXTURE / "checkpoints" / "whole" / "analysis", outside / "folder")
    (outside / "folder" / "9").mkdir()
    (outside / "folder" / ".tmp-x-1-0123abcd").mkdir()
    (outside / "dotfile").write_text("export PATH=/bin\nno newline at the end")
    return base


@pytest.fixture
def run(base: Path) -> Path:
    run = base / "runs" / "run"
    shutil.rmtree(run)
    shutil.copytree(FIXTURE / "checkpoints" / "whole", run)
    return run


def put(run: Path, place: str, make: Callable[[Path], object]) -> Path:
    path = run / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    make(path)
    return path


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """The output of a command on stderr, on one line."""
    return " ".join(capsys.readouterr().err.split())


def test_a_link_at_any_place_stops_a_writer(
    base: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The writers take turns; `tests.attack.links` tries every one at every place."""
    outside = base / "outside"
    before = digest(outside)
    for number, place in enumerate(PLACES):
        command = list(COMMANDS)[number % len(COMMANDS)]
        target = outside / ("folder" if "." not in Path(place).name or "old" in place else "dotfile")
        kept = Path(shutil.copytree(run, base / "kept"))
        path = put(run, place, lambda link, target=target: link.symlink_to(target))
        inside = digest(run)
        assert COMMANDS[command](run) == 1, (place, command)
        assert f"{path}: is a link to {target}" in refusal(capsys)
        assert (digest(outside), digest(run)) == (before, inside), place
        shutil.rmtree(run)
        kept.rename(run)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # an address has at most 108 letters
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "is a pipe"),
    "socket": (make_socket, "is a socket"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "is a link to /dev/zero"),
    "dead link": (lambda path: path.symlink_to("nowhere"), "is a link to nowhere"),
}


@pytest.mark.parametrize(
    ("kind", "place"),
    zip(KINDS, ["history.jsonl", ".tmp-status.json", "state/5/x", "analysis/dev/y.npy"], strict=True),
)
def test_special_files_are_named_and_stop_every_writer(
    run: Path, kind: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, name = KINDS[kind]
    path = put(run, place, make)
    for command, start in COMMANDS.items():
        assert start(run) == 1, command
        assert f"{path}: {name}" in refusal(capsys), command


def test_a_further_split_is_not_imported_into_a_run_with_a_link(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, folder = import_run_folder(tmp_path / "runs", "clip", images=10), tmp_path / "clip-embeddings"
    arguments = ["import", "--split=test", f"--root={run.parent}", "--name=clip", "--overwrite"]
    for name in ("images.npy", "texts.npy", "captions.txt"):
        arguments.append(f"--{Path(name).stem}={folder / name}")
    before = digest(base / "outside")
    for place in ("analysis/test", "analysis/.tmp-test-old", "derived", "analysis/dev"):
        path = put(run, place, lambda link: link.symlink_to(base / "outside" / "folder"))
        assert embed.main(arguments) == 1
        assert f"{path}: is a link to" in refusal(capsys)
        path.unlink()
    assert digest(base / "outside") == before


@pytest.mark.parametrize("place", ["", "name", "name/output.log", "name/lock", "name/.tmp-job.json"])
def test_jobs_of_the_app_write_and_delete_through_no_link(
    base: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODER_CHECKPOINTS", str(tmp_path))
    path, target = tmp_path / ".work" / place, base / "outside" / ("dotfile" if "/" in place else "folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = digest(base / "outside")
    for make in (path.symlink_to, path.hardlink_to) if "/" in place else (path.symlink_to,):
        make(target)
        with pytest.raises(InputError, match=r"is a link to|a hard link"):
            jobs.start(("true",), "name")
        jobs.forget("name" if place else "dev")
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
    assert digest(base / "outside") == before


def test_small_files_are_written_through_no_link_even_unchecked(base: Path, tmp_path: Path) -> None:
    """The last line of defence, should a link appear after the check."""
    dotfile = base / "outside" / "dotfile"
    before = digest(base / "outside")
    for name in (".tmp-status.json", "status.json", "history.jsonl", ".tmp-job.json"):
        (tmp_path / name).symlink_to(dotfile)
    with pytest.raises(InputError, match=r"\.tmp-status\.json: is a link"):
        write_status(tmp_path, "running")
    (tmp_path / ".tmp-status.json").unlink()
    write_status(tmp_path, "running")
    assert not (tmp_path / "status.json").is_symlink()
    with pytest.raises(InputError, match=r"history\.jsonl: is a link"):
        HistoryWriter(tmp_path / "history.jsonl")
    with pytest.raises(InputError, match="is a link"), RunLock(tmp_path):
        pass
    with pytest.raises(InputError, match="is a link"):
        JobFolder(tmp_path).start(("true",))
    assert digest(base / "outside") == before


@pytest.mark.parametrize("name", ["history.jsonl", ".lock", ".tmp-status.json"])
def test_what_is_written_in_place_is_no_hard_link(
    base: Path, run: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second name of a file elsewhere would change with it. What is replaced, or only read, may have several."""
    dotfile = base / "outside" / "dotfile"
    path = put(run, name, lambda path: path.hardlink_to(dotfile))
    (base / "outside" / "words").hardlink_to(run / "words.json")
    before = digest(base / "outside")
    assert COMMANDS["resume"](run) == 1
    assert f"{path}: has another name as well (a hard link)" in refusal(capsys)
    assert digest(base / "outside") == before
    path.unlink()
    assert COMMANDS["evaluate"](run) == 0
    (base / "outside" / "words").unlink()


def test_plain_files_are_read_up_to_a_size(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert len(read_plain(tmp_path / "a.npy")) == 152
    with pytest.raises(InputError, match="has 152 bytes; expected at most 100"):
        read_plain(tmp_path / "a.npy", 100)
    with pytest.raises(InputError, match="is a folder; expected a plain file"):
        open_plain(tmp_path, os.O_RDONLY)
    check_plain(tmp_path)
    check_plain(tmp_path / "nowhere")
