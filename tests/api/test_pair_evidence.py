"""All evidence of a pair, and a classifier that tells given pairs from drawn ones."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from coder_core.api import pair_evidence
from coder_core.api.data_quality import NEIGHBOURS
from coder_core.api.pair_evidence import (
    CaptionEvidence,
    Placed,
    PlacedCaptions,
    given_and_drawn,
    like_images,
    told_apart,
)
from coder_core.geometry.text_space import unit_rows
from tests.reference import regression as reference


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(pair_evidence, "TREES", 15)


def unit(random, *shape):
    return unit_rows(random.normal(size=shape).astype(np.float32))


def test_every_kind_of_evidence_agrees_with_a_loop_over_pairs(monkeypatch):
    monkeypatch.setattr(pair_evidence, "LIKE_IMAGES", 4)
    monkeypatch.setattr(pair_evidence, "AT_ONCE", 7)
    random = np.random.default_rng(0)
    owner = np.array([*range(14), *random.integers(0, 14, 16)])
    owner[owner == 3] = 4  # an image without captions; others have one, which stands beside none
    pictures, predicted, texts = unit(random, 14, 5), unit(random, 30, 5), unit(random, 30, 6)
    weights = random.uniform(0.01, 1, 30)
    like = like_images(pictures)
    evidence = CaptionEvidence(pictures, PlacedCaptions(texts, predicted, owner, weights), like)
    for placed in given_and_drawn(owner):
        expected = [
            reference.pair_evidence(pictures, predicted, texts, owner, weights, pair, NEIGHBOURS, 4)
            for pair in zip(*placed, strict=True)
        ]
        found = evidence.of(placed)
        np.testing.assert_allclose(found, expected, atol=2e-6)
        assert (found[:, 3] == 0).any(), "a caption without others"


def test_captions_are_drawn_into_the_places_of_other_images():
    owner = np.array([0] * 50 + [1] * 3)
    given, drawn = given_and_drawn(owner)
    assert (given.captions == given.places).all()
    assert sorted(drawn.captions) == list(range(53))
    assert (owner[drawn.places] != owner).all()


def test_an_image_is_not_like_itself_even_beside_a_copy():
    pictures = unit(np.random.default_rng(0), 6, 4)[[0, 1, 2, 3, 4, 5, 2]]
    rows, cosines = like_images(pictures)
    assert rows.shape == (7, 6)
    assert not (rows == np.arange(7)[:, None]).any()
    assert rows[2, 0] == 6
    np.testing.assert_allclose(cosines[2, 0], 1, atol=1e-6)


def test_wrong_pairs_are_found_and_judged_as_drawn_ones_are():
    random = np.random.default_rng(0)
    right = random.random(4_000) < 0.5
    drawn = random.normal(size=(4_000, 2))
    given = random.normal(size=(4_000, 2)) + 3 * right[:, None] * [1, 0]
    score, of_drawn = told_apart(given, drawn, *random.integers(0, 5, (2, 4_000)))
    assert roc_auc_score(~right, score) > 0.95
    is_drawn = np.repeat([False, True], [(~right).sum(), 4_000])
    assert abs(roc_auc_score(is_drawn, [*score[~right], *of_drawn]) - 0.5) < 0.02


def test_pairs_are_judged_without_the_pairs_of_their_part():
    random = np.random.default_rng(0)
    parts = np.arange(2_000) % 5
    drawn = random.normal(size=(2_000, 2))
    given = np.flip(drawn, 0) + np.array([1, 0])
    first = 0  # a pair of part 0, which stays as it is
    changed = given.copy()
    changed[(parts == 0) & (np.arange(2_000) != first)] += 5
    before, after = (told_apart(pairs, drawn, parts, parts)[0] for pairs in (given, changed))
    assert before[first] == after[first]
    assert (before != after)[parts == 1].any()


def test_equal_evidence_gives_equal_suspicion():
    same = np.zeros((300, 8))
    score, drawn = told_apart(same, same, np.arange(300) % 5, np.arange(300) % 5)
    assert np.ptp(score) == pytest.approx(0, abs=1e-6)
    assert np.ptp(drawn) == pytest.approx(0, abs=1e-6)


def test_the_place_does_not_count_as_an_other_caption():
    random = np.random.default_rng(0)
    owner = np.array([0, 1, 1])
    pictures, predicted, texts = unit(random, 2, 5), unit(random, 3, 5), unit(random, 3, 6)
    weights = np.array([1.0, 0.01, 0.25])  # the least weight still counts
    evidence = CaptionEvidence(
        pictures, PlacedCaptions(texts, predicted, owner, weights), like_images(pictures)
    )
    found = evidence.of(Placed(np.array([0, 0, 1]), np.array([1, 2, 0])))
    np.testing.assert_allclose(found[:, 3], [0.25, 0.01, 0])
    np.testing.assert_allclose(found[:2, 4], [texts[0] @ texts[2], texts[0] @ texts[1]], atol=1e-6)
    assert found[2, 4] == 0
