"""Cleaned data sets: the layout they came in, what was left out and added, and that training sees the same."""

import json
import re

import numpy as np
import pytest
import torch

from coder_core.data.captioned.reading import read_captioned
from coder_core.data.dataset import read_split
from coder_core.data.reviews import Review, append_review, image_keys
from coder_core.embedding.exports.cleaned import WRITTEN
from coder_core.reviews import main
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import named_reviews
from tests.support.picture_folders import CAPTIONS, NAMES, coco, flickr8k, flickr30k_results, kaggle, precomp
from tests.support.precomp_folders import features, write_split
from tests.support.tiny_runs import tiny_config


def export(data, folder, *verdicts):
    """Record verdicts and return the arguments that write the data, corrected by them, to `folder`/clean."""
    path = folder / "reviews.jsonl"
    for image, caption, verdict in verdicts:
        append_review(path, Review(image, caption, verdict, "anna"))
    return ["export", str(data), "--reviews", str(path), "--out", str(folder / "clean")]


def test_cleaned_precomp_data_omits_wrong_captions_and_adds_matches(tmp_path, monkeypatch, capsys, complaint):
    names = ["a.jpg", "b.jpg", "c.jpg"]
    captions = [f"{kind} of {name}" for name in names for kind in ("first", "second")]
    data = write_split(tmp_path / "data", "train", array=features(3), captions=captions, ids=names)
    verdicts = [("a.jpg", f"{kind} of a.jpg", "wrong-caption") for kind in ("first", "second")]
    verdicts += [("b.jpg", "second of b.jpg", "too-vague")]
    verdicts += [(image, "first of a.jpg", "also-matches") for image in ("c.jpg", "z.jpg")]
    command = export(data, tmp_path, *verdicts)
    assert main(command) == 0
    assert re.findall(r": (\d+)", " ".join(capsys.readouterr().out.split())) == ["2", "1", "1", "1"]
    cleaned = read_split(tmp_path / "clean", "train")
    before = read_split(data, "train")
    assert cleaned.captions == [*captions[2:], "first of a.jpg"]
    assert cleaned.image_names == ["b.jpg", "c.jpg"]
    assert cleaned.image_of_text.tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(cleaned.features, before.features[1:])
    report = json.loads((tmp_path / "clean" / "cleaned.json").read_text())
    assert report["left_out"][0] == ["train", "a.jpg", "first of a.jpg", "wrong-caption"]
    assert report["added"] == [["train", "c.jpg", "first of a.jpg", "also-matches"]]
    assert str(tmp_path / "clean") in complaint(main, command)
    (data / "demo.json").touch()
    monkeypatch.setenv("CODER_DEMO", str(data))
    command[1] = "demo"
    assert main([*command[:-1], str(tmp_path / "more"), "--leave-out", "too-vague", "--no-add-matches"]) == 0
    assert read_split(tmp_path / "more", "train").captions == [*captions[:3], *captions[4:]]


def test_training_on_cleaned_data_equals_training_with_reviews(data, tmp_path):
    train = read_split(data, "train")
    keys = image_keys(train.image_names, train.captions, train.image_of_text, train.n_images)
    rows = [0, 1, 7, 12]  # image 0 loses both
    pairs = [(keys[train.image_of_text[row]], train.captions[row]) for row in rows]
    assert main(export(data, tmp_path, *((*pair, "wrong-caption") for pair in pairs))) == 0
    cleaned = prepare(tiny_config(tmp_path / "clean"))
    config = tiny_config(data, reviews=str(tmp_path / "reviews.jsonl"))
    reviewed = prepare(config, Inputs(reviews=named_reviews(config)))
    assert cleaned.batches.per_epoch == reviewed.batches.per_epoch > 0
    for step in range(cleaned.batches.per_epoch):
        for part in ("regions", "region_lengths", "words", "word_lengths"):
            batches = (getattr(prepared.batches(step), part) for prepared in (cleaned, reviewed))
            torch.testing.assert_close(*batches, rtol=0, atol=0)


@pytest.mark.parametrize("write", [flickr8k, flickr30k_results, kaggle, precomp])
def test_captions_without_features_are_cleaned(tmp_path, write):
    data = tmp_path / "data"
    write(data)
    first = NAMES[0]
    other = NAMES[1]
    wrong = (first, CAPTIONS[first][0], "wrong-caption")
    match = (other, CAPTIONS[first][1], "also-matches")
    before = read_captioned(data).splits
    assert main(export(data, tmp_path, wrong, match, (other, "no such caption", "duplicate"))) == 0
    pictures = next(data.rglob(first)).parent
    after = read_captioned(tmp_path / "clean", pictures=pictures)
    assert not [fault for fault in after.faults if fault.severity == "error"]

    def pairs(splits):
        rows = [(split, text, image) for split in splits for text, image in enumerate(split.image_of_text)]
        return {(split.name, split.image_names[image], split.captions[text]) for split, text, image in rows}

    split_of = {name: split.name for split in before for name in split.image_names}
    is_added = split_of[first] == split_of[other] or write is not flickr8k
    added = {(split_of[other], other, CAPTIONS[first][1])} if is_added else set()
    assert pairs(after.splits) == pairs(before) - {(split_of[first], first, CAPTIONS[first][0])} | added
    assert json.loads((tmp_path / "clean" / "cleaned.json").read_text())["elsewhere"] == 1


def test_other_layouts_are_refused_by_name(tmp_path, capsys):
    coco(tmp_path / "data")
    assert main(export(tmp_path / "data", tmp_path, (NAMES[0], CAPTIONS[NAMES[0]][0], "wrong-caption"))) == 1
    assert WRITTEN in capsys.readouterr().err
    assert not (tmp_path / "clean").exists()
