"""Tell right pairs from wrong ones by all evidence at once, without labels.

A wrong caption is one that stands in another caption's place. So captions put in random places show what wrong pairs look
like, and a classifier learns to tell the given pairs, of which some are right, from these: the more surely it can, the
more probably a pair is right (learning from positive and unlabeled examples, Elkan and Noto 2008). Every pair is judged
by a classifier that saw no pair of its image.
"""

from typing import NamedTuple

import numpy as np

from coder_core.api.data_quality import LEAST_WEIGHT, foreign_levels
from coder_core.api.sampling import whole_split
from coder_core.api.sides import Array
from coder_core.geometry.layout import EXACT_NEIGHBOURS, nearest, nearly_nearest
from coder_core.geometry.text_space import unit_rows

LIKE_IMAGES = 20  # nearest images whose captions a caption is compared with
AT_ONCE = 1024
# of the classifier, scikit-learn's gradient boosting
TREES = 150
RATE = 0.06
LEAVES = 15
FEWEST_IN_LEAF = 100
PENALTY = 1.0


class Placed(NamedTuple):
    """Captions in places: caption c stands in the place of caption p, so that it belongs to the image of p."""

    captions: Array  # (k,) rows
    places: Array  # (k,) rows


def given_and_drawn(owner: Array) -> tuple[Placed, Placed]:
    """Return every caption in its own place, and every caption in a random one of another image. `owner`: (m,) the
    image of each caption, of at least two images."""
    rows = np.arange(len(owner))
    random = np.random.default_rng(0)
    places = random.permutation(len(owner))
    while (same := np.flatnonzero(owner[places] == owner)).size:
        places[same] = random.integers(0, len(owner), len(same))
    return Placed(rows, rows), Placed(rows, places)


def like_images(pictures: Array) -> tuple[Array, Array]:
    """Find the images that are most like each image: (n, K) rows and cosines, without the image itself. `pictures`:
    (n, D) unit rows."""
    count = min(LIKE_IMAGES + 1, len(pictures))
    find = nearest if len(pictures) <= EXACT_NEIGHBOURS else nearly_nearest
    rows, distances = find(pictures, pictures, count)
    return rows[:, 1:], 1 - distances[:, 1:]


class PlacedCaptions(NamedTuple):
    """The captions of a split, and where they stand."""

    texts: Array  # (m, S) unit rows
    predicted: Array  # (m, D) unit rows, the picture that each caption describes
    owner: Array  # (m,) the image of each caption
    weights: Array  # (m,) probability that each caption is right


class CaptionEvidence:
    """What speaks for a pair. `pictures`: (n, D) unit rows. `like`: the images that are most like each, of `like_images`."""

    def __init__(self, pictures: Array, captions: PlacedCaptions, like: tuple[Array, Array]) -> None:
        texts, predicted, owner, weights = captions
        self._pictures = pictures
        self._predicted = predicted
        self._owner = owner
        self._weights = weights
        self._trust = np.bincount(owner, weights, len(pictures))
        self._spaces = (texts, predicted)
        self._sums = [self._summed(space) for space in self._spaces]
        self._around = [_around(sums, self._trust, like) for sums in self._sums]
        pairs = whole_split(pictures, predicted, owner)
        self._image_level, self._text_level = foreign_levels(pairs)

    def of(self, placed: Placed) -> Array:
        """Return (k, 8) float64: the similarity of caption and image; the same above the level of the caption's and of
        the image's nearest foreign ones; the trust in the image's other captions; the mean likeness to these, and to
        the captions of images like it, in the text space and among the predicted pictures; 0 where there is none."""
        captions, places = placed
        images = self._owner[places]
        similarity = np.empty(len(captions))
        for start in range(0, len(captions), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            predicted = self._predicted[captions[rows]]
            similarity[rows] = np.einsum("kd,kd->k", predicted, self._pictures[images[rows]])

        trust = self._trust[images] - self._weights[places]
        trust[trust < LEAST_WEIGHT / 2] = 0  # no other caption, up to rounding
        columns = [
            similarity,
            similarity - self._text_level[captions],
            similarity - self._image_level[images],
            trust,
        ]
        for space, sums, around in zip(self._spaces, self._sums, self._around, strict=True):
            beside = np.empty(len(captions))
            like = np.empty(len(captions))
            for start in range(0, len(captions), AT_ONCE):
                rows = slice(start, start + AT_ONCE)
                caption = space[captions[rows]]
                others = sums[images[rows]] - self._weights[places[rows], None] * space[places[rows]]
                beside[rows] = np.einsum("kd,kd->k", caption, others)
                like[rows] = np.einsum("kd,kd->k", caption, around[images[rows]])
            columns += [np.divide(beside, trust, out=np.zeros(len(trust)), where=trust > 0), like]

        return np.stack(columns, 1)

    def _summed(self, space: Array) -> Array:
        """Return (n, ·) the sum of every image's captions, weighted."""
        sums = np.zeros((len(self._pictures), space.shape[1]), np.float32)
        np.add.at(sums, self._owner, self._weights[:, None].astype(np.float32) * space)
        return sums


def _around(sums: Array, trust: Array, like: tuple[Array, Array]) -> Array:
    """Return (n, ·) unit rows: the mean caption of the images like each image, weighted by their likeness. `sums`: of
    the captions of every image. `trust`: (n,) the sum of their weights."""
    means = sums / np.maximum(trust, LEAST_WEIGHT)[:, None].astype(np.float32)
    rows, cosines = like
    weights = np.maximum(cosines, 0).astype(np.float32)
    around = np.empty_like(means)
    for start in range(0, len(means), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        around[some] = np.einsum("nk,nkd->nd", weights[some], means[rows[some]])
    return unit_rows(around)


def told_apart(given: Array, drawn: Array, given_parts: Array, drawn_parts: Array) -> tuple[Array, Array]:
    """Judge given and drawn pairs by how surely they are told apart.

    Args:
        given, drawn: (m, E) evidence of the pairs.
        given_parts, drawn_parts: (m,) the part of the images in which each pair's image is; its classifier sees none of
            them.

    Returns:
        (m,) and (m,) float64 suspicion: the log odds that a pair was drawn; higher is more suspicious.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    suspicions = np.empty(len(given)), np.empty(len(drawn))
    for part in np.unique(given_parts):
        classifier = HistGradientBoostingClassifier(
            learning_rate=RATE,
            max_iter=TREES,
            max_leaf_nodes=LEAVES,
            min_samples_leaf=FEWEST_IN_LEAF,
            l2_regularization=PENALTY,
            early_stopping=False,
            random_state=0,
        )
        seen = given[given_parts != part], drawn[drawn_parts != part]
        is_drawn = np.repeat([False, True], [len(pairs) for pairs in seen])
        classifier.fit(np.concatenate(seen), is_drawn)
        for suspicion, pairs, parts in zip(
            suspicions, (given, drawn), (given_parts, drawn_parts), strict=True
        ):
            unseen = parts == part
            suspicion[unseen] = classifier.decision_function(pairs[unseen]) if unseen.any() else 0
    return suspicions
