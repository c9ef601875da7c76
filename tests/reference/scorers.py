"""Scores of one image and one caption, loop by loop. Song & Soleymani 2019; Diao et al. 2024, eq. 1, 2."""

import math

from tests.reference.arithmetic import dot, softmax, unit
from tests.reference.concepts import mixed


def linear(row, weight, bias=None):
    shifts = [0.0] * len(weight) if bias is None else bias
    return [dot(line, row) + shift for line, shift in zip(weight, shifts, strict=True)]


def best_pair(image, text):
    """The largest of the K² inner products."""
    return max(dot(one, other) for one in image for other in text)


def several(features, pooled, hidden, heads, weight, bias, scale, shift, epsilon=1e-5):
    """K embeddings of one sample before they are normalised: LayerNorm(pooled + sigmoid(W a_k + b))."""
    scores = [linear([math.tanh(value) for value in linear(row, hidden)], heads) for row in features]
    embeddings = []
    for head in range(len(heads)):
        read = mixed(softmax([row[head] for row in scores]), features)
        shifts = [1 / (1 + math.exp(-value)) for value in linear(read, weight, bias)]
        sums = [base + value for base, value in zip(pooled, shifts, strict=True)]
        mean = math.fsum(sums) / len(sums)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in sums) / len(sums) + epsilon)
        embeddings.append([(v - mean) / spread * a + b for v, a, b in zip(sums, scale, shift, strict=True)])
    return embeddings


def head_diversity(residuals):
    """‖G − I‖ / K² of one sample; G (K, K) holds the cosines between the residuals of its K heads."""
    units = [unit(row) for row in residuals]
    squares = [dot(units[i], units[j]) ** 2 for i in range(len(units)) for j in range(len(units)) if i != j]
    return math.sqrt(math.fsum(squares)) / len(units) ** 2


def discrepancy(images, texts, sharpness=0.5):
    """E k(v, v') − 2 E k(v, w) + E k(w, w') with k = exp(−γ ‖x − y‖)."""

    def mean_kernel(side, other):
        kernels = [math.exp(-sharpness * math.dist(x, y)) for x in side for y in other]
        return math.fsum(kernels) / len(kernels)

    return mean_kernel(images, images) - 2 * mean_kernel(images, texts) + mean_kernel(texts, texts)


def interaction(regions, words, align, align_bias, score, score_bias, sharpness):
    """Score of one image and one caption, given as unit rows of regions and words without padding."""
    cosines = [[max(dot(word, region), 0.0) for word in words] for region in regions]  # (R, T)
    normed = [unit(row) for row in cosines]
    total = [0.0] * len(align)
    for number, word in enumerate(words):
        read = mixed(softmax([sharpness * row[number] for row in normed]), regions)
        aligned = unit(linear([(a - b) ** 2 for a, b in zip(word, read, strict=True)], align, align_bias))
        total = [a + b / len(words) for a, b in zip(total, aligned, strict=True)]
    return math.tanh(dot(score, total) + score_bias)
