"""Human judgements of the captions that fit an image: from a file, or COCO's from the package eccv-caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coder_core.data.coco_judgements import COCO_JUDGEMENTS, coco_judgements
from coder_core.data.positives import read_positives

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Judgements:
    """Pairs of a split that belong together, labels among them.

    Args:
        source: the path of the file, or the name of COCO's judgements.
        of_texts: (P, 2) int64, the positives of captions as queries: a caption, an image.
        of_images: (P, 2) int64, those of images as queries: a caption, an image.
        fact: what the source holds, in words.
        disagreement: (m,) of Flickr8k's experts, see `Positives`; None of COCO's judges.
    """

    source: str
    of_texts: np.ndarray
    of_images: np.ndarray
    fact: str
    disagreement: np.ndarray | None = None


def read_judgements(
    source: str | Path,
    image_names: Sequence[str],
    image_of_text: np.ndarray,
    caption_ids: np.ndarray | None = None,
) -> Judgements:
    """Read the judged pairs of a split.

    Args:
        source: "eccv" or "cxc", or a file that `read_positives` reads, to which the labels are added.
        image_names: n file names or ids. image_of_text: (m,) the image of every caption.
        caption_ids: (m,) their numbers in the data set, where they are known.

    Raises:
        InputError: as `read_positives` and `coco_judgements`.
    """
    if str(source) in COCO_JUDGEMENTS:
        judged = coco_judgements(str(source), image_names, image_of_text, caption_ids)
        fact = f"pairs that count for captions: {len(judged.of_texts):,}, for images: {len(judged.of_images):,}; "
        fact += (
            "captions are recognised by their COCO ids"
            if judged.by_ids
            else "the k-th caption of an image is taken for the k-th of its COCO ids in ascending order"
        )
        fact += f"; judged pairs outside this split: {judged.elsewhere:,}" if judged.elsewhere else ""
        return Judgements(COCO_JUDGEMENTS[str(source)], judged.of_texts, judged.of_images, fact)
    positives = read_positives(Path(source), image_names, image_of_text, caption_ids)
    fact = f"{len(positives.pairs):,} positives beyond the labels"
    if positives.elsewhere:
        fact += f", {positives.elsewhere:,} line{'s' * (positives.elsewhere != 1)} about other splits"
    if positives.rejected:
        fact += f", {positives.rejected:,} pairs that its judges reject"
    pairs = positives.with_labels(image_of_text)
    return Judgements(str(source), pairs, pairs, fact, positives.disagreement)
