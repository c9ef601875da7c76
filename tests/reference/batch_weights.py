"""HAL's, Mithun's and Amrani's weights of a batch, entry by entry."""

import math


def scaled(values, scale):
    """Scale values so that they sum to λ = `scale`."""
    return [scale * value / math.fsum(values) for value in values]


def hub_weights(scores, ids, scale, sharpness, threshold):
    """1 + the soft count of queries whose closest wrong answer is the sample, mean of both directions."""
    size = len(scores)

    def hubness(similarity, candidate):
        count = 0.0
        for query in range(size):
            wrong = [j for j in range(size) if ids[j] != ids[query]]
            if candidate in wrong:
                powers = {j: math.exp(sharpness * (similarity[query][j] - threshold)) for j in wrong}
                count += powers[candidate] / (1 + math.fsum(powers.values()))
        return count

    turned = [[scores[j][i] for j in range(size)] for i in range(size)]
    return scaled([1 + (hubness(scores, i) + hubness(turned, i)) / 2 for i in range(size)], scale)


def rank_weights(scores, ids, scale):
    """1 + 1 / (N − r + 1), mean of both directions; r is the rank of the positive among N candidates."""
    size = len(scores)
    weights = []
    for i in range(size):
        wrong = [j for j in range(size) if ids[j] != ids[i]]
        both = []
        for row in ([scores[i][j] for j in wrong], [scores[j][i] for j in wrong]):
            rank = 1 + sum(score >= scores[i][i] for score in row)
            both.append(1 + 1 / (len(wrong) + 1 - rank + 1))
        weights.append(sum(both) / 2)
    return scaled(weights, scale)


def density_weights(images, captions, ids, scale, count):
    """λ·softmax of the mean similarity to the `count` nearest other pairs, the lower one of both modalities."""
    size = len(ids)
    density = []
    for i in range(size):
        near = (min(images[i][j], captions[i][j]) for j in range(size) if ids[j] != ids[i])
        near = sorted(near, reverse=True)[:count]
        density.append(math.fsum(near) / len(near) if near else 0.0)
    return scaled([math.exp(value) for value in density], scale)
