"""Several right answers of a query (`coder_core.api.retrieval.several`), by hand."""

import warnings

import numpy as np
import pytest

import coder_core
from coder_core.api import open_run
from coder_core.api.retrieval.several import SharedAnswers, also_right, shared_answers

OWNER = np.array([0, 0, 1, 2, 3])
TEXTS = ["a shoe", "red ", "red", "a shoe", "a hat"]


@pytest.fixture
def logged(tmp_path):
    """Return a function that logs four images with five captions as a run, and opens it."""
    random = np.random.default_rng(0)

    def log(captions=TEXTS, owner=OWNER, **values):
        images = random.normal(size=(4, 8))
        texts = random.normal(size=(len(captions), 8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # no better than chance
            coder_core.log_split(
                tmp_path / "run", "dev", images, texts, captions=captions, image_of_text=owner, **values
            )
        return open_run(tmp_path / "run")

    return log


def test_samples_of_a_group_and_of_equal_texts_are_right_too(logged):
    """Images 1 and 3 are of one group; image 2 has a text of image 0, image 1 another one."""
    run = logged(groups=["x", "y", "z", "y"])
    assert also_right(run, "dev", "t2i", 0) == {2: "same text"}
    assert also_right(run, "dev", "t2i", 2) == {0: "same text", 3: "same group"}
    assert also_right(run, "dev", "t2i", 4) == {1: "same group"}
    assert also_right(run, "dev", "i2t", 0) == {2: "same text", 3: "same text"}
    assert also_right(run, "dev", "i2t", 1) == {1: "same text", 4: "same group"}
    assert also_right(run, "dev", "i2t", 3) == {2: "same group"}
    assert shared_answers(run, "dev") == SharedAnswers(1, 4)


def test_without_groups_only_equal_texts_are_right_too(logged):
    run = logged()
    assert also_right(run, "dev", "t2i", 4) == {}
    assert also_right(run, "dev", "i2t", 3) == {}
    assert shared_answers(run, "dev") == SharedAnswers(0, 4)


def test_texts_that_only_images_of_one_group_share_do_not_count(logged):
    run = logged(captions=["a", "b", "red", "c", "red"], groups=["x", "y", "z", "y"])
    assert shared_answers(run, "dev") == SharedAnswers(1, 0)


def test_equal_texts_are_reported_from_more_than_one_percent(logged):
    captions = ["red", "red", *(f"shoe {number}" for number in range(198))]
    owner = np.arange(200) % 4
    assert shared_answers(logged(captions, owner), "dev") == SharedAnswers(0, 0)
    assert shared_answers(logged(captions[:199], owner[:199]), "dev") == SharedAnswers(0, 2)


def test_judges_decide_in_a_search_log(logged):
    run = logged(
        captions=["red", "red"], owner=None, judgements=[[0, 0, 1], [1, 1, 1]], groups=["x", "x", "y", "y"]
    )
    assert shared_answers(run, "dev") == SharedAnswers(0, 0)
    assert also_right(run, "dev", "t2i", 0) == {}
