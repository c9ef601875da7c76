"""c-way accuracy against loops over every question, and what is refused."""

import numpy as np
import pytest

from coder_core.evaluation import c_way
from coder_core.evaluation.c_way import DIRECTIONS, Protocol, c_way_accuracy, draw, most_options
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.evaluation.relevance import Queries
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from tests.evaluation.test_recall import correlated
from tests.reference.ranking import score
from tests.support.precomp_folders import assert_refused

REPEATS = 3


def small(seed=0):
    """Return twelve images and 40 shuffled captions, some images and captions equal, so that scores tie."""
    v, w, owner = correlated(12, 40, seed)
    shuffled = np.random.default_rng(seed).permutation(40)
    w = w[shuffled]
    owner = owner[shuffled]
    w[:6] = w[0]
    v[3] = v[4]
    return check_scores([EmbeddingPair(v, w)]), owner


def loops(scored, owner, c, most, direction, ties, seed, queries=None):
    """Return the accuracy of each repeat in percent, by loops over questions and options."""
    (pair,) = scored.sources
    owner = owner.tolist()
    v = pair.image.numpy()
    w = pair.text.numpy()
    by_image = sorted(range(len(w)), key=lambda j: (owner[j], j))
    questions = by_image if direction == "i2t" else list(range(len(w)))
    if queries is not None:
        questions = [j for j in questions if (owner[j] if direction == "i2t" else j) in queries]
    right = [0] * REPEATS
    for block, start in enumerate(range(0, len(questions), c_way.BLOCK)):
        of_block = questions[start : start + c_way.BLOCK]
        if direction == "i2t":
            wrong = [[k for k in by_image if owner[k] != owner[j]] for j in of_block]
        else:
            wrong = [[i for i in range(len(v)) if i != owner[j]] for j in of_block]
        random = np.random.default_rng([seed, DIRECTIONS.index(direction), block])
        numbers = draw(random, np.array([len(options) for options in wrong] * REPEATS), most - 1)
        for row, drawn in enumerate(numbers):
            repeat, position = divmod(row, len(of_block))
            j = of_block[position]
            answer = score(v[owner[j]], w[j])
            won = True
            for number in drawn[: c - 1]:
                other = wrong[position][number]
                against = score(v[owner[j]], w[other]) if direction == "i2t" else score(v[other], w[j])
                won = won and (answer > against or (ties == "optimistic" and answer == against))
            right[repeat] += won
    return [100 * count / len(questions) for count in right]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize(("block", "elements"), [(1024, 1 << 22), (7, 90)])
@pytest.mark.parametrize("queries", [None, [1, 3, 4, 9]])
@pytest.mark.parametrize("cost", [16, 0])
def test_c_way_accuracy_matches_reference_loops(direction, ties, block, elements, queries, cost, monkeypatch):
    """Of all questions or of some queries, by the scores of all candidates or of the drawn ones alone."""
    monkeypatch.setattr(c_way, "BLOCK", block)
    monkeypatch.setattr(c_way, "TILE_ELEMENTS", elements)
    monkeypatch.setattr(c_way, "PAIR_COST", cost)
    scored, owner = small()
    asked = None if queries is None else Queries(np.array(queries), np.array(queries))
    protocol = Protocol(repeats=REPEATS, seed=4, ties=ties, asked=asked)
    actual = c_way_accuracy(scored, owner, (2, 5, 12), direction, protocol)
    for c, accuracy in actual.items():
        np.testing.assert_allclose(accuracy.repeats, loops(scored, owner, c, 12, direction, ties, 4, queries))
        assert accuracy.mean == pytest.approx(np.mean(accuracy.repeats))


def test_a_worked_example_and_an_interval_by_hand():
    """Three numbers 40, 50, 60: deviation 10, Student's t of two degrees of freedom 4.3027, so 4.3027 · 10 / √3."""
    scores = np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]], np.float32)
    actual = c_way_accuracy(check_scores([EmbeddingPair(scores, np.eye(3))]), np.arange(3), (3,), "t2i")[3]
    assert (actual.mean, actual.interval) == pytest.approx((100 / 3, 0), abs=1e-9)
    by_hand = c_way._accuracy(np.array([40.0, 50.0, 60.0]))
    assert by_hand.interval == pytest.approx(4.302653 * 10 / 3**0.5, abs=1e-4)
    v, w, owner = correlated(30, 80, seed=2)  # all wrong images as options: recall at 1
    actual = c_way_accuracy(check_scores([EmbeddingPair(v, w)]), owner, (30,), "t2i")[30]
    assert actual.mean == pytest.approx(ensemble_metrics([EmbeddingPair(v, w)], owner)["t2i_r1"])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_more_options_are_never_easier_and_only_the_seed_changes_the_result(direction):
    scored, owner = small(1)
    actual, again = (
        c_way_accuracy(scored, owner, (2, 4, 8), direction, Protocol(repeats=6, seed=1)) for _ in range(2)
    )
    assert (actual[2].repeats >= actual[4].repeats).all()
    assert (actual[4].repeats >= actual[8].repeats).all()
    np.testing.assert_array_equal(actual[4].repeats, again[4].repeats)
    elsewhere = c_way_accuracy(scored, owner, (2, 4, 8), direction, Protocol(repeats=6, seed=2))
    assert not np.array_equal(actual[4].repeats, elsewhere[4].repeats)
    v, w, owner = correlated(15, 50, seed=3)
    matrix = v.astype(np.float64) @ w.T.astype(np.float64)
    plain = c_way_accuracy(check_scores([EmbeddingPair(v, w)]), owner, (2, 5), direction, Protocol(seed=9))
    for sources in ([EmbeddingPair(v, w, 0.5)] * 2, [ScoreMatrix(matrix, 0.5), EmbeddingPair(v, w, 0.5)]):
        mixed = c_way_accuracy(check_scores(sources), owner, (2, 5), direction, Protocol(seed=9))
        for c in plain:
            np.testing.assert_array_equal(mixed[c].repeats, plain[c].repeats)


def test_many_questions_are_drawn_in_the_blocks_of_earlier_versions(monkeypatch):
    """Another size of the blocks would change the accuracies of a seed."""
    v, w, owner = correlated(9, 1_100, seed=5)
    scored = check_scores([EmbeddingPair(v, w)])

    def repeats():
        return c_way_accuracy(scored, owner, (3,), "t2i", Protocol(repeats=2, seed=1))[3].repeats.tolist()

    usual = repeats()
    monkeypatch.setattr(c_way, "BLOCK", 1_024)
    assert repeats() == usual
    monkeypatch.setattr(c_way, "BLOCK", 1_025)
    assert repeats() != usual


def test_options_are_distinct_and_uniform_and_too_many_are_refused():
    scored, owner = small()
    assert most_options(owner, 12, "t2i") == 12
    assert most_options(owner, 12, "i2t") == 40 - np.bincount(owner).max() + 1
    for options, way, repeats, message in (
        ((5, 13), "t2i", 10, "t2i 13-way: .* 11 .*expected 12"),
        ((1,), "i2t", 10, "1 options: "),
        ((5,), "i2t", 1, "repeats: is 1"),
    ):
        assert_refused(message, c_way_accuracy, scored, owner, options, way, Protocol(repeats=repeats))
    assert len(c_way_accuracy(scored, owner, (5,), "i2t", Protocol(repeats=2))[5].repeats) == 2
    usual = c_way_accuracy(scored, owner, (5,), "i2t")[5].repeats
    asked = c_way_accuracy(scored, owner, (5,), "i2t", Protocol(repeats=10, seed=0, ties="pessimistic"))[
        5
    ].repeats
    np.testing.assert_array_equal(usual, asked)
    for count, most in ((1, 1), (1, 30), (7, 7), (7, 8), (30, 40)):
        rows = draw(np.random.default_rng(0), np.array([most, count]), count)
        for row, high in zip(rows, (most, count), strict=True):
            assert len(set(row.tolist())) == count
            assert 0 <= row.min() <= row.max() < high
    actual = draw(np.random.default_rng(0), np.full(20_000, 6), 3)
    for column in range(3):
        shares = np.bincount(actual[:, column], minlength=6) / len(actual)
        np.testing.assert_allclose(shares, 1 / 6, atol=0.015)
