"""Number of other images a caption fits, estimated from captions alone, independent of any model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder_core.api.sampling import Sample
from coder_core.api.sides import Array
from coder_core.geometry.captions import caption_vectors
from coder_core.geometry.captions import fitting_images as count_fitting_images

if TYPE_CHECKING:
    from coder_core.api.run import Run


def fitting_images(run: Run, split: str, sample: Sample | None = None) -> Array | None:
    """Count the OTHER images with a similar caption: (m,) int64, in the order of `run.diversity`.

    Two captions are alike from a cosine of `geometry.captions.LIKE` on, in a TF-IDF space of the split's own captions.

    Args:
        run: with the split's captions; its embeddings have no part in this.
        sample: from `run.sample`: only its captions.

    Returns:
        None where the captions share hardly any word.
    """
    captions, owner, images = run.captions(split), run.image_of_text(split), run.count(split, "image")
    if sample is not None:
        captions, owner = [captions[row] for row in sample.texts], owner[sample.texts]
    vectors = caption_vectors(captions)
    return None if vectors is None else count_fitting_images(vectors, owner, images)
