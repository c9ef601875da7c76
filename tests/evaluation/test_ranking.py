"""Ranks agree with two plain loops, on random and on tie-heavy input, for any number of captions per image.

Ranks from a matrix of scores equal those of the embeddings that made it.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coder_core.console.faults import InputError
from coder_core.evaluation import best_candidates, ranking, score_blocks
from coder_core.evaluation.ranking import first_ranks, rank
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.evaluation.relevance import Queries, Relation, Relevance
from coder_core.evaluation.sampled import choose_queries
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from tests.reference.graded import order_of
from tests.reference.ranking import brute_ranks, score
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import unit


def ranked(sources, owner, **options):
    return rank(check_scores(sources), Relevance.of_labels(np.asarray(owner), sources[0].shape[0]), **options)


def ranks(images, texts, owner, **options):
    return ranked([EmbeddingPair(images, texts)], owner, **options)


def small_blocks(monkeypatch, rows):
    """Rank a few rows at a time, compare fewer at once, and select few scores for counts and lists."""
    for module in (score_blocks, best_candidates):
        monkeypatch.setattr(module, "BLOCK_ELEMENTS", rows)
    monkeypatch.setattr(score_blocks, "_FEWEST_ROWS", rows)
    monkeypatch.setattr(score_blocks, "_COMPARED_ROWS", 2)
    monkeypatch.setattr(ranking, "_HIGH", 0.5)
    monkeypatch.setattr(best_candidates, "_LISTED", 0.75)
    monkeypatch.setattr(ranking, "_COMPARED_LINES", 2)
    monkeypatch.setattr(ranking, "_PLACES", 2)
    monkeypatch.setattr(best_candidates, "_EXACT_PAIRS", rows)
    monkeypatch.setattr(best_candidates, "_GROUPS", 1)
    monkeypatch.setattr(best_candidates, "_GROUPS_PER_PLACE", 1)


def embeddings(n, m, width, seed):
    random = np.random.default_rng(seed)
    owner = random.integers(0, n, m)
    return unit(random.normal(size=(n, width))), unit(random.normal(size=(m, width))), owner


def duplicated(seed, n=20, m=60):
    """Return images, captions and owners, with many equal images and captions."""
    images, texts, owner = embeddings(n, m, 33, seed)
    random = np.random.default_rng(seed)
    images[random.integers(0, n, n // 2)] = images[random.integers(0, n, n // 2)]
    texts[random.integers(0, m, 2 * m // 3)] = texts[random.integers(0, m, 2 * m // 3)]
    return images, texts, owner


def assert_agrees(images, texts, owner):
    image_above, image_level, text_above, text_level = map(np.array, brute_ranks(images, texts, owner))
    optimistic, pessimistic = (ranks(images, texts, owner, ties=t) for t in ("optimistic", "pessimistic"))
    image = np.arange(len(images))
    labels = Relevance.of_labels(owner, len(images))
    image_first, text_first = first_ranks(check_scores([EmbeddingPair(images, texts)]), labels)
    for actual, expected in (
        (image_first, pessimistic.i2t.first),
        (text_first, pessimistic.t2i.first),
        (optimistic.i2t.first, image_above),
        (optimistic.t2i.first, text_above),
        (optimistic.i2t.ties, image_level),
        (optimistic.t2i.ties, text_level),
        (pessimistic.i2t.first, image_above + image_level),
        (pessimistic.t2i.first, text_above + text_level),
        (pessimistic.t2i.ranks, text_above + text_level),
        (hits_of(optimistic.i2t, owner), owner[optimistic.i2t.best] == image[:, None]),
        (hits_of(pessimistic.i2t, owner), owner[pessimistic.i2t.best] == image[:, None]),
    ):
        np.testing.assert_array_equal(actual, expected)


def hits_of(of_images, owner):
    """Return (n, ≤10) bool: which of an image's best captions are its own, by their ranks."""
    order = np.lexsort((np.arange(len(owner)), owner))
    hits = np.zeros(of_images.best.shape, bool)
    listed = of_images.ranks < hits.shape[1]
    hits[owner[order][listed], of_images.ranks[listed].astype(int)] = True
    return hits


@pytest.mark.parametrize("change", ["none", "small blocks", "nothing is crowded"])
@pytest.mark.parametrize("kind", ["random", "duplicated", "signs", "nearly collapsed"])
def test_ranks_match_reference_loops(kind, change, monkeypatch):
    """Many different sign vectors share a score, and no float32 sum is exact. Scores of a nearly collapsed model are a
    few rounding errors apart, so whole blocks are scored exactly. Ties cross small blocks."""
    if change == "small blocks":
        small_blocks(monkeypatch, 3)
    elif change == "nothing is crowded":
        monkeypatch.setattr(ranking, "_CROWDED", 0)
    random = np.random.default_rng(len(change))
    if kind == "random":
        problem = embeddings(40, 100, 64, len(change))
        problem[1][-1], problem[0][-1] = problem[1][0], problem[0][0]
    elif kind == "duplicated":
        problem = duplicated(len(change))
    else:
        signs = (random.choice([-1.0, 1.0], (count, 11)) for count in (20, 50))
        collapsed = (1 + 1e-6 * random.normal(size=(count, 40)) for count in (20, 50))
        problem = *map(unit, signs if kind == "signs" else collapsed), random.integers(0, 20, 50)
    assert_agrees(*problem)


def test_a_collapsed_model_gets_the_worst_ranks():
    """If all scores are equal, every wrong candidate counts as above, and own candidates are listed last."""
    same = np.full((40, 50), 0.1), np.full((80, 50), 0.1), np.arange(80) % 40
    actual, good = (ranks(*same, ties=ties) for ties in ("pessimistic", "optimistic"))
    assert (set(actual.i2t.first), set(actual.t2i.first), set(good.t2i.first)) == ({78}, {39}, {0})
    level = ranked([ScoreMatrix(np.zeros((3, 3), np.float32))], np.arange(3))
    assert level.i2t.first.tolist() == level.t2i.first.tolist() == [2, 2, 2]
    assert level.i2t.best.tolist() == [[1, 2, 0], [0, 2, 1], [0, 1, 2]]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any), st.integers(0, 99), st.booleans())
def test_ranks_with_any_number_of_captions_per_image(counts, seed, repeat):
    random = np.random.default_rng(seed)
    owner = random.permutation(np.repeat(np.arange(len(counts)), counts))
    images, texts = (unit(random.normal(size=(count, 5))) for count in (len(counts), len(owner)))
    if repeat:
        texts[:] = texts[random.integers(0, len(texts), len(texts))]
    assert_agrees(images, texts, owner)


def whole_numbers(width, random):
    """Draw rows of small integers, tenths of them or unit rows, with zero rows, duplicates, or all queries zero."""
    n = random.integers(1, 13)
    m = random.integers(1, 41)
    largest = random.choice([1, 2, 9])
    sides = (random.integers(-largest, largest + 1, (count, width)) for count in (n, m))
    images, texts = (rows * np.float32(random.choice([1, 0.1])) for rows in sides)
    for rows in (images, texts):
        kind = random.integers(6)
        if kind == 0:
            rows[random.random(len(rows)) < 0.4] = 0
        elif kind == 1:
            rows[:] = rows[random.integers(0, len(rows), len(rows))]
        elif kind == 2:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        elif kind == 3:
            rows[:] = 0
    asking = max(1, n // 3) if random.random() < 0.3 else n
    if asking < n:
        images[:asking] = 0
    return images.astype(np.float32), texts.astype(np.float32), random.integers(0, asking, m)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_ties_of_integer_and_zero_vectors_are_exact(width):
    """Ranks and lists: among equal scores own candidates come last, and otherwise lower indices first."""
    random = np.random.default_rng(width)
    for _ in range(20):
        images, texts, owner = whole_numbers(width, random)
        assert_agrees(images, texts, owner)
        scores = exact(images, texts)
        lists = ranks(images, texts, owner)
        assert lists.i2t.best.dtype == lists.t2i.best.dtype == np.int32
        is_own_image = owner[None] == np.arange(len(images))[:, None]
        sides = (scores, is_own_image, lists.i2t.best), (scores.T, is_own_image.T, lists.t2i.best)
        for matrix, is_own, best in sides:
            order = np.lexsort((np.broadcast_to(np.arange(matrix.shape[1]), matrix.shape), is_own, -matrix))
            np.testing.assert_array_equal(best, order[:, :10])


def test_candidates_of_much_larger_norm_are_compared_exactly():
    """The rounding errors of right answers do not bound those of longer candidates."""
    random = np.random.default_rng(0)
    for case in range(30):
        n = random.integers(20, 60)
        m = random.integers(1, 200)
        width = 2 + case % 3
        images = (random.integers(-9, 10, (n, width)) * np.float32(0.1)).astype(np.float32)
        texts = (random.integers(-9, 10, (m, width)) * np.float32(0.1)).astype(np.float32)
        images[: n // 3] *= np.float32(0.001)
        owner = random.integers(0, n // 3, m)
        scores = np.einsum("nd,md->nm", images.astype(float), texts.astype(float)).astype(np.float32)
        expected = (scores >= scores[owner, np.arange(m)]).sum(0) - 1
        assert ranks(images, texts, owner, best=0).t2i.first.tolist() == expected.tolist()


def test_an_ensemble_ranks_the_summed_scores():
    """Torch tensors and half precision are accepted."""
    images, texts, owner = embeddings(20, 50, 8, 1)
    other_images, other_texts, _ = embeddings(20, 50, 12, 2)
    pairs = [EmbeddingPair(images, texts, 0.5), EmbeddingPair(other_images, other_texts, 0.5)]
    summed = 0.5 * (images @ texts.T + other_images @ other_texts.T)
    expected = [(np.delete(summed[:, j], owner[j]) > summed[owner[j], j]).sum() for j in range(50)]
    assert ranked(pairs, owner).t2i.first.tolist() == expected
    halves = images.astype(np.float16), texts.astype(np.float16)
    actual = ranks(*map(torch.from_numpy, halves), owner)
    assert actual.t2i.first.tolist() == brute_ranks(*halves, owner)[2]


@pytest.mark.parametrize("weight", [1e-3, 1.0, -50.0])
def test_the_bound_on_rounding_is_reached_by_no_pair_and_grows_with_the_weight(weight):
    images, texts, _ = embeddings(60, 80, 24, 3)
    scores = check_scores([EmbeddingPair(images, texts, weight)])
    exact = weight * (images.astype(np.float64) @ texts.astype(np.float64).T)
    found = weight * (torch.from_numpy(images) @ torch.from_numpy(texts).T)
    assert np.abs(found.numpy() - exact).max() < scores.error < 1e-5 * abs(weight)


def test_the_bound_on_rounding_is_little_more_than_highams():
    """Section 3.1 of Higham 2002: γ = D u / (1 − D u) times both lengths. A larger bound would compare more pairs exactly."""
    unit_roundoff = 2.0**-24
    gamma = 512 * unit_roundoff / (1 - 512 * unit_roundoff)
    images = 3 * np.eye(2, 512)
    texts = 5 * np.eye(4, 512)
    error = check_scores([EmbeddingPair(images, texts, -2.0)]).error
    assert 30 * gamma < error < 1.02 * 30 * gamma
    both = check_scores([EmbeddingPair(images, texts, -2.0), EmbeddingPair(images, texts, 1.0)]).error
    assert both == pytest.approx(1.5 * error)
    assert check_scores([EmbeddingPair(0 * images, texts)]).error == 512 * 2.0**-126  # products may underflow
    assert check_scores([EmbeddingPair(images, texts), ScoreMatrix(np.zeros((2, 4)))]).error == 0


def test_hundreds_of_scores_of_one_column_are_counted():
    """Counts of a part of the rows are bytes, which end at 255."""
    for rows in (255, 256, 257, 600):
        ends = torch.ones(1, 1, 4)
        assert score_blocks.count_reaching_ends(torch.ones(rows, 4), ends, by_row=False).tolist() == [
            [[rows] * 4]
        ]
        wide = score_blocks.count_reaching_ends(torch.ones(4, rows), ends, by_row=True)
        assert wide.tolist() == [[[rows] * 4]]


def test_scores_that_cannot_be_ranked_are_refused():
    for side in range(2):
        for value in (np.nan, np.inf, -np.inf):
            problem = embeddings(20, 50, 8, 1)
            problem[side][17, 3] = value
            assert_refused(r"row.* 17 ", ranks, *problem)
    wrong = {"row 3: ": [0, 1, 2, 3], "row 2: ": [0, 1, -1, 0], "shape": [0, 1], "float": [0.5] * 4}
    for fact, owner in wrong.items():
        assert_refused(fact, ensemble_metrics, [EmbeddingPair(np.eye(3), np.eye(4, 3))], owner)
    assert_refused("width", ranks, np.eye(3), np.ones((4, 2)), [0, 1, 2, 0])
    for value in (np.nan, np.inf, -np.inf):
        scores = np.zeros((4, 8), np.float32)
        scores[2, 5] = value
        with pytest.raises(InputError, match="scores of image 2"):
            check_scores([ScoreMatrix(scores)])
    with pytest.raises(InputError, match="embeddings: none are given"):
        check_scores([])
    with pytest.raises(InputError, match="weights: are"):
        check_scores([EmbeddingPair(np.eye(2), np.eye(2), np.nan)])
    for shape in ((3,), (0, 3), (3, 0)):
        with pytest.raises(InputError, match=r"scores have shape .*expected \(images, captions\)"):
            check_scores([ScoreMatrix(np.zeros(shape))])
    for wrong_side in (np.eye(2, dtype=np.int64), np.ones(2), np.empty((0, 2))):
        with pytest.raises(InputError, match="text embeddings of source 0: have shape"):
            check_scores([EmbeddingPair(np.eye(2), wrong_side)])
    with pytest.raises(InputError, match="source 0: scores overflow float32"):
        check_scores([EmbeddingPair(np.full((1, 1), 1e20), np.full((1, 1), 1e20))])
    check_scores([EmbeddingPair(np.full((1, 1), 1e19), np.full((1, 1), 1e19))])
    with pytest.raises(InputError, match=r"source 1: scores \(3, 5\) images and captions; expected 3 × 6"):
        check_scores([ScoreMatrix(np.zeros((3, 6))), ScoreMatrix(np.zeros((3, 5)))])


def exact(images, texts):
    return np.array([[score(image, text) for text in texts] for image in images], np.float32)


def assert_same(ranks, expected):
    for way in ("i2t", "t2i"):
        for name in ("ranks", "first", "ties", "best"):
            values = getattr(getattr(expected, way), name)
            np.testing.assert_array_equal(getattr(getattr(ranks, way), name), values, name)


@pytest.fixture(params=[1, 7, None])
def _block_size(request, monkeypatch):
    if request.param:
        small_blocks(monkeypatch, request.param)


@pytest.mark.usefixtures("_block_size")
@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_a_matrix_ranks_as_the_embeddings_that_made_it(ties):
    """Duplicated captions and images tie exactly; one image has no caption."""
    images, texts, owner = duplicated(2, 10, 30)
    owner[owner == 7] = 8
    of_matrix = ranked([ScoreMatrix(exact(images, texts))], owner, ties=ties)
    assert_same(of_matrix, ranks(images, texts, owner, ties=ties))
    assert of_matrix.i2t.first[7] == -1
    assert of_matrix.i2t.ties.sum() > 0


@pytest.mark.usefixtures("_block_size")
def test_a_matrix_and_embeddings_are_averaged(tmp_path):
    """One run of each kind; the matrix is a memory map."""
    images, texts, owner = embeddings(6, 15, 9, 0)
    other = np.random.default_rng(1).normal(size=(6, 15)).astype(np.float32)
    np.save(tmp_path / "scores.npy", other)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    both = ranked([EmbeddingPair(images, texts, 0.25), ScoreMatrix(mapped, 0.75)], owner)
    assert_same(both, ranked([ScoreMatrix(0.25 * images @ texts.T + 0.75 * other)], owner))


@pytest.mark.parametrize("copies", [2, 3, 7])
def test_an_ensemble_of_one_run_with_itself_ranks_as_the_run(copies):
    """Scores with many ties, or all equal: the rounding of the shares must not break ties."""
    random = np.random.default_rng(copies)
    for case in range(20):
        n = random.integers(1, 30)
        m = random.integers(1, 60)
        unit_of_scores = random.choice([0.1, 0.37, 1])
        scores = (random.integers(-9, 10, (n, m)) * unit_of_scores).astype(np.float32)
        if case % 4 == 0:
            scores[:] = unit_of_scores
        owner = random.integers(0, n, m)
        together = ranked([ScoreMatrix(scores, 1 / copies)] * copies, owner)
        assert_same(together, ranked([ScoreMatrix(scores)], owner))


@pytest.mark.usefixtures("_block_size")
@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("seed", range(6))
def test_any_relation_ranks_as_a_sorted_list(seed, ties):
    """Both directions have judgements of their own, with grades, documents outside the split, and more right candidates
    than are compared at once. Scores have many ties."""
    random = np.random.default_rng(seed)
    n, m = (int(size) for size in random.integers(1, 30, 2))
    images, texts = (random.integers(-2, 3, (count, 3)).astype(np.float32) for count in (n, m))
    relations = []
    for queries, candidates in ((n, m), (m, n)):
        pairs = np.unique(random.integers(0, [queries, candidates], (40, 2)), axis=0)
        pairs[::5, 1] = -1
        grades = random.integers(-1, 4, len(pairs))
        relations.append(Relation.of(*pairs.T, grades=grades, queries_in_all=queries))
    result = rank(check_scores([EmbeddingPair(images, texts)]), Relevance(*relations), ties=ties)
    scores = exact(images, texts)
    for relation, actual, rows in ((relations[0], result.i2t, scores), (relations[1], result.t2i, scores.T)):
        sign = 1 if ties == "pessimistic" else -1
        for query in range(relation.count):
            grades = {c: g for q, c, g in pairs_of(relation) if q == query and c >= 0 and g > 0}
            order = order_of(rows[query].tolist(), grades, sign)
            for entry, (q, candidate, grade) in enumerate(pairs_of(relation)):
                if q == query:
                    expected = possible_ranks(order, rows[query], grades, candidate, grade)
                    assert actual.ranks[entry] in expected
            best = min(
                (actual.ranks[e] for e, (q, *_) in enumerate(pairs_of(relation)) if q == query),
                default=np.inf,
            )
            assert actual.first[query] == (best if np.isfinite(best) else -1)
            assert sorted(
                actual.best[query], key=lambda c: (-rows[query][c], sign * (c in grades), c)
            ) == list(actual.best[query])


@pytest.mark.parametrize("candidates", [300, 2000])
def test_a_query_that_nearly_every_candidate_answers_lists_each_of_them_once(candidates):
    """Right candidates are hidden while the others are counted, so that no limit of such a query is finite."""
    images, texts, owner = embeddings(40, candidates, 8, 0)
    owner[:] = np.where(np.arange(candidates) % 50, 3, owner)
    result = ranks(images, texts, owner)
    order = np.argsort(-exact(images, texts)[3], kind="stable")[:10]
    assert result.i2t.best[3].tolist() == order.tolist()


def pairs_of(relation):
    return list(
        zip(relation.queries.tolist(), relation.candidates.tolist(), relation.grades.tolist(), strict=True)
    )


def possible_ranks(order, scores, grades, candidate, grade):
    """Return the ranks that a candidate may have: those of the right candidates with its score and grade."""
    if candidate < 0 or grade <= 0:
        return {np.inf}
    same = [c for c in grades if grades[c] == grade and scores[c] == scores[candidate]]
    return {order.index(c) for c in same}


def assert_sampled(ranks, whole, relation, queries):
    """Check one direction of a sample against the whole ranking; other queries have no result."""
    for name in ("first", "ties", "best"):
        np.testing.assert_array_equal(getattr(ranks, name)[queries], getattr(whole, name)[queries])
    others = np.setdiff1d(np.arange(relation.count), queries)
    assert set(ranks.first[others].tolist()) | set(ranks.best[others].ravel().tolist()) <= {-1}
    pairs = np.isin(relation.queries, queries)
    np.testing.assert_array_equal(ranks.ranks, whole.ranks[pairs])
    np.testing.assert_array_equal(ranks.own, whole.own[pairs])


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("at_once", [3, 1 << 14])
def test_a_sample_of_queries_has_the_ranks_of_the_whole_ranking(monkeypatch, ties, at_once):
    small_blocks(monkeypatch, 40)
    monkeypatch.setattr(ranking, "QUERIES_AT_ONCE", at_once)
    images, texts, owner = duplicated(4)
    labels = Relevance.of_labels(owner, len(images))
    for sources in ([EmbeddingPair(images, texts)], [ScoreMatrix(exact(images, texts))]):
        scores = check_scores(sources)
        whole = rank(scores, labels, ties=ties)
        queries = Queries(np.array([0, 3, 4, 11, 19]), np.array([1, 2, 30, 59]))
        done = []
        sample = rank(
            scores, labels.of_queries(queries), ties=ties, progress=lambda *of, done=done: done.append(of[:2])
        )
        assert_sampled(sample.i2t, whole.i2t, labels.i2t, queries.images)
        assert_sampled(sample.t2i, whole.t2i, labels.t2i, queries.texts)
        assert done == sorted(done)
        assert done[-1] == (9, 9)


def test_the_sampled_queries_are_a_fair_draw():
    owner = np.repeat(np.arange(400), [1, 5] * 200)  # every second image has five captions
    labels = Relevance.of_labels(owner, 401)  # the last image has none
    assert choose_queries(labels, owner) is None
    assert choose_queries(labels, owner, 1200) is None
    drawn = choose_queries(labels, owner, 240)
    assert [len(drawn.images), len(drawn.texts)] == [240, 240]
    assert max(drawn.images) < 400
    of_several = np.isin(owner[drawn.texts] % 2, 1).mean()
    assert 0.75 < of_several < 0.92  # 5 captions of 6
    assert np.bincount(owner[drawn.texts]).max() == 1  # a fifth of the captions: one of every five
    single = choose_queries(Relevance.of_labels(np.arange(50), 50), np.arange(50), 20)
    np.testing.assert_array_equal(single.images, single.texts)


NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def test_ranks_and_lists_are_the_same_on_every_device(device):
    images, texts, owner = duplicated(5, n=300, m=900)
    labels = Relevance.of_labels(owner, len(images))
    sources = [EmbeddingPair(images, texts)]
    scores = check_scores(sources, device)
    assert scores.device.type == device
    queries = Queries(np.arange(0, 300, 7), np.arange(0, 900, 11))
    for relevance in (labels, labels.of_queries(queries)):
        assert_same(rank(scores, relevance), rank(check_scores(sources), relevance))
