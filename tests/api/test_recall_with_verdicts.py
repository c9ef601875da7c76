"""Recall with a person's verdicts on a few drawn results."""

from dataclasses import replace

import numpy as np
import pytest

from coder_core.api import causes
from coder_core.api.reviews import ReviewedSplit
from coder_core.data.reviews import Reviews
from tests.support.evidence import review, some_way


@pytest.fixture(scope="module")
def guessed():
    """Misses of 2,000 captions at R@1 with guesses, and (2000,) bool: which first results match, far more than guessed."""
    random = np.random.default_rng(4)
    count = 2000
    way = some_way(count)
    way.ranks[: count // 4] = 0
    way.features[:, 0, 1] = random.normal(4.5, 1.2, count)
    evidence = causes.Evidence(np.zeros(count), np.zeros(count, int), some_way(count), way)
    misses = causes.find_causes(evidence, np.arange(count), causes.Question("t2i", noise=0.0))
    is_match = random.random(count) < misses.unlabelled[:, 0] ** 0.3
    return misses, is_match


def test_verdicts_correct_guesses_and_the_interval_has_the_truth(guessed):
    misses, is_match = guessed
    truth = 100 * (~misses.missed | is_match).mean()
    found = []
    for reviewer in range(100):
        drawn = causes.draw_for_verdicts(misses, seed=reviewer)
        found.append(causes.recall_with_verdicts(drawn, is_match[drawn.queries].astype(float)))
    assert found[0].labels == 25
    assert abs(found[0].guess - truth) > 5
    recalls = np.array([one.recall for one in found])
    assert abs(recalls.mean() - truth) < 4 * recalls.std() / np.sqrt(len(recalls))
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.93
    half = np.mean([one.high - one.low for one in found]) / 2
    needed = np.median([one.needed for one in found])
    assert needed == pytest.approx(100 * (half / 4) ** 2, rel=0.1)


def test_the_interval_of_few_verdicts_follows_from_its_formula():
    """25 draws of 40 misses among 50 queries, all with the same chance and a guess of 0.2; seven results match."""
    drawn = causes.Drawn(np.arange(25), np.arange(25), np.full(25, 0.2), np.full(25, 1 / 40), 10, 8.0, 50)
    found = causes.recall_with_verdicts(drawn, (np.arange(25) < 7).astype(float))
    assert (found.labels, found.guess) == (20, 36)
    corrections = np.where(np.arange(25) < 7, 64.0, -16.0)  # 2 points a query, times 40, times 0.8 or −0.2
    assert found.recall == pytest.approx(36 + 6.4)
    squares = ((corrections - 6.4) ** 2).sum() + 2 * 80**2  # and two pseudo-draws
    half = 2.0639 * np.sqrt(squares / 26) / 5  # Student's t for 24 degrees of freedom
    assert (found.low, found.high) == pytest.approx((42.4 - half, 42.4 + half), abs=1e-3)
    assert found.needed == np.ceil(1.959964**2 * squares / 26 / 4**2)


def test_uncertain_guesses_are_drawn_most_and_unjudged_draws_are_left_out(guessed):
    misses, is_match = guessed
    drawn = causes.draw_for_verdicts(misses, draws=4000, seed=1)
    assert set(drawn.queries.tolist()) <= set(np.flatnonzero(misses.missed).tolist())
    guesses = misses.unlabelled[misses.missed, 0]
    uncertain = (drawn.guesses > 0.2) & (drawn.guesses < 0.8)
    assert uncertain.mean() > 1.2 * ((guesses > 0.2) & (guesses < 0.8)).mean()
    verdicts = is_match[drawn.queries].astype(float)
    verdicts[60:] = np.nan
    some = causes.recall_with_verdicts(drawn, verdicts)
    first = causes.draw_for_verdicts(misses, draws=4000, seed=1)
    kept = replace(
        first, **{name: getattr(first, name)[:60] for name in ("queries", "results", "guesses", "chances")}
    )
    assert some == causes.recall_with_verdicts(kept, verdicts[:60])
    verdicts[19:] = np.nan
    few = causes.recall_with_verdicts(drawn, verdicts)
    assert (few.verdicts, few.needed) == (19, 0)
    assert np.isnan(few.recall)


def test_verdicts_on_the_drawn_results_are_found(injected):
    run, _ = injected
    misses = causes.causes_of_run(run, "dev", causes.Question("t2i"))
    drawn = causes.draw_for_verdicts(misses, draws=30)
    reviewed = ReviewedSplit.of(run, "dev")
    pairs = [reviewed.pair(image, text) for image, text in zip(drawn.results, drawn.queries, strict=True)]
    verdicts = {pairs[0]: "also-matches", pairs[1]: "label-right", pairs[2]: "too-vague"}
    reviews = Reviews(tuple(review(*pair, verdict) for pair, verdict in verdicts.items()))
    values = causes.values_of_verdicts(drawn, reviewed, reviews)
    known = {"also-matches": 1.0, "label-right": 0.0}
    np.testing.assert_array_equal(values, [known.get(verdicts.get(pair), np.nan) for pair in pairs])
