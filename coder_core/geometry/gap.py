"""The gap between images and captions. Apart from `points`, because training needs those and no SciPy."""

import numpy as np
from scipy.spatial.distance import cdist

MOST_COMPARED = 1_000  # images, and captions, whose distances are all computed


def centroid_distance(images: np.ndarray, texts: np.ndarray) -> float:
    """Return the distance between the means of (n, D) images and (m, D) texts. Liang et al. 2022, section 2.

    >>> round(centroid_distance(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.6, 0.8]])), 4)
    1.1402
    """
    return float(np.linalg.norm(images.mean(0, dtype=np.float64) - texts.mean(0, dtype=np.float64)))


def energy_distance(images: np.ndarray, texts: np.ndarray, most: int = MOST_COMPARED) -> float:
    """Return the energy distance of the distributions of (n, D) images and (m, D) texts,
    √(2 E‖v − w‖ − E‖v − v′‖ − E‖w − w′‖), 0 only for equal ones (Székely and Rizzo 2013), over at most `most` rows of each,
    drawn at random.

    >>> images, texts = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])
    >>> centroid_distance(images, texts), round(energy_distance(images, texts), 4)
    (0.0, 0.9102)
    """
    random = np.random.default_rng(0)
    v, w = (
        side if len(side) <= most else side[np.sort(random.choice(len(side), most, replace=False))]
        for side in (images, texts)
    )
    between = cdist(v, w).mean()
    within = cdist(v, v).mean() + cdist(w, w).mean()
    return float(np.sqrt(max(2 * between - within, 0.0)))
