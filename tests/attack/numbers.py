"""Compare ranks of random scores with many ties, from one source or an ensemble, with plain loops.

python -m tests.attack numbers --cases 300 --seed 0
"""

import random

import numpy as np

from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from tests.attack.campaign import Campaign, Finding
from tests.reference.ranking import brute_ranks
from tests.support.run_folders import unit

CASES = 300


def drawn_problem(seed):
    """Draw image and caption embeddings with many equal rows, each caption's image, and the size of an ensemble."""
    random = np.random.default_rng(seed)
    n = random.integers(1, 14)
    m = random.integers(1, 40)
    width = random.integers(1, 70)
    images = random.normal(size=(n, width))
    texts = random.normal(size=(m, width))
    images = images[random.integers(0, random.integers(1, n + 1), n)]
    texts = texts[random.integers(0, m, m)]
    if random.random() < 0.3:
        images = np.sign(images)
        texts = np.sign(texts)
    return unit(images), unit(texts), random.integers(0, n, m), int(random.integers(1, 8))


def wrong(seed):
    """Describe the first result that differs from the loops; "" if none does."""
    images, texts, owner, copies = drawn_problem(seed)
    image_above, image_level, text_above, text_level = map(np.array, brute_ranks(images, texts, owner))
    matrix = np.array(check_scores([EmbeddingPair(images, texts)]).exact(slice(None)))
    pessimistic = (image_above + image_level, text_above + text_level)
    share = 1 / copies
    labels = Relevance.of_labels(owner, len(images))
    for name, sources in {
        "embeddings": [EmbeddingPair(images, texts)],
        "a matrix": [ScoreMatrix(matrix, 1.0)],
        f"{copies} equal matrices": [ScoreMatrix(matrix, share)] * copies,
        f"{copies} equal runs": [EmbeddingPair(images, texts, share)] * copies,
    }.items():
        for ties, expected in (("pessimistic", pessimistic), ("optimistic", (image_above, text_above))):
            ranks = rank(check_scores(sources), labels, ties=ties, best=0)
            for actual, right in zip((ranks.i2t.first, ranks.t2i.first), expected, strict=True):
                if not np.array_equal(actual, right):
                    return f"{name}, {ties}: {np.asarray(actual).tolist()} instead of {right.tolist()}"
    return ""


def campaign(folder, cases=CASES, seed=0, jobs=1):
    """Draw the problems and try them in this process; `folder` and `jobs` are ignored."""
    texts = {number: wrong(number) for number in random.Random(seed).sample(range(10**9), cases)}
    outcomes = ((n, "silent" if text else "harmless", text) for n, text in texts.items())
    return Campaign("numbers", [[Finding(f"problem {n}", "rank", *outcome)] for n, *outcome in outcomes])
