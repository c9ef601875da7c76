"""Runs that several test files of the API share and only read."""

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.causes import budget
from coder_core.config.schema import Config
from tests.support.run_folders import CONCEPTS, unit, write_configured, write_embeddings, write_run
from tests.support.tiny_runs import changed

BETA = 0.6

# of the run with injected causes
IMAGES = 120
PER_IMAGE = 3
SIZE = 64


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Run with 30 images of five captions each; about half of the queries have rank 1."""
    return open_run(write_run(tmp_path_factory.mktemp("lab"), "b", noise=2.0, images=30, pictures=False))


@pytest.fixture(scope="session")
def both(tmp_path_factory):
    """Run with 30 images and a concept branch."""
    return open_run(
        write_run(
            tmp_path_factory.mktemp("concepts"),
            "both",
            beta=BETA,
            concepts=CONCEPTS,
            images=30,
            pictures=False,
        )
    )


@pytest.fixture(scope="session")
def injected(tmp_path_factory):
    """Run with pairs of every cause, and caption → its cause."""
    random = np.random.default_rng(0)
    v = random.normal(size=(IMAGES, SIZE))
    owner = np.repeat(np.arange(IMAGES), PER_IMAGE)
    captions = [
        f"thing{i} beside place{i} in colour{i} shade{k}" for i in range(IMAGES) for k in range(PER_IMAGE)
    ]
    cause = {}

    # image 3 is a copy of image 2; image 5 is another view of what image 4 shows
    v[3] = v[2]
    v[5] = v[4] + 0.3 * random.normal(size=SIZE)
    for image, shown in ((3, 2), (5, 4)):
        for k in range(PER_IMAGE):
            captions[PER_IMAGE * image + k] = f"thing{shown} beside place{shown} in colour{shown} tone{k}"
    w = v[owner] + 0.5 * random.normal(size=(len(owner), SIZE))
    w[12:15] = v[5] + 0.2 * random.normal(size=(3, SIZE))  # captions of image 4, nearer to its other view
    cause |= dict.fromkeys((6, 7, 8), budget.COPY)
    cause |= dict.fromkeys((12, 13, 14), budget.UNLABELLED)

    # captions and their embeddings change places
    exchanged = np.arange(60, 360, 12)
    w[exchanged] = np.roll(w[exchanged], 1, 0)
    texts = [captions[row] for row in exchanged]
    for row, text in zip(exchanged.tolist(), np.roll(texts, 1).tolist(), strict=True):
        captions[row] = text
        cause[row] = budget.WRONG

    for row in range(61, 360, 24):
        captions[row] = "a thing"
        w[row] = v.mean(0) + 0.02 * random.normal(size=SIZE)
        cause[row] = budget.VAGUE

    # nearer to another image than to its own, with the words of its own
    for row in range(25, 55, 9):
        w[row] = v[(owner[row] + 40) % IMAGES] + 0.3 * random.normal(size=SIZE)
        cause[row] = budget.MODEL

    # nearly as near to its own image as to another
    for row in range(26, 58, 6):
        nearest = [v[image] / np.linalg.norm(v[image]) for image in (owner[row], owner[row] + 53)]
        w[row] = nearest[0] + 1.06 * nearest[1]
        cause[row] = budget.CLOSE

    # image 1 is a hub: nearer to these captions than their own images
    v[1] = random.normal(size=SIZE)
    w[3:6] = v[1] + 0.3 * random.normal(size=(3, SIZE))
    for row in range(65, 360, 12):
        w[row] = v[owner[row]] + 1.05 * v[1] + 0.2 * random.normal(size=SIZE)
        cause[row] = budget.HUB

    folder = write_configured(
        tmp_path_factory.mktemp("causes"), changed(Config(name="injected"), data="demo")
    )
    write_embeddings(folder, unit(v), unit(w), owner, captions=captions)
    return open_run(folder), cause
