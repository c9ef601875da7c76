"""GPO of one sample, channel by channel: sort, weigh by rank, sum. CODER supplement eq. 9 to 11."""

import math

from tests.reference.arithmetic import dot, softmax


def position_code(position, size):
    """sin(p·w_i) at 2i and cos(p·w_i) at 2i + 1, w_i = 10000^(−2i / size)."""
    code = []
    for pair in range(size // 2):
        angle = position * 10000.0 ** (-2 * pair / size)
        code += [math.sin(angle), math.cos(angle)]
    return code


def rank_weights(length, size, temperature, recurrent, score):
    """θ, the weights of the ranks, for a sample of this length. `recurrent`: position codes -> states of the bidirectional
    GRU, both directions side by side. `score`: weights of the linear layer."""
    states = recurrent([position_code(position, size) for position in range(length)])
    averaged = [[(state[i] + state[size + i]) / 2 for i in range(size)] for state in states]
    return softmax([dot(score, state) for state in averaged], temperature)


def pooled(features, weights):
    """Σ_k θ_k · (k-th largest value of the channel), for every channel of (L, D) features."""
    return [dot(weights, sorted(channel, reverse=True)) for channel in zip(*features, strict=True)]
