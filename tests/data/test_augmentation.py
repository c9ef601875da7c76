"""Crops keep captions true; vague and exchanged captions: their share, and nothing else of a run's data changes."""

import numpy as np
import pytest
from PIL import Image

from coder_core.data import augmentation
from coder_core.data.augmentation import change_picture, draw_changes, exchange_captions, make_vague
from coder_core.training.prepare import prepare
from tests.support.precomp_folders import refusal
from tests.support.tiny_runs import tiny_config, write_tiny_data

PLAIN = ["a dog runs"] * 200
SIDED = ["A dog left of a ball", "the RIGHT hand", "a left-handed player", "the rightmost of three"]
CAPTIONS = [f"{number} dogs chase a red ball" for number in range(100)]


@pytest.mark.parametrize("caption", [*SIDED, "it turns clockwise"])
def test_a_caption_that_names_a_side_is_never_mirrored(caption):
    assert augmentation.names_side(caption)
    assert not augmentation.names_side("a bright cleft")
    changes = draw_changes("crop-flip", [caption, *PLAIN], np.random.default_rng(0))
    assert not changes[0].flip
    assert 60 < sum(change.flip for change in changes) < 140
    assert not any(change.flip for change in draw_changes("crop", PLAIN, np.random.default_rng(0)))
    plain = draw_changes("crop-flip", ["a dog", *PLAIN], np.random.default_rng(0))
    assert changes[1:] == plain[1:]  # the draws do not depend on other captions
    assert changes[0][:3] == plain[0][:3]


def test_crops_keep_nine_tenths_of_the_area_inside_the_picture():
    whole = np.arange(60 * 80 * 3, dtype=np.uint32).astype(np.uint8).reshape(60, 80, 3)
    picture = Image.fromarray(whole)
    for change in draw_changes("crop", PLAIN, np.random.default_rng(1)):
        cropped = change_picture(picture, change)
        assert 0.88 < cropped.width * cropped.height / (60 * 80) <= 1
    for flip, expected in ((False, whole), (True, whole[:, ::-1])):
        change = augmentation.Change(1.0, 0.5, 0.5, flip)
        assert np.array_equal(np.asarray(change_picture(picture, change)), expected)


def changed(captions):
    return {row for row, pair in enumerate(zip(captions, CAPTIONS, strict=True)) if pair[0] != pair[1]}


def test_the_share_of_vague_captions_is_exact_and_half_are_cut():
    for share in (0.0, 0.1, 0.25, 1.0):
        vague = make_vague(CAPTIONS, share, seed=3)
        assert len(changed(vague)) == round(share * 100)
        assert vague.count("animals") == round(share * 100) // 2
    small, large, other = (make_vague(CAPTIONS, *draw) for draw in ((0.2, 1), (0.4, 1), (0.2, 2)))
    assert changed(small) < changed(large)
    assert all(large[row] == small[row] for row in changed(small))
    assert changed(other) != changed(small)
    assert make_vague(CAPTIONS, 0.2, 1) == small


@pytest.mark.parametrize(
    ("caption", "coarse", "short"),
    [
        ("A man rides an old bike .", "A person rides an old vehicle .", "a person"),
        ("A dog", "An animal", "an animal"),
        ("An elephant in a T-shirt", "An animal in a clothes", "an animal"),
        ("Children near the lake", "people near the water", "people"),
        ("it is dark", "it is dark", "a picture"),
        ("", "", "a picture"),
    ],
)
def test_nouns_become_coarser_and_articles_fit(caption, coarse, short):
    assert (augmentation.coarsen(caption), augmentation.cut(caption)) == (coarse, short)
    nouns = [word for words in augmentation.COARSE.values() for word in words.split()]
    assert len(augmentation.COARSE_OF) == len(nouns)  # a word has one coarser word
    assert not set(augmentation.COARSE) & set(nouns)  # which is not made coarser again


def test_vague_exchanged_or_omitted_captions_change_only_train(tmp_path):
    data = write_tiny_data(tmp_path)
    exchanged = {"wrong_captions": 0.5}
    values = ({}, {"vague_captions": 0.5}, exchanged, exchanged | {"omit_wrong": True})
    plain, vague, wrong, true = (prepare(tiny_config(data, seed=0, **changes)).data for changes in values)
    assert vague.train.captions == make_vague(plain.train.captions, 0.5, seed=0) != plain.train.captions
    assert vague.dev.captions == plain.dev.captions
    assert vague.checksums == plain.checksums  # of the data as it is on disk
    rows = exchange_captions(plain.train.image_of_text, 0.5, seed=0)
    assert wrong.train.captions == [plain.train.captions[row] for row in rows]
    assert np.array_equal(wrong.train.image_of_text, plain.train.image_of_text)
    stay = np.flatnonzero(rows == np.arange(40))
    assert true.train.captions == [plain.train.captions[row] for row in stay]
    assert true.train.image_of_text.tolist() == (stay // 2).tolist()
    assert wrong.dev.captions == true.dev.captions == plain.dev.captions
    checksums = {split.checksums["train_captions"] for split in (plain, wrong, true)}
    assert len(checksums) == 3, "evaluate reads them"
    assert wrong.checksums["dev_captions"] == plain.checksums["dev_captions"]


@pytest.mark.parametrize("per_image", [1, 5])
def test_an_exchanged_caption_never_keeps_its_image_and_the_share_is_exact(per_image):
    owner = np.repeat(np.arange(100 // per_image), per_image)
    for share, seed in ((0.0, 0), (0.1, 1), (0.4, 2), (1.0, 3)):
        rows = exchange_captions(owner, share, seed)
        moved = rows != np.arange(100)
        assert (sorted(rows), moved.sum()) == (list(range(100)), round(share * 100))
        assert (owner[rows] != owner)[moved].all()
        assert np.array_equal(rows, exchange_captions(owner, share, seed))
    exchanged = (exchange_captions(owner, *draw) for draw in ((0.2, 1), (0.4, 1), (0.2, 2)))
    small, large, other = (rows != np.arange(100) for rows in exchanged)
    assert large[small].all()
    assert (small != other).any()


def test_captions_of_too_few_images_cannot_be_exchanged():
    half = np.repeat([0, 1], 5)
    for seed in range(20):
        assert (half[exchange_captions(half, 1.0, seed)] != half).all(), "only one way is left"
    for owner, share in ((np.array([0, 0, 0, 1, 1]), 1.0), (np.arange(10), 0.1)):
        refusal(exchange_captions, owner, share, 0)
