"""Compare ranks and lists of drawn scores, labels and judgements with plain loops.

    python -m tests.attack numbers --cases 500 --seed 0

Half of the cases are small vectors with many ties and one right image for every caption; the others have judgements
with grades of their own in both directions. `tests/evaluation/test_ranking.py` draws and compares.
"""

import random

import numpy as np

from tests.attack.campaign import Campaign, Finding
from tests.evaluation.test_ranking import (
    assert_agrees,
    test_any_relation_ranks_as_a_sorted_list,
    whole_numbers,
)

CASES = 500


def labels(seed):
    """Compare the ranks of drawn vectors, each caption with its image."""
    drawn = np.random.default_rng(seed)
    assert_agrees(*whole_numbers(int(drawn.integers(1, 70)), drawn))


def judgements(seed):
    """Compare the ranks of drawn vectors by drawn judgements."""
    test_any_relation_ranks_as_a_sorted_list(seed, "pessimistic" if seed % 2 else "optimistic")


def attack(name, compare, seed):
    """Return the finding of one comparison: silent if a number differs."""
    try:
        compare(seed)
    except AssertionError as error:
        return Finding(f"{name} {seed}", "rank", "silent", str(error))
    except Exception as error:
        return Finding(f"{name} {seed}", "rank", "traceback", repr(error))
    return Finding(f"{name} {seed}", "rank", "harmless")


def campaign(folder, cases=CASES, seed=0, jobs=1):
    """Try all cases in this process; `folder` and `jobs` are ignored."""
    seeds = random.Random(seed).sample(range(10**9), cases)
    kinds = [("labels", labels), ("judgements", judgements)]
    return Campaign("numbers", [[attack(*kinds[place % 2], drawn)] for place, drawn in enumerate(seeds)])
