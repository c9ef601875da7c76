"""The command: its description of the data, its refusals, and that training gives the same refusals."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from coder_core.check_data import main
from coder_core.data.dataset import read_split
from coder_core.demo import make_demo
from tests.support.picture_folders import LAYOUTS, NAMES, write_lines, write_pictures
from tests.support.precomp_folders import features, real_flickr8k, refusal, write_split
from tests.support.run_folders import write_halves, write_run


@pytest.fixture
def data(tmp_path):
    write_split(tmp_path, "train")
    return write_split(tmp_path, "dev")


def run(capsys, *arguments, status=0):
    """Run the command, check its exit status, and return its output."""
    assert main([str(argument) for argument in arguments]) == status
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


def test_valid_data_is_described_and_no_values_checks_only_headers(data, capsys):
    out = run(capsys, data)
    for text in ("train", "dev", "4 × 3 × 5", "float32", "Vocabulary: 6 words", "0 errors, 0 warnings"):
        assert text in out
    document = json.loads(run(capsys, data, "--json"))
    assert (document["usable"], document["vocabulary"]) == (True, 6)
    assert [split["name"] for split in document["splits"]] == ["train", "dev"]
    assert document["splits"][0]["captions_an_image"] == [2, 2.0, 2]
    write_split(data, "train", array=features() * np.float32(np.nan))
    run(capsys, data, status=1)
    run(capsys, data, "--no-values")
    array = features()
    array[1, 1] = 0
    for severity, accepted in (("note", features().astype("<f2")), ("warning", array)):
        write_split(data, "train", array=accepted)
        assert f"{severity}: " in run(capsys, data)


def test_faults_are_worded_as_in_training(data, capsys):
    (data / "train_caps.txt").write_bytes(b"one\n\nthree\n\xff\n")
    array = features()
    array[2, 1] = np.nan
    write_split(data, "dev", array=array)
    out = run(capsys, data, status=1)
    for split in ("train", "dev"):
        for fault in refusal(read_split, data, split).faults:
            assert f"error: {fault}" in out
    assert "3 errors, 0 warnings" in out


def test_lone_surrogates_in_picture_or_folder_names_are_refused(data, capsys):
    (data / "train_ids.txt").write_text("".join(f"{i}\n" for i in range(4)))
    (data / "id_mapping.json").write_text('{"0": "a", "1": "b", "2": "\\ud800.jpg", "3": "d"}')
    assert "id_mapping.json, image 2: " in run(capsys, data, status=1)
    (data / "id_mapping.json").unlink()
    moved = data.rename(os.fsdecode(os.fsencode(data) + b"\xff"))
    assert " ".join(str(refusal(read_split, moved, "train")).split()) in run(capsys, moved, status=1)


def test_train_is_required_dev_advised_and_differing_splits_are_reported(data, tmp_path, capsys):
    write_split(tmp_path / "only dev", "dev")
    assert '"train"; expected one of dev' in run(capsys, tmp_path / "only dev", status=1)
    assert re.search("warning: .*no dev split", run(capsys, write_split(tmp_path / "only train", "train")))
    folder = write_pictures(tmp_path / "only test" / "test", NAMES[:1])
    write_lines(folder / "metadata.csv", ["file_name,text", f"{NAMES[0]},a ring"])
    out = run(capsys, folder.parent, status=1)
    assert re.search('error: .*"train"; expected one of test.*warning: .*no dev split', out)
    (data / "dev_caps.txt").write_text("".join(f"caption {i}\n" for i in range(4)))
    assert "note: dev and train: 1.0 and 2.0 captions per image" in run(capsys, data)
    write_split(data, "dev", array=features(size=6))
    assert "dev and train: 6 and 5 " in run(capsys, data, status=1)
    write_split(write_split(data, "dev"), "val")
    assert re.search("warning: .* has both dev.* and val.* 0 errors, 1 warning: ", run(capsys, data))


def test_word_vector_coverage_and_the_vocabulary_are_reported(data, tmp_path, capsys):
    file = tmp_path / "v.txt"
    file.write_text("dog 1 2\na 3 4\n")
    flags = ("--word-vectors", file, "--word-size", 2)
    assert re.search("warning: .*50.0% of the words|50.0% of the words.*warning: ", run(capsys, data, *flags))
    file.write_text("dog 1 2\na 3\n")
    assert "v.txt line 2: 1 numbers instead of 2" in run(capsys, data, *flags, status=1)
    assert "expected 300" in run(capsys, data, *flags[:2], status=1)  # training's default
    assert " 9 times" in run(capsys, data, "--word-threshold", 9, status=1)
    assert "Vocabulary: 14 words" in run(capsys, data, "--word-threshold", 1)
    run(capsys, data, "--word-threshold", 0, status=2)
    write_split(data, "dev", captions=[f"a dog number {row} runs" for row in range(7)] + ["zebra crossing"])
    assert "1 captions (12.5%) contain no known word; the first: 8" in run(capsys, data)


def test_captions_of_an_unusual_name_without_features_are_noted_as_training_ignores_them(data, capsys):
    (data / "dev_bert_caps.txt").write_text("101,1037\n" * 8)
    out = run(capsys, data)
    assert "note: " in out
    assert "dev_bert_caps.txt: has no features and is not read 0 errors" in out
    (data / "test_caps.txt").write_text("a dog\n" * 8)  # features were forgotten
    assert "test_ims.npy: the file is missing" in run(capsys, data, status=1)


def test_the_only_folder_of_pictures_is_read_whatever_its_name(tmp_path, capsys):
    LAYOUTS["karpathy"](tmp_path)
    (tmp_path / "images").rename(tmp_path / "RSICD_images")
    assert "read as karpathy" in run(capsys, tmp_path)
    (tmp_path / "RSICD_images").rename(tmp_path.with_name(f"{tmp_path.name} elsewhere"))
    assert "name their folder with --pictures" in run(capsys, tmp_path, status=1)


def test_control_characters_never_reach_the_terminal(tmp_path, capsys):
    evil = "\x1b]0;owned\x07[bold red]x"
    write_split(tmp_path, ids=["../" + evil, "b", "b", evil])
    images = [{"imgid": 0, "filename": evil, "split": evil, evil: 1, "sentences": [{"raw": "a"}]}]
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "dataset.json").write_text(json.dumps({"images": images}))
    for path in (tmp_path, tmp_path / "json"):
        assert not {"\x1b", "\x07"} & set(run(capsys, path, status=1))


def test_the_demo_has_no_errors_and_leaves_a_foreign_folder_alone(tmp_path, monkeypatch, capsys):
    of_demo = run(capsys, make_demo(tmp_path / "made", images=60))
    assert "0 errors" in of_demo
    assert "have a text that another image has too" in of_demo
    # "demo" names it; a folder that holds something else is not touched
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    monkeypatch.setenv("CODER_DEMO", str(other))
    assert str(other) in run(capsys, "demo", status=1)
    assert [path.name for path in other.iterdir()] == ["mine.txt"]


def part_of_flickr8k(real, folder):
    """Write 100 images of train and 100 of dev, of which two are near-duplicates, with the pictures of all."""
    (folder / "f8k_precomp").mkdir(parents=True)
    (folder / "images").symlink_to(real / "images")
    for split, first in (("train", 1100), ("dev", 350)):
        images = slice(first, first + 100)
        texts = slice(5 * images.start, 5 * images.stop)
        features = np.load(real / "f8k_precomp" / f"{split}_ims.npy", mmap_mode="r")
        np.save(folder / "f8k_precomp" / f"{split}_ims.npy", features[images])
        for kind, rows in (("ids", images), ("caps", texts)):
            lines = (real / "f8k_precomp" / f"{split}_{kind}.txt").read_text().splitlines(keepends=True)
            (folder / "f8k_precomp" / f"{split}_{kind}.txt").write_text("".join(lines[rows]))
    return folder


def test_real_flickr8k_has_no_errors(tmp_path, capsys):
    """All features and captions; 200 of the 7,000 pictures, whose decoding takes half a minute."""
    real = real_flickr8k()
    vectors = ["--word-vectors", real / "glove_50d_flickr8k_words.txt", "--word-size", 50]
    out = run(capsys, shutil.copytree(real / "f8k_precomp", tmp_path / "whole"), *vectors)
    for text in ("6,000", "30,000", "1,000 × 36 × 128", "float16", "97.", "0 errors, 1 warning"):
        assert text in out
    out = run(capsys, part_of_flickr8k(real, tmp_path / "part"))
    assert "1 groups of near-duplicates" in out
    assert "train 44, dev 53" in out


def test_content_is_checked_for_a_data_set_and_for_a_run(data, tmp_path, capsys):
    captions = (data / "dev_caps.txt").read_text().splitlines()
    (data / "dev_caps.txt").write_text("\n".join([captions[1].upper(), *captions[1:]]) + "\n")
    progress = tmp_path / "progress.json"
    assert main([str(data), "--content", f"--progress={progress}", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)["content"]
    assert list(content["splits"]) == content["without_pictures"]
    groups = [{tuple(sample) for sample in group["samples"]} for group in content["duplicate_captions"]]
    assert any({("dev", 0), ("dev", 1)} <= group for group in groups)
    assert json.loads(progress.read_text())["state"] == "finished"
    assert "near-duplicate captions" in run(capsys, data, "--content")
    folder = write_run(tmp_path / "runs", "demo", images=6)
    assert "Content of dev" in run(capsys, folder, "--content")
    assert "--content" in run(capsys, folder, status=1)


def test_content_of_two_half_trained_runs_lists_mismatched_pairs(data, tmp_path, capsys):
    halves, wrong = write_halves(tmp_path / "runs")
    assert main([*map(str, halves), "--content", "--json"]) == 0
    mismatched = json.loads(capsys.readouterr().out)["mismatched"]
    captions = [pair["caption"] for pair in mismatched]
    assert wrong[captions[:10]].all()
    assert {pair["scorer"] for pair in mismatched} == {"half", "other-half"}
    assert f"word{captions[0]} " in run(capsys, *halves, "--content")
    assert "--other-part" in run(capsys, halves[0], halves[0], "--content", status=1)
    assert str(data) in run(capsys, data, halves[0], "--content", status=1)
