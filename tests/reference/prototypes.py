"""Online spherical k-means and its classification loss, one pair at a time, in Python floats."""

import math
from dataclasses import dataclass, field

from tests.reference.arithmetic import dot, unit


def pair_vector(image, text):
    """v + w, scaled to length one."""
    return unit([a + b for a, b in zip(image, text, strict=True)])


def cross_entropy(vector, classifier, label, left_out=()):
    """−log softmax(P v)[label], over the prototypes that are not `left_out`."""
    logits = [dot(row, vector) for row in classifier]
    top = max(logits)
    counted = [value for k, value in enumerate(logits) if k not in left_out]
    return top + math.log(math.fsum(math.exp(value - top) for value in counted)) - logits[label]


@dataclass
class OnlineMeans:
    """K running means, their weights and their members."""

    count: int  # K
    pass_pairs: int  # pairs in a pass over the data
    sums: list[list[float]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    label_of: dict[int, int] = field(default_factory=dict)
    idle: list[int] = field(default_factory=list)
    seen: int = 0

    def centroid(self, k):
        """Direction of a running sum."""
        return unit(self.sums[k])

    def nearest(self, vector):
        """Return the prototype with the largest cosine, and that cosine."""
        cosines = [dot(self.centroid(k), vector) for k in range(self.count)]
        best = max(range(self.count), key=cosines.__getitem__)
        return best, cosines[best]

    def members(self, k):
        """Return the number of pairs whose newest label is k."""
        return sum(1 for label in self.label_of.values() if label == k)

    def learn(self, vectors, ids):
        """Learn from one batch; return its labels, or None while seeding."""
        if self.seen < self.pass_pairs:
            for number, vector in enumerate(vectors, self.seen):
                if number >= self.pass_pairs - self.count:
                    self.sums.append(list(vector))
                    self.weights.append(1.0)
                    self.idle.append(0)
            self.seen += len(vectors)
            return None

        nearest = [self.nearest(vector) for vector in vectors]
        fading = 1 - len(vectors) / self.pass_pairs
        for k in range(self.count):
            self.sums[k] = [fading * value for value in self.sums[k]]
            self.weights[k] *= fading
            self.idle[k] += len(vectors)
        for vector, number, (label, _) in zip(vectors, ids, nearest, strict=True):
            self.sums[label] = [a + b for a, b in zip(self.sums[label], vector, strict=True)]
            self.weights[label] += 1
            self.label_of[number] = label
            self.idle[label] = 0

        self._reseed(vectors, nearest)
        self.seen += len(vectors)
        return [label for label, _ in nearest]

    def _reseed(self, vectors, nearest):
        dead = [k for k in range(self.count) if self.members(k) == 0 and self.idle[k] >= self.pass_pairs]
        crowds = {label: self.members(label) for label, _ in nearest}
        worst = {}
        for label in (label for label, size in crowds.items() if size > 1):
            rows = (i for i, (number, _) in enumerate(nearest) if number == label)
            worst[label] = min(rows, key=lambda i: nearest[i][1])
        order = sorted(worst, key=lambda label: (-crowds[label], nearest[worst[label]][1]))
        for k, label in list(zip(dead, order, strict=False))[: max(1, len(vectors) // 8)]:
            self.sums[k] = list(vectors[worst[label]])
            self.weights[k] = 1.0
            self.idle[k] = 0
