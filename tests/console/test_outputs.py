"""A place that cannot be written to is named before the work; the wording of faults; a bar."""

from io import StringIO

import pytest
from rich.console import Console

from coder_core.console.faults import Fault
from coder_core.console.plain_files import check_file, check_folder
from coder_core.console.progress import watching

LONG = 300 * "a"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing/a.csv", "--csv {root}/missing/a.csv: there is no folder {root}/missing"),
        ("file/a.csv", "there is no folder {root}/file"),
        (".", "is a folder"),
        (LONG, "File name too long"),
        (f"{LONG}/a.csv", "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path, path, message):
    (tmp_path / "file").write_text("")
    (fault,) = check_file("--csv", tmp_path / path)
    assert message.format(root=tmp_path) in str(fault)
    assert check_file("--csv", tmp_path / "a.csv") == check_file("--csv", tmp_path / "file") == []


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in (
        ("file", f"{tmp_path}/file is a file"),
        ("file/a/b", "is a file"),
        (LONG, "too long"),
    ):
        (fault,) = check_folder("--root", tmp_path / path)
        assert message in str(fault)
    assert check_folder("--root", tmp_path) == check_folder("--root", tmp_path / "new" / "folder") == []


def test_a_place_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    file = tmp_path / "mine.csv"
    file.write_text("")
    for faults, path in (
        (check_file("--csv", tmp_path / "a.csv"), tmp_path),
        (check_file("--csv", file), file),
        (check_folder("--root", tmp_path / "a" / "b"), tmp_path),
    ):
        assert f"{path} may not be written to" in str(faults[0])


@pytest.mark.parametrize(
    ("fix", "shown"),
    [
        ("choose another name", "Choose another name"),
        ("python -m coder_core.evaluate RUN", "python -m coder_core.evaluate RUN"),
        ("make setup", "make setup"),
        ("pythons are snakes", "Pythons are snakes"),
    ],
)
def test_a_fix_begins_with_a_capital_letter_unless_it_is_a_command(fix, shown):
    assert str(Fault("here", "is missing", fix=fix)) == f"here: is missing. {shown}"


def test_a_bar_changes_its_name_and_starts_again_when_something_else_is_done():
    terminal = Console(force_terminal=True, width=120, file=StringIO(), record=True)
    with watching(terminal, "encoding") as watch:
        watch(5, 10)
        watch(1, 4, "neighbours")
    last = terminal.export_text().split("encoding")[-1]  # it is drawn once more at the end
    assert "neighbours" in last
    assert "25%" in last
    assert "50%" not in last
