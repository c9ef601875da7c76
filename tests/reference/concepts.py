"""The concept branch in loops: counts, probabilities, graph, convolution, attention. CODER supplement A.2."""

import math

from tests.reference.arithmetic import dot, softmax, unit


def together(captions, concepts):
    """B_ij and N_i: captions with both concepts, and with concept i; every caption counts once."""
    pairs = [[0] * concepts for _ in range(concepts)]
    single = [0] * concepts
    for caption in captions:
        for i in range(concepts):
            if i in caption:
                single[i] += 1
            for j in range(concepts):
                if i != j and i in caption and j in caption:
                    pairs[i][j] += 1
    return pairs, single


def graph(pairs, single, threshold, rescaled, norm="columns"):
    """Â = D^(−1/2) H D^(−1/2) + I; with "cvse" D^(−1/2) (H + I) D^(−1/2)."""
    size = len(single)
    edges = [[0] * size for _ in range(size)]
    for i in range(size):
        for j in range(size):
            probability = pairs[i][j] / single[i] if single[i] else 0.0
            if rescaled:
                probability = math.pow(5, probability - 0.02) - math.pow(5, -0.02)
            edges[i][j] = int(probability >= threshold)
    if norm == "cvse":
        with_loops = [[edges[i][j] + (i == j) for j in range(size)] for i in range(size)]
        root = [1 / math.sqrt(sum(row)) for row in with_loops]
        return [[root[i] * with_loops[i][j] * root[j] for j in range(size)] for i in range(size)]
    columns = [sum(edges[i][j] for i in range(size)) for j in range(size)]
    rows = columns if norm == "columns" else [sum(row) for row in edges]
    left, right = ([1 / math.sqrt(value) if value else 0.0 for value in degree] for degree in (rows, columns))
    return [[left[i] * edges[i][j] * right[j] + (i == j) for j in range(size)] for i in range(size)]


def convolved(adjacency, nodes, weight, slope=0.2):
    """LeakyReLU(Â X W); a slope of 1 means no activation."""
    rows = (mixed(mixed(row, nodes), weight) for row in adjacency)
    return [[value if value > 0 else slope * value for value in row] for row in rows]


def mixed(weights, rows):
    """Σ_i w_i · row i."""
    return [dot(weights, column) for column in zip(*rows, strict=True)]


def attention(query, nodes, weight, smoothing):
    """a_i = exp(λ · q W y_i) / Σ_k exp(λ · q W y_k)."""
    turned = mixed(query, weight)
    return softmax([smoothing * dot(turned, node) for node in nodes])


def read(attention, nodes):
    """Σ_i a_i y_i, normalised."""
    return unit(mixed(attention, nodes))
