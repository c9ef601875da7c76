"""The regression from captions to pictures: one least-squares problem per part, with a row for every pair and penalty."""

import math

import numpy as np


def predictions(texts, pictures, owner, weights, part, ridge):
    """Predict every caption's picture from the captions whose images are in other parts; `ridge`: a share of Σw."""
    total = math.fsum(weights)
    size = len(texts[0])
    centre = [
        math.fsum(w * text[k] for w, text in zip(weights, texts, strict=True)) / total for k in range(size)
    ]
    centred = [[value - mean for value, mean in zip(text, centre, strict=True)] for text in texts]
    predicted = []
    for text, image in zip(centred, owner, strict=True):
        rows = [[math.sqrt(ridge * total) * (k == column) for column in range(size)] for k in range(size)]
        targets = [[0.0] * len(pictures[0])] * size
        for other, other_image, weight in zip(centred, owner, weights, strict=True):
            if part[other_image] != part[image]:
                rows.append([math.sqrt(weight) * value for value in other])
                targets.append([math.sqrt(weight) * value for value in pictures[other_image]])
        predicted.append(np.array(text) @ np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0])
    return np.array(predicted)
