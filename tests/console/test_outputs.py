"""Unwritable outputs are named before the work begins; the wording of faults; a progress bar."""

from io import StringIO

import pytest
from rich.console import Console

from coder_core.console.faults import Fault
from coder_core.console.output import watching
from coder_core.console.plain_files import check_file, check_folder

LONG = 300 * "a"


@pytest.mark.parametrize(
    ("check", "path", "message"),
    [
        (check_file, "missing/a.csv", "--flag {root}/missing/a.csv: there is no folder {root}/missing"),
        (check_file, ".", "is a folder"),
        (check_file, LONG, "File name too long"),
        (check_folder, "file", "{root}/file is a file"),
        (check_folder, "file/a/b", "is a file"),
        (check_folder, LONG, "too long"),
    ],
)
def test_unwritable_paths_are_reported_in_one_sentence(tmp_path, check, path, message):
    (tmp_path / "file").write_text("")
    (fault,) = check("--flag", tmp_path / path)
    assert message.format(root=tmp_path) in str(fault)
    assert check_file("--csv", tmp_path / "a.csv") == check_file("--csv", tmp_path / "file") == []
    assert check_folder("--root", tmp_path) == check_folder("--root", tmp_path / "new" / "folder") == []


def test_paths_without_write_permission_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    file = tmp_path / "mine.csv"
    file.write_text("")
    assert f"{tmp_path} is not writable" in str(check_file("--flag", tmp_path / "a.csv")[0])
    assert f"{file} is not writable" in str(check_file("--flag", file)[0])
    assert f"{tmp_path} is not writable" in str(check_folder("--flag", tmp_path / "a" / "b")[0])


def test_fixes_are_capitalised_and_a_new_phase_restarts_the_bar():
    shown = {"choose another name": "Choose another name", "pythons are snakes": "Pythons are snakes"}
    shown |= {command: command for command in ("coder-lab evaluate RUN", "make setup")}
    for fix, text in shown.items():
        assert str(Fault("here", "is missing", fix=fix)) == f"here: is missing. {text}"
    terminal = Console(force_terminal=True, width=120, file=StringIO(), record=True)
    with watching(terminal, "encoding") as watch:
        watch(5, 10)
        watch(1, 4, "neighbours")
    last = terminal.export_text().split("encoding")[-1]  # it is drawn once more at the end
    assert [text in last for text in ("neighbours", "25%", "50%")] == [True, True, False]
