"""CODER eq. 3 and supplement eq. 16, anchor by anchor."""

import math

from tests.reference.arithmetic import softmax


def deviation(negative_scores):
    """sqrt(E[(S − E[S])²]); 0 without negatives."""
    if not negative_scores:
        return 0.0
    mean = math.fsum(negative_scores) / len(negative_scores)
    return math.sqrt(math.fsum((score - mean) ** 2 for score in negative_scores) / len(negative_scores))


def entropy(negative_scores, temperature):
    """−Σ P log2 P with P the softmax of S / temperature; 0 without negatives."""
    if not negative_scores:
        return 0.0
    shares = softmax(negative_scores, temperature)
    return -math.fsum(share * math.log2(share) for share in shares if share > 0)


def raw(spread, epsilon):
    """1 / sigmoid(ε / spread), with its limit 1 at zero."""
    if spread <= 0 or epsilon / spread > 700:
        return 1.0
    return 1.0 / (1.0 / (1.0 + math.exp(-epsilon / spread)))


def normalised(raws):
    """Divide by the largest value over the anchors."""
    return [value / max(raws) for value in raws]


def blended(batch, bank, bank_sizes, share):
    """Average the raw values of batch and bank; an anchor without bank negatives keeps its batch value."""
    return [
        (1 - share) * in_batch + share * in_bank if size else in_batch
        for in_batch, in_bank, size in zip(batch, bank, bank_sizes, strict=True)
    ]
