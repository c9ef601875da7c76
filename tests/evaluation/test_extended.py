"""mAP@R, R-Precision and extended R@K against loops, and against ECCV Caption's own program."""

import warnings

import numpy as np
import pytest

from coder_core.evaluation.extended import extended_metrics
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from coder_core.evaluation.tiles import EVERY, score_tiles


def by_loops(scores, positives, way):
    """scores (n, m); positives (text, image)."""
    of_query = {}
    for text, image in positives:
        query, answer = (image, text) if way == "i2t" else (text, image)
        of_query.setdefault(query, set()).add(answer)
    rows = scores if way == "i2t" else scores.T
    maps, precisions, recalls = [], [], {1: [], 5: [], 10: []}
    for query, answers in of_query.items():
        order = sorted(range(rows.shape[1]), key=lambda j: (-rows[query, j], j in answers, j))
        hits, r = [j in answers for j in order], len(answers)
        maps.append(sum(sum(hits[:i]) / i for i in range(1, r + 1) if hits[i - 1]) / r)
        precisions.append(sum(hits[:r]) / r)
        for k, successes in recalls.items():
            successes.append(any(hits[:k]))
    values = {"map_at_r": maps, "r_precision": precisions}
    values |= {f"extended_r{k}": successes for k, successes in recalls.items()}
    return {f"{way}_{name}": 100 * np.mean(numbers) for name, numbers in values.items()}


def test_a_perfect_order_of_labels_alone_misses_positives_beyond_them():
    """R@1 of 100 and mAP@R far below it: what ECCV Caption was made to show. Four images fit all captions."""
    everything = np.stack(np.meshgrid(np.arange(20), np.arange(4)), -1).reshape(-1, 2)
    labels = np.stack([np.arange(20), np.arange(20)], 1)
    tiles = score_tiles([ScoreMatrix(np.eye(20, dtype=np.float32))], np.arange(20))
    metrics = extended_metrics(tiles, np.concatenate([labels, everything]))
    assert metrics["t2i_extended_r1"] == 100
    assert metrics["t2i_map_at_r"] < 60
    elsewhere = np.stack([np.arange(12), (np.arange(12) + 1) % 12], 1)  # all scores equal: none is found
    tiles = score_tiles([ScoreMatrix(np.zeros((12, 12), np.float32))], np.arange(12))
    assert set(extended_metrics(tiles, elsewhere).values()) == {0.0}


def test_the_program_of_eccv_caption_agrees():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ujson is not there
        from eccv_caption import _metrics as theirs
    rng = np.random.default_rng(1)
    scores = rng.uniform(-1, 1, (15, 40)).astype(np.float32)
    owner = np.arange(40) % 15
    extra = np.stack([rng.integers(0, 40, 50), rng.integers(0, 15, 50)], 1)
    positives = np.concatenate([np.stack([np.arange(40), owner], 1), extra])
    ours = extended_metrics(score_tiles([ScoreMatrix(scores)], owner), positives)
    for way, rows, query, answer in (("i2t", scores, 1, 0), ("t2i", scores.T, 0, 1)):
        retrieved = {q: np.argsort(-rows[q], kind="stable").tolist() for q in range(len(rows))}
        truths = {q: np.unique(positives[positives[:, query] == q, answer]).tolist() for q in retrieved}
        expected = theirs.compute_eccv_metrics(retrieved, truths)
        values = {"map_at_r": expected["eccv_map_at_r"], "r_precision": expected["eccv_rprecision"]}
        values |= {"extended_r1": expected["eccv_r1"]}
        values |= {"extended_r5": theirs.compute_r_at_k(retrieved, truths, K=5)}
        for name, value in values.items():
            assert ours[f"{way}_{name}"] == pytest.approx(100 * value)


@pytest.mark.parametrize("seed", range(30))
def test_metrics_equal_those_of_loops_and_ties_count_against_positives(seed):
    """Distinct scores for the first two seeds. Of the others more candidates than are listed score like the last of the
    list, and positives beyond the labels are among them."""
    rng = np.random.default_rng(seed)
    n, m, levels = rng.integers(2, 40), rng.integers(2, 60), 1000 if seed < 2 else rng.integers(1, 4)
    if seed % 2:
        sources = [ScoreMatrix(rng.integers(0, levels, (n, m)).astype(np.float32))]
    else:
        sources = [EmbeddingPair(*(rng.integers(0, levels, (rows, 3)).astype(np.float32) for rows in (n, m)))]
    owner = rng.integers(0, n, m)
    labels = np.stack([np.arange(m), owner], 1)
    extra = np.stack([rng.integers(0, m, 2 * m), rng.integers(0, n, 2 * m)], 1)
    positives = np.concatenate([labels, extra, extra[:5]])
    positives = positives[positives[:, 1] < max(1, n - 1)]  # the last image has none
    tiles = score_tiles(sources, owner)
    scores, pairs = tiles.exact(EVERY, EVERY).numpy(), set(map(tuple, positives.tolist()))
    expected = by_loops(scores, pairs, "i2t") | by_loops(scores, pairs, "t2i")
    assert extended_metrics(tiles, positives) == pytest.approx(expected)
