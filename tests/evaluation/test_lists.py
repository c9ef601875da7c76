"""Ranks of other systems' short lists (`coder_core.evaluation.lists`) against loops over their candidates."""

import numpy as np

from coder_core.evaluation.lists import UNLISTED, Lists, rank_lists
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.sources import mixed_embeddings
from tests.support.run_folders import unit

IMAGES = 5
OWNER = np.array([0, 0, 1, 3, 4, 4])


def drawn(queries, candidates, length, seed):
    """Draw lists whose scores tie, best first."""
    random = np.random.default_rng(seed)
    rows = [random.permutation(candidates)[:length] for _ in range(queries)]
    scores = -np.sort(-random.integers(0, 3, (queries, length)) / 4, axis=1)
    return Lists(np.array(rows, np.int32), scores, candidates_in_all=candidates)


def by_loop(lists, query, right):
    """Return a query's best rank, its ties, and its candidates, best first; right ones come last among equal scores."""
    listed = zip(lists.candidates[query].tolist(), lists.scores[query].tolist(), strict=True)
    ordered = sorted(listed, key=lambda entry: (-entry[1], entry[0] in right))
    places = [place for place, (candidate, _) in enumerate(ordered) if candidate in right]
    if not places:
        return UNLISTED, 0, [candidate for candidate, _ in ordered]
    level = ordered[places[0]][1]
    ties = sum(score == level and candidate not in right for candidate, score in ordered)
    return places[0], ties, [candidate for candidate, _ in ordered]


def test_ranks_ties_and_candidates_equal_those_of_loops():
    texts = len(OWNER)
    for seed in range(20):
        i2t = drawn(IMAGES, texts, 4, seed)
        t2i = drawn(texts, IMAGES, 3, seed + 100)
        ranks = rank_lists(i2t, t2i, Relevance.of_labels(OWNER, IMAGES))
        captions = [set(np.flatnonzero(image == OWNER).tolist()) for image in range(IMAGES)]
        ways = (i2t, ranks.i2t, captions), (t2i, ranks.t2i, [{image} for image in OWNER.tolist()])
        for lists, actual, right in ways:
            for query, own in enumerate(right):
                rank, ties, best = by_loop(lists, query, own)
                assert actual.best[query, : len(best)].tolist() == best
                if own:
                    assert (actual.first[query], actual.ties[query]) == (rank, ties)
                else:  # image 2 has no caption
                    assert (actual.first[query], actual.ties[query]) == (-1, 0)


def test_a_direction_without_lists_and_the_length_of_a_shown_list():
    """Twelve images answer one caption; no list answers an image."""
    none = Lists(np.empty((12, 0), np.int32), np.empty((12, 0)), candidates_in_all=1)
    long = Lists(np.arange(12, dtype=np.int32)[None], np.linspace(1, 0, 12)[None], candidates_in_all=12)
    assert (none.exist, long.exist) == (False, True)
    ranks = rank_lists(none, long, Relevance.of_labels(np.array([11]), 12))
    assert ranks.i2t.first.tolist() == [-1] * 12
    assert ranks.i2t.best.tolist() == [[-1]] * 12
    assert ranks.t2i.first.tolist() == [11]
    assert ranks.t2i.ranks.tolist() == [11]
    assert ranks.t2i.own.tolist() == [0.0]
    assert ranks.t2i.best.tolist() == [list(range(10))]


def test_a_list_ends_where_its_candidates_do():
    lists = Lists(np.array([[2, 0, -1]]), np.array([[0.5, 0.25, -np.inf]]), candidates_in_all=3)
    candidates, scores = lists.of_query(0)
    assert candidates.tolist() == [2, 0]
    assert scores.tolist() == [0.5, 0.25]


def test_mixed_embeddings_have_the_weighted_cosines_of_both_branches():
    random = np.random.default_rng(0)
    instance = [unit(random.normal(size=(3, 4))) for _ in range(2)]
    concept = [unit(random.normal(size=(3, 2))) for _ in range(2)]
    image, text = (mixed_embeddings(*branches, beta=0.7) for branches in zip(instance, concept, strict=True))
    expected = 0.7 * instance[0] @ instance[1].T + 0.3 * concept[0] @ concept[1].T
    np.testing.assert_allclose(image @ text.T, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(image, axis=1), 1, atol=1e-6)
