"""Runs of the smallest splits: one image, two, five, and one in which every query is answered first."""

from pathlib import Path

from tests.support.concept_runs import write_concept_run
from tests.support.run_folders import write_run

SMALL = {"1 x 1": (1, 1, 1.0), "2 x 2": (2, 1, 1.0), "5 x 25": (5, 5, 1.0), "all first": (8, 4, 0.05)}
"""A name → images, captions of each, noise of the captions."""


def write_small_runs(root: Path, kind: str) -> Path:
    """A pair "demo-baseline" and "demo", and "concepts" with a concept branch, all of the same samples."""
    images, per_image, noise = SMALL[kind]
    for seed, (name, loss) in enumerate({"demo-baseline": "btr-hardest", "demo": "dcl"}.items()):
        write_run(root, name, loss=loss, images=images, per_image=per_image, noise=(1 + seed) * noise, seed=7)
    captions = [f"scene {i}, told in way {k}" for i in range(images) for k in range(per_image)]
    write_concept_run(root, "concepts", images=images, per_image=per_image, captions=captions)
    return root
