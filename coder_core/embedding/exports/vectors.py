"""The vectors of an analysed split whose inner products are the run's scores, with what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coder_core.evaluation.sources import mixed_embeddings
from coder_core.runs.analysis.read import open_analysis


@dataclass(frozen=True)
class Vectors:
    """One split of one run.

    Args:
        run, split: their names.
        fingerprint: of the save the embeddings come from.
        images, texts: (n, D), (m, D) float32 unit rows.
        image_of_text: (m,) the image each caption belongs to.
        image_names: n relative picture paths, or ids.
        captions: m texts.
        picture_folder: where the pictures lie; "" when unknown.
    """

    run: str
    split: str
    fingerprint: str
    images: np.ndarray
    texts: np.ndarray
    image_of_text: np.ndarray
    image_names: list[str]
    captions: list[str]
    picture_folder: str


def read_vectors(run: Path, split: str) -> Vectors:
    """The vectors of a split: its embeddings, or, of a run with a concept branch, both branches in one vector.

    Raises:
        InputError: the split has no intact analysis, or a model that scores pair by pair, which has no such vectors.
    """
    analysis = open_analysis(run, split)
    images, texts, concepts = analysis.image_embeddings, analysis.text_embeddings, analysis.concepts
    if concepts is not None:
        images = mixed_embeddings(images, concepts.image_embeddings, concepts.beta)
        texts = mixed_embeddings(texts, concepts.text_embeddings, concepts.beta)
    return Vectors(
        run.resolve().name,
        split,
        analysis.fingerprint,
        images,
        texts,
        analysis.image_of_text,
        analysis.image_names,
        analysis.captions,
        analysis.picture_folder,
    )
