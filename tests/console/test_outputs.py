"""A place that cannot be written to is named before the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from coder_core.console.outputs import check_file, check_folder

LONG = 300 * "a"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing/a.csv", "--csv {root}/missing/a.csv: there is no folder {root}/missing"),
        ("file/a.csv", "there is no folder {root}/file"),
        (".", "is a folder; expected a file"),
        (LONG, "cannot be written: File name too long"),
        (f"{LONG}/a.csv", "cannot be written: File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    (fault,) = check_file("--csv", tmp_path / path)
    assert said.format(root=tmp_path) in str(fault)
    assert check_file("--csv", tmp_path / "a.csv") == check_file("--csv", tmp_path / "file") == []


@pytest.mark.parametrize(
    ("path", "said"),
    [("file", "{root}/file is a file"), ("file/a/b", "{root}/file is a file"), (LONG, "File name too long")],
)
def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    (fault,) = check_folder("--root", tmp_path / path)
    assert said.format(root=tmp_path) in str(fault)
    assert check_folder("--root", tmp_path) == check_folder("--root", tmp_path / "new" / "folder") == []


def test_a_place_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    (tmp_path / "mine.csv").write_text("")
    assert f"{tmp_path} may not be written to" in str(check_file("--csv", tmp_path / "a.csv")[0])
    assert f"{tmp_path}/mine.csv may not be written to" in str(check_file("--csv", tmp_path / "mine.csv")[0])
    assert f"{tmp_path} may not be written to" in str(check_folder("--root", tmp_path / "a" / "b")[0])
