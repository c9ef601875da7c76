"""Wrong captions found by a regression from captions to pictures."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from coder_core.api import pair_evidence
from coder_core.api.regression import (
    PARTS,
    RIDGE,
    _picture_vectors,
    _predicted_pictures,
    _with_mean,
    regression_suspicion,
    tells_apart,
)
from coder_core.data.augmentation import exchange_captions
from tests.reference.regression import predictions
from tests.support.precomp_folders import assert_refused

WORDS = tuple(f"word{letter}" for letter in "abcdefghijklmnopqrst")


def shown_and_told(images, seed):
    """Return features of three regions, each a noisy code of a word; three captions that name the words; their image."""
    random = np.random.default_rng(seed)
    codes = random.normal(size=(len(WORDS), 16))
    scenes = np.array([random.choice(len(WORDS), 3, replace=False) for _ in range(images)])
    features = codes[scenes] + 0.5 * random.normal(size=(images, 3, 16))
    told = [" ".join(WORDS[word] for word in random.permutation(scene)) for scene in scenes.repeat(3, 0)]
    return features.astype(np.float32), told, np.arange(images).repeat(3)


def test_predictions_agree_with_a_least_squares_problem_per_caption():
    random = np.random.default_rng(0)
    owner = random.integers(0, 2 * PARTS, 30)
    texts = random.normal(size=(30, 4)).astype(np.float32)
    pictures = random.normal(size=(2 * PARTS, 3)).astype(np.float32)
    weights = random.uniform(0.01, 1, 30)
    part = np.arange(2 * PARTS) % PARTS
    predicted = _predicted_pictures(texts, pictures, owner, weights, part)
    expected = predictions(texts.tolist(), pictures.tolist(), owner.tolist(), weights.tolist(), part, RIDGE)
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)


def test_a_caption_s_own_image_does_not_change_its_prediction():
    features, _, owner = shown_and_told(20, 0)
    texts = np.random.default_rng(1).normal(size=(len(owner), 4)).astype(np.float32)
    part = np.arange(20) % PARTS
    pictures = _picture_vectors(features)
    changed = pictures.copy()
    changed[7] += 10
    weights = np.ones(len(owner))
    before = _predicted_pictures(texts, pictures, owner, weights, part)
    after = _predicted_pictures(texts, changed, owner, weights, part)
    same_part = part[owner] == part[7]
    assert (before == after).all(1)[same_part].all()
    assert not (before == after).all(1)[~same_part].any()


def test_lengths_of_regions_and_a_constant_feature_do_not_matter():
    features, _, _ = shown_and_told(20, 0)
    features[..., -1] = 0
    vectors = _picture_vectors(features)
    longer = features * np.random.default_rng(1).uniform(0.5, 2, (*features.shape[:2], 1)).astype(np.float32)
    np.testing.assert_allclose(_picture_vectors(longer), vectors, atol=1e-4)
    assert not vectors[:, -1].any()
    np.testing.assert_allclose(vectors[:, :-1].std(0), 1, atol=1e-4)
    np.testing.assert_array_equal(_picture_vectors(features[:, 0]), _picture_vectors(features[:, :1]))


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_exchanged_captions_come_first(share, monkeypatch):
    monkeypatch.setattr(pair_evidence, "TREES", 40)
    features, told, owner = shown_and_told(300, 2)
    rows = exchange_captions(owner, share, 3)
    table = regression_suspicion(features, [told[row] for row in rows], owner)
    wrong = (rows != np.arange(len(rows)))[table["caption"]]
    assert sorted(table["caption"]) == list(range(len(owner)))
    assert (owner[table["caption"]] == table["image"]).all()
    assert (np.diff(table["score"]) <= 0).all()
    assert roc_auc_score(wrong, table["score"]) > 0.9
    assert abs(table["probability"].mean() - share) < 0.1


@pytest.mark.parametrize(("noise", "convincing"), [(0, True), (2, False)])
def test_features_that_show_little_of_what_captions_tell_are_weak_evidence(noise, convincing, monkeypatch):
    """With one caption per image nothing else speaks for a pair."""
    monkeypatch.setattr(pair_evidence, "TREES", 40)
    features, told, owner = shown_and_told(300, 2)
    unclear = features + noise * np.random.default_rng(0).normal(size=features.shape).astype(np.float32)
    table = regression_suspicion(unclear, told[::3], owner[::3])
    assert tells_apart(table) == convincing


def test_too_few_images_and_captions_without_common_words_are_refused():
    for images, differ in ((PARTS - 1, False), (30, True)):
        features, told, owner = shown_and_told(images, 0)
        captions = [f"caption{row}" for row in range(len(told))] if differ else told
        assert_refused("--clean-by regression: .* halves", regression_suspicion, features, captions, owner)


def test_odds_are_raised_by_one_factor_to_a_mean():
    probability = np.array([0, 0.1, 0.5, 0.9, 1])
    raised = _with_mean(probability, 0.7)
    assert raised.mean() == pytest.approx(0.7)
    assert raised[[0, -1]].tolist() == [0, 1]
    odds = raised[1:-1] / (1 - raised[1:-1]) / (probability[1:-1] / (1 - probability[1:-1]))
    np.testing.assert_allclose(odds, odds[0])
    for out_of_reach in (0.1, 0.9):  # the certain one alone is 0.2
        np.testing.assert_array_equal(_with_mean(probability, out_of_reach), probability)
