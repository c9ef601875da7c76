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


def pair_evidence(pictures, predicted, texts, owner, weights, pair, neighbours, like):
    """Return the evidence of one pair: the caption `pair[0]` in the place of the caption `pair[1]`. `neighbours`: how many
    of the nearest foreign ones make a level. `like`: how many images like the pair's image count."""
    caption, place = pair
    image = owner[place]

    def level(similarities):
        nearest = sorted(similarities)[-neighbours:]
        return sum(nearest) / len(nearest) if nearest else 0.0

    def captions_of(of_image):
        return [row for row, its_image in enumerate(owner) if its_image == of_image]

    similarity = predicted[caption] @ pictures[image]
    of_text = level(
        predicted[caption] @ pictures[other] for other in range(len(pictures)) if other != owner[caption]
    )
    of_image = level(predicted[row] @ pictures[image] for row in range(len(owner)) if owner[row] != image)
    others = [row for row in captions_of(image) if row != place]
    trust = math.fsum(weights[row] for row in others)
    evidence = [similarity, similarity - of_text, similarity - of_image, trust]
    nearest = sorted(
        (other for other in range(len(pictures)) if other != image),
        key=lambda o: -(pictures[o] @ pictures[image]),
    )
    for space in (texts, predicted):
        beside = sum(weights[row] * (space[caption] @ space[row]) for row in others)
        around = np.zeros(space.shape[1])
        for other in nearest[:like]:
            rows = captions_of(other)
            total = math.fsum(weights[row] for row in rows)
            mean = sum(weights[row] * space[row] for row in rows) / total if rows else 0
            around = around + max(pictures[other] @ pictures[image], 0) * mean
        length = np.linalg.norm(around)
        evidence += [beside / trust if others else 0.0, space[caption] @ around / length if length else 0.0]
    return evidence
