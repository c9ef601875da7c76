"""Crops stay inside the picture and keep most of it; a mirror image never contradicts its caption."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from coder_core.data.augmentation import Change, change_picture, draw_changes, names_side

PLAIN = ["a dog runs"] * 200


@pytest.mark.parametrize(
    "caption",
    [
        "A dog left of a ball",
        "the RIGHT hand",
        "a left-handed player",
        "the rightmost of three",
        "it turns clockwise",
    ],
)
def test_a_caption_that_names_a_side_is_never_mirrored(caption: str) -> None:
    assert names_side(caption)
    changes = draw_changes("crop-flip", [caption, *PLAIN], np.random.default_rng(0))
    assert not changes[0].flip
    assert 60 < sum(change.flip for change in changes) < 140
    assert not any(change.flip for change in draw_changes("crop", PLAIN, np.random.default_rng(0)))


def test_words_that_only_contain_a_side_may_be_mirrored() -> None:
    assert not names_side("a bright cleft")


def test_crops_keep_nine_tenths_of_the_area_inside_the_picture() -> None:
    picture = Image.fromarray(np.arange(60 * 80, dtype=np.uint16).astype(np.uint8).reshape(60, 80)).convert(
        "RGB"
    )
    for change in draw_changes("crop", PLAIN, np.random.default_rng(1)):
        cropped = change_picture(picture, change)
        assert 0.88 < cropped.width * cropped.height / (60 * 80) <= 1
    whole = np.asarray(picture)
    assert np.array_equal(np.asarray(change_picture(picture, Change(1.0, 0.5, 0.5, False))), whole)
    assert np.array_equal(np.asarray(change_picture(picture, Change(1.0, 0.5, 0.5, True))), whole[:, ::-1])


def test_the_draws_of_a_pair_do_not_depend_on_other_captions() -> None:
    sided = draw_changes("crop-flip", ["on the left", *PLAIN], np.random.default_rng(3))
    plain = draw_changes("crop-flip", ["a dog", *PLAIN], np.random.default_rng(3))
    assert sided[1:] == plain[1:]
    assert sided[0][:3] == plain[0][:3]
