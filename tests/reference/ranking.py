"""Ranks and scores by two loops, one pair at a time in float64; `coder_core.evaluation` must agree with them."""

import numpy as np


def score(image, text):
    """Return the score of one pair, a float64 inner product rounded to float32."""
    return np.float32(sum(float(a) * float(b) for a, b in zip(image, text, strict=True)))


def brute_ranks(images, texts, owner):
    """Count wrong candidates above and level with the best match of images (above −1: no caption), then of captions."""
    scores = [[score(image, text) for text in texts] for image in images]
    image_above = []
    image_level = []
    for i in range(len(images)):
        right = [scores[i][j] for j in range(len(texts)) if owner[j] == i]
        wrong = [scores[i][j] for j in range(len(texts)) if owner[j] != i]
        image_above.append(sum(value > max(right) for value in wrong) if right else -1)
        image_level.append(sum(value == max(right) for value in wrong) if right else 0)
    text_above = []
    text_level = []
    for j in range(len(texts)):
        wrong = [scores[i][j] for i in range(len(images)) if i != owner[j]]
        text_above.append(sum(value > scores[owner[j]][j] for value in wrong))
        text_level.append(sum(value == scores[owner[j]][j] for value in wrong))
    return image_above, image_level, text_above, text_level


def every_score(pairings):
    """Return the (n, m) float64 scores of a mixture of embeddings, one pair at a time."""
    images = len(pairings[0][0])
    texts = len(pairings[0][1])
    scores = np.zeros((images, texts))
    for i in range(images):
        for j in range(texts):
            for v, w, weight in pairings:
                scores[i, j] += weight * sum(float(a) * float(b) for a, b in zip(v[i], w[j], strict=True))
    return scores
