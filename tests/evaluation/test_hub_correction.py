"""Hub correction: biases against loops in float64, one set of scores for both directions, the choice of k and α."""

import numpy as np
import pytest

from coder_core.evaluation.hub_correction import (
    NEIGHBOURS,
    STRENGTHS,
    Strength,
    choose_strengths,
    corrected,
    hub_biases,
)
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix, mixture
from tests.reference.ranking import every_score
from tests.support.run_folders import unit


def ranks(sources, owner):
    return rank(check_scores(sources), Relevance.of_labels(owner, sources[0].shape[0]))


def unit_rows(random, count, size):
    return unit(random.standard_normal((count, size)))


def test_biases_are_means_of_the_k_largest_scores_and_correct_the_ranks():
    random = np.random.default_rng(0)
    wide, narrow = ((unit_rows(random, 30, size), unit_rows(random, 50, size)) for size in (8, 4))
    pairs = mixture(*wide, narrow, 0.9)
    biases = hub_biases(pairs, (1, 7, 50))
    for candidate, scores in enumerate(every_score([(pair.image, pair.text, pair.weight) for pair in pairs])):
        largest = sorted(scores.tolist(), reverse=True)
        np.testing.assert_allclose(biases[candidate], [sum(largest[:k]) / k for k in (1, 7, 50)], atol=1e-6)
    for k in (0, 51):
        with pytest.raises(ValueError, match="from 1 to the 50 reference queries"):
            hub_biases(pairs, (k,))
    random = np.random.default_rng(1)
    images = unit_rows(random, 40, 6)
    texts = unit_rows(random, 120, 6)
    owner = np.arange(120) % 40
    image_bias = random.random(40).astype(np.float32)
    text_bias = random.random(120).astype(np.float32)
    both = ranks(corrected([EmbeddingPair(images, texts)], image_bias, text_bias), owner)
    scores = images.astype(np.float64) @ texts.T.astype(np.float64)
    by_image = ranks([ScoreMatrix((scores - text_bias[None]).astype(np.float32))], owner)
    by_text = ranks([ScoreMatrix((scores - image_bias[:, None]).astype(np.float32))], owner)
    np.testing.assert_array_equal(both.i2t.first, by_image.i2t.first)
    np.testing.assert_array_equal(both.t2i.first, by_text.t2i.first)
    np.testing.assert_array_equal(both.t2i.best, by_text.t2i.best)


def test_chosen_strengths_remove_a_hub_and_leave_other_scores_alone():
    """Image 0 is a hub: it scores high with every caption, including those of training."""
    random = np.random.default_rng(2)
    images = unit_rows(random, 60, 16)
    texts = images + 0.05 * random.standard_normal((60, 16))
    train = unit_rows(random, 200, 16)
    shared = np.concatenate([np.ones((1, 1)), np.zeros((59, 1))])
    hub = EmbeddingPair(np.hstack([images, 1.5 * shared]), np.hstack([texts, np.ones((60, 1))]))
    image_biases = hub_biases([EmbeddingPair(hub.image, np.hstack([train, np.ones((200, 1))]))], (1, 4, 16))
    i2t, t2i = choose_strengths([hub], np.arange(60), image_biases, np.zeros((60, 3)), (1, 4, 16))
    assert i2t == Strength(1, 0.0)
    assert t2i.alpha > 0
    bias = image_biases[:, (1, 4, 16).index(t2i.k)] * t2i.alpha
    before = ranks([hub], np.arange(60)).t2i.first
    after = ranks(corrected([hub], bias, np.zeros(60)), np.arange(60)).t2i.first
    assert (before > 0).mean() > 0.9
    assert (after == 0).all()


@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("column", range(5))
def test_every_number_of_neighbours_and_every_strength_is_tried(column, alpha):
    """Image 0 has a bias of 1. Caption 1 finds its image only if more than α − 0.1 of it is subtracted, caption 0 only if
    less than α + 0.1 is."""
    scores = np.array([[0.2 + alpha + 0.1, 0.2 + alpha - 0.1, -9], [-9, 0.2, -9], [0.2, -9, 0.2]])
    biases = np.zeros((3, 5))
    biases[0, column] = 1
    matrix = [ScoreMatrix(scores)]
    _, t2i = choose_strengths(matrix, np.arange(3), biases, np.zeros((3, 5)))
    assert (NEIGHBOURS[column], alpha) == (t2i.k, t2i.alpha)
    i2t, _ = choose_strengths([ScoreMatrix(scores.T)], np.arange(3), np.zeros((3, 5)), biases)
    assert i2t == t2i


def test_the_grid_of_corrections_is_the_documented_one():
    assert NEIGHBOURS == (1, 4, 16, 64, 128)
    assert STRENGTHS == (0.25, 0.5, 0.75, 1.0)
