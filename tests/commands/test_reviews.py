"""The command on files of reviews."""

from coder_core.data.reviews import Review, append_review, read_reviews
from coder_core.reviews import main


def test_merge_writes_every_line_once_and_overwrites_nothing(tmp_path, capsys):
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    append_review(paths[0], Review("x.jpg", "a dog", "wrong-caption", "anna"))
    append_review(paths[1], Review("x.jpg", "a cat", "too-vague", "ben"))
    paths[1].write_bytes(paths[1].read_bytes() + b'{"version"')
    out = tmp_path / "c.jsonl"
    command = ["merge", *map(str, paths), "--out", str(out)]
    assert main(command) == 0
    printed = " ".join("".join(capsys.readouterr()).split())
    assert "lines: 2, pairs judged: 2 (" in printed
    assert "b.jsonl line 2: " in printed
    assert len(read_reviews(out).verdicts) == 2
    assert main(command) == 1
    assert "--out" in capsys.readouterr().err
    assert main(["merge", str(paths[0]), "--out", str(tmp_path / "d.jsonl")]) == 1
    assert "FILE: " in capsys.readouterr().err
