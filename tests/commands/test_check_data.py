"""The command: what it prints, what it refuses, and that training refuses the same in the same words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coder_core.check_data import main
from coder_core.data.dataset import read_split
from coder_core.demo import make_demo
from tests.support.precomp_folders import features, real_flickr8k, refusal, write_split
from tests.support.run_folders import write_halves, write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(tmp_path):
    write_split(tmp_path, "train")
    write_split(tmp_path, "dev")
    return tmp_path


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, capsys.readouterr().out


def test_good_data_is_described(data, capsys):
    status, out = run(capsys, data)
    assert status == 0
    for text in (
        "train",
        "dev",
        "4 × 3 × 5",
        "float32",
        "Vocabulary: 6 words",
        "Memory: ",
        "0 errors, 0 warnings",
    ):
        assert text in out


def test_faults_have_the_words_of_training(data, capsys):
    (data / "train_caps.txt").write_bytes(b"one\n\nthree\n\xff\n")
    array = features()
    array[2, 1] = np.nan
    write_split(data, "dev", array=array)
    status, out = run(capsys, data)
    assert status == 1
    for split in ("train", "dev"):
        for fault in refusal(read_split, data, split).faults:
            assert f"error: {fault}" in out
    assert "3 errors, 0 warnings: this data would be refused." in out


def test_half_a_character_in_a_picture_name_or_a_folder_is_refused(data, capsys):
    (data / "train_ids.txt").write_text("".join(f"{i}\n" for i in range(4)))
    (data / "id_mapping.json").write_text('{"0": "a", "1": "b", "2": "\\ud800.jpg", "3": "d"}')
    status, out = run(capsys, data)
    assert status == 1
    assert "id_mapping.json, image 2: the name" in out
    (data / "id_mapping.json").unlink()
    moved = data.rename(os.fsdecode(os.fsencode(data) + b"\xff"))
    status, out = run(capsys, moved)
    assert status == 1
    assert "the name is not UTF-8" in out
    assert str(refusal(read_split, moved, "train")) in out


@pytest.mark.parametrize("severity", ["note", "warning"])
def test_what_training_accepts_keeps_the_status_zero(data, capsys, severity):
    array = features().astype("<f2" if severity == "note" else "<f4")
    array[1, 1] = 0 if severity == "warning" else 1
    write_split(data, "train", array=array)
    status, out = run(capsys, data)
    assert status == 0
    assert f"{severity}: " in out


def test_no_values_looks_at_headers_only(data, capsys):
    write_split(data, "train", array=features() * np.float32(np.nan))
    assert run(capsys, data)[0] == 1
    assert run(capsys, data, "--no-values")[0] == 0


def test_train_must_be_there_and_dev_should(tmp_path, capsys):
    write_split(tmp_path, "dev")
    status, out = run(capsys, tmp_path)
    assert status == 1
    assert 'there is no split "train"; expected one of dev' in out
    write_split(tmp_path / "other", "train")
    status, out = run(capsys, tmp_path / "other")
    assert status == 0
    assert "warning: " in out
    assert "there is no dev split" in out


def test_splits_of_different_width_are_refused(data, capsys):
    write_split(data, "dev", array=features(size=6))
    status, out = run(capsys, data)
    assert status == 1
    assert "dev and train: 6 and 5 numbers a region" in out


def test_another_number_of_captions_an_image_is_noted(data, capsys):
    (data / "dev_caps.txt").write_text("".join(f"caption {i}\n" for i in range(4)))
    status, out = run(capsys, data)
    assert status == 0
    assert "note: dev and train: 1.0 and 2.0 captions an image; recalls depend on their number" in out


def test_the_word_threshold_decides_the_vocabulary(data, capsys):
    status, out = run(capsys, data, "--word-threshold", 9)
    assert status == 1
    assert "no word stands 9 times" in out
    assert "Vocabulary: 14 words" in run(capsys, data, "--word-threshold", 1)[1]
    assert run(capsys, data, "--word-threshold", 0)[0] == 2


def test_captions_without_a_known_word_are_counted(data, capsys):
    captions = [f"a dog number {row} runs" for row in range(7)] + ["zebra crossing"]
    write_split(data, "dev", captions=captions)
    status, out = run(capsys, data)
    assert status == 0
    assert "1 captions (12.5%) hold no known word; the first: 8" in out


def test_word_vectors_are_measured(data, tmp_path, capsys):
    (tmp_path / "v.txt").write_text("dog 1 2\na 3 4\n")
    vectors = "--word-vectors", tmp_path / "v.txt"
    status, out = run(capsys, data, *vectors, "--word-size", 2)
    assert status == 0
    assert "Word vectors: 2 numbers a word; 50.0% of the words" in out
    assert "warning: " in out
    (tmp_path / "v.txt").write_text("dog 1 2\na 3\n")
    status, out = run(capsys, data, *vectors, "--word-size", 2)
    assert status == 1
    assert "v.txt line 2: 1 numbers instead of 2" in out
    assert "expected 300" in run(capsys, data, *vectors)[1]  # what training expects without the flag


def test_json_holds_everything(data, capsys):
    status, out = run(capsys, data, "--json")
    document = json.loads(out)
    assert status == 0
    assert document["usable"] is True
    assert [split["name"] for split in document["splits"]] == ["train", "dev"]
    assert document["splits"][0]["captions_an_image"] == [2, 2.0, 2]
    assert document["vocabulary"] == 6


def test_control_characters_never_reach_the_terminal(tmp_path, capsys):
    evil = "\x1b]0;owned\x07[bold red]x"
    write_split(tmp_path, ids=["../" + evil, "b", "b", evil])
    images = [{"imgid": 0, "filename": evil, "split": evil, evil: 1, "sentences": [{"raw": "a"}]}]
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "dataset.json").write_text(json.dumps({"images": images}))
    for path in (tmp_path, tmp_path / "json"):
        status, out = run(capsys, path)
        assert status == 1
        assert not {"\x1b", "\x07"} & set(out)


def test_the_command_as_a_user_starts_it(data):
    command = [sys.executable, "-P", "-m", "coder_core.check_data"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    helped = subprocess.run(
        [*command, "--help"], capture_output=True, text=True, env=environment, cwd="/", check=True
    )
    assert "--word-vectors" in helped.stdout
    assert "exit status is 1" in helped.stdout
    (data / "train_ims.npy").unlink()
    bad = subprocess.run(
        [*command, str(data)], capture_output=True, text=True, env=environment, cwd="/", check=False
    )
    assert bad.returncode == 1
    assert "train_ims.npy: the file is missing" in bad.stdout


def test_the_built_in_data_has_no_fault(tmp_path, capsys):
    status, out = run(capsys, make_demo(tmp_path / "made", images=60))
    assert status == 0
    assert "found" in out
    assert "0 errors, 0 warnings" in out


def test_demo_names_the_built_in_data(tmp_path, monkeypatch, capsys):
    """A folder that holds something else shows where it would be made, without waiting for it."""
    (tmp_path / "mine.txt").write_text("keep")
    monkeypatch.setenv("CODER_DEMO", str(tmp_path))
    status, out = run(capsys, "demo")
    assert status == 1
    assert str(tmp_path) in out
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_real_flickr8k_is_fit_for_training(capsys):
    folder = real_flickr8k()
    status, out = run(
        capsys, folder, "--word-vectors", folder / "glove_50d_flickr8k_words.txt", "--word-size", 50
    )
    assert status == 0
    for text in ("6,000", "30,000", "1,000 × 36 × 128", "float16", "97.", "0 errors, 1 warning"):
        assert text in out


def test_the_content_of_a_data_set_and_of_the_data_behind_a_run(data, tmp_path, capsys):
    captions = (data / "dev_caps.txt").read_text().splitlines()
    (data / "dev_caps.txt").write_text("\n".join([captions[1].upper(), *captions[1:]]) + "\n")
    progress = tmp_path / "progress.json"
    status, output = run(capsys, data, "--content", "--progress", progress, "--json")
    content = json.loads(output)["content"]
    assert status == 0
    assert list(content["splits"]) == content["without_pictures"]
    assert any(
        {("dev", 0), ("dev", 1)} <= {tuple(s) for s in f["samples"]} for f in content["duplicate_captions"]
    )
    assert json.loads(progress.read_text())["state"] == "finished"
    assert "groups of near-duplicate captions" in run(capsys, data, "--content")[1]
    folder = write_run(tmp_path / "runs", "demo", images=6)
    status, output = run(capsys, folder, "--content")
    assert status == 0
    assert "Content of dev" in output
    assert main([str(folder)]) == 1
    assert "--content" in capsys.readouterr().err


def test_two_runs_that_trained_on_a_half_each_judge_train(data, tmp_path, capsys):
    halves, wrong = write_halves(tmp_path / "runs")
    status, output = run(capsys, *halves, "--content", "--json")
    assert status == 0
    mismatched = json.loads(output)["mismatched"]
    captions = [pair["caption"] for pair in mismatched]
    assert wrong[captions].sum() >= 0.8 * wrong.sum()
    assert wrong[captions[:10]].all()
    assert {pair["judge"] for pair in mismatched} == {"half", "other-half"}
    output = run(capsys, *halves, "--content")[1]
    assert "Captions of train that may belong to another image" in output
    assert f"word{captions[0]} " in output
    assert main([str(halves[0]), str(halves[0]), "--content"]) == 1
    assert "did not train on complementary halves" in " ".join(capsys.readouterr().err.split())
    assert main([str(data), str(halves[0]), "--content"]) == 1
    assert "is not a run that" in " ".join(capsys.readouterr().err.split())
