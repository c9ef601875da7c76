"""A data set described in plain values (`coder_core.data.survey`), by hand, and the number of decoding processes."""

import os

import numpy as np
import pytest

from coder_core.config.data import ReadingArguments
from coder_core.console.output import silent
from coder_core.data.captioned import decoding
from coder_core.data.survey import Checks, describe_survey, survey
from tests.support.precomp_folders import features, write_split

CAPTIONS = ["a dog", "a red dog runs", "zebra", "a", "dog dog a", "a dog", "xylophone", "a a a a a a"]


def described(folder, threshold=2):
    checks = Checks(None, None, threshold, values=True)
    found = survey(folder, ReadingArguments(), None, checks, silent, of_pictures=False)
    return found, describe_survey(found, batch_size=10)


def test_counts_sizes_and_words_of_a_split_are_those_of_its_files(tmp_path):
    write_split(tmp_path, "train", captions=CAPTIONS)
    write_split(tmp_path, "dev", array=features(2), captions=CAPTIONS[:4])
    found, document = described(tmp_path)
    assert document["usable"] is True
    train, dev = document["splits"]
    assert (train["name"], train["images"], train["captions"]) == ("train", 4, 8)
    assert (dev["name"], dev["images"], dev["captions"]) == ("dev", 2, 4)
    assert train["captions_an_image"] == [2, 2.0, 2]
    assert (train["shape"], train["dtype"]) == ([4, 3, 5], "float32")
    assert train["bytes_on_disk"] == 4 * 3 * 5 * 4
    assert train["bytes_a_batch"] == 10 * 3 * 5 * 4
    lengths = [2, 4, 1, 1, 3, 2, 1, 6]
    assert train["words_a_caption"] == pytest.approx(np.percentile(lengths, [0, 50, 99, 100]).tolist())
    assert train["mean_words_a_caption"] == 2.5
    assert train["unknown_words"] == pytest.approx(4 / 20)  # red, runs, zebra, xylophone
    assert document["vocabulary"] == 4  # a and dog, and the two special ones
    assert document["word_vectors"] is None
    [unknown] = [
        fault for fault in found.faults if "contain no known word" in fault.found and "train" in fault.place
    ]
    assert unknown.found.startswith("2 captions (25.0%) contain no known word; the first: 3, 7")


def test_missing_splits_are_faults_and_errors_come_first(tmp_path):
    write_split(tmp_path, "train", captions=CAPTIONS)
    found, document = described(tmp_path)
    assert document["usable"] is True
    assert "there is no dev split, so no epoch can be chosen as the best" in [
        fault.found for fault in found.faults
    ]
    severities = [fault.severity for fault in found.faults]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    write_split(tmp_path / "other", "val", captions=CAPTIONS)
    found, document = described(tmp_path / "other")
    assert document["usable"] is False
    assert document["vocabulary"] is None
    assert found.faults[0].severity == "error"
    assert not any("no dev split" in fault.found for fault in found.faults)
    found, document = described(tmp_path, threshold=8)
    assert document["vocabulary"] is not None
    found, document = described(tmp_path, threshold=100)
    assert (document["usable"], document["vocabulary"]) == (False, None)


@pytest.mark.parametrize(
    ("processors", "device", "workers"),
    [
        (1, "cpu", 1),
        (7, "cpu", 1),
        (8, "cpu", 2),
        (80, "cpu", 16),
        (1, "cuda", 1),
        (8, "cuda", 7),
        (80, "cuda", 16),
    ],
)
def test_a_quarter_of_the_processors_decode_or_all_but_one_beside_a_gpu(
    monkeypatch, processors, device, workers
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(processors), raising=False)
    assert decoding.usual_workers(device) == workers
