"""The comparison of corrections for hubs: Sinkhorn's biases against loops, and what is chosen on one half of dev."""

import math

import numpy as np
import pytest

from benchmarks.hubs import ITERATIONS, on_other_half, sinkhorn_biases


def sinkhorn_loop(scores, temperature, count):
    """Return −τ·log v of the first `count` columns, by loops over Python floats."""
    kernel = [[math.exp(score / temperature) for score in row] for row in scores.tolist()]
    rows, columns = scores.shape
    v = [1.0] * columns
    for _ in range(ITERATIONS):
        u = [1 / rows / sum(kernel[i][j] * v[j] for j in range(columns)) for i in range(rows)]
        v = [1 / columns / sum(kernel[i][j] * u[i] for i in range(rows)) for j in range(columns)]
    return [-temperature * math.log(value) for value in v[:count]]


@pytest.mark.parametrize("temperature", [0.05, 0.2])
def test_biases_match_loops_and_a_hub_has_the_largest(temperature):
    scores = np.random.default_rng(0).uniform(-0.5, 0.5, (7, 9))
    scores[:, 2] += 0.5
    biases = sinkhorn_biases(scores, temperature, 4)
    np.testing.assert_allclose(biases, sinkhorn_loop(scores, temperature, 4), atol=1e-9)
    assert biases.argmax() == 2


def test_a_setting_is_reported_on_the_half_that_did_not_choose_it():
    half = np.array([0, 0, 1, 1])
    best_on_first = np.array([0, 0, 20, 20])
    best_on_second = np.array([20, 20, 0, 0])
    assert on_other_half([best_on_first, best_on_second], half) == 0
    assert on_other_half([best_on_first], half) == 150
