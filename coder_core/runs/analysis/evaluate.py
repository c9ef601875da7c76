"""A run on a split: embeddings or scores, ranks, metrics, and the analysis folder the app reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.data.dataset import Split
from coder_core.evaluation.ranking import Ranks, rank
from coder_core.evaluation.recall import Metrics, all_metrics
from coder_core.evaluation.sources import Source
from coder_core.evaluation.tiles import score_tiles
from coder_core.model.encode import Progress, SplitEmbeddings
from coder_core.model.pair_scores import ImageParts, SplitScores
from coder_core.model.scored import scored_split
from coder_core.runs.analysis.clusters import cluster_tables, read_prototypes
from coder_core.runs.analysis.concepts import concept_tables
from coder_core.runs.analysis.weights import weight_tables
from coder_core.runs.analysis.write import IMAGE_PART_LENGTHS, IMAGE_PARTS, write_analysis
from coder_core.runs.derived.neighbours import Phases
from coder_core.runs.load import LoadedModel

BEST_LISTED = 10
PARTS_BYTES = 1 << 28


def score(
    loaded: LoadedModel, split: Split, *, progress: Progress | None = None
) -> tuple[list[Source], SplitEmbeddings | SplitScores]:
    """A split under a run's model: what its pairs are scored by, and its embeddings in every branch, or its scores.

    Raises:
        InputError: the split's features have another width than the run was trained with.
    """
    wanted = loaded.feature_size
    if split.feature_size != wanted:
        found = f"have {split.feature_size} numbers a region"
        raise InputError(
            Fault(f"{split.name} features", found, f"{wanted}, as in training", "use the features of the same network")
        )
    tokens = loaded.reader.encode(split.captions)
    return scored_split(
        loaded.model, split, tokens, beta=loaded.config.model.beta, device=loaded.device, progress=progress,
        attention=True,
    )  # fmt: skip


def evaluate_split(
    folder: Path, loaded: LoadedModel, split: Split, name: str, *, progress: Progress | None = None,
    finding: Phases | None = None,
) -> tuple[Metrics, Ranks]:  # fmt: skip
    """Evaluate a run on a split and write `analysis/<name>/`.

    Args:
        folder: the run.
        loaded: its model.
        split: the data.
        name: the name the analysis goes by.
        progress: called with what is done (samples, or pairs of a model that scores them one by one) and what there is.
        finding: called with what is being found (a split's semantic neighbours), what is done and what there is.
    """
    sources, known = score(loaded, split, progress=progress)
    scores = score_tiles(sources, split.image_of_text)
    ranks = rank(scores, best=BEST_LISTED)
    metrics = all_metrics(scores, ranks)
    write_analysis(
        folder, name, **_tables(folder, loaded, split, known, finding), image_of_text=split.image_of_text,
        captions=split.captions, image_names=split.image_names or [f"image {i}" for i in range(split.n_images)],
        picture_folder=split.picture_folder.resolve() if split.picture_folder else "", metrics=metrics,
        fingerprint=loaded.fingerprint, image_ranks=ranks.image_ranks, text_ranks=ranks.text_ranks,
        image_best=ranks.image_best, text_best=ranks.text_best,
        source=", ".join(f"{key}: {value}" for key, value in split.source.items()),
    )  # fmt: skip
    return metrics, ranks


def _tables(
    folder: Path, loaded: LoadedModel, split: Split, known: SplitEmbeddings | SplitScores, finding: Phases | None
) -> dict[str, Any]:
    """What an analysis is made of besides ranks: scores, or embeddings with the tables of concepts and prototypes."""
    weights, documents = weight_tables(folder, loaded.config, known, split, finding)
    if isinstance(known, SplitScores):
        arrays = image_part_tables(known.images) | weights
        return {"scores": known.scores, "extra_arrays": arrays, "extra_documents": documents}
    model = loaded.config.model
    arrays = dict(weights)
    if loaded.concepts is not None:
        of_concepts, about_concepts = concept_tables(
            known, loaded.concepts, threshold=model.concept_threshold, rescaled=model.concept_rescale
        )
        arrays |= of_concepts
        documents |= about_concepts
    prototypes = read_prototypes(folder, loaded.fingerprint) if loaded.config.memory.prototypes else None
    if prototypes is not None:
        arrays |= cluster_tables(known, split.image_of_text, prototypes)
    return {
        "image_embeddings": known.images, "text_embeddings": known.texts, "extra_arrays": arrays,
        "extra_documents": documents, "beta": model.beta if loaded.concepts is not None else None,
    }  # fmt: skip


def image_part_tables(images: ImageParts) -> dict[str, np.ndarray]:
    """What new captions are scored with: image_parts (n, L, D) float16 and image_part_lengths (n,); {} when larger than
    256 MiB, so that an analysis stays small beside its data."""
    if images.parts.size * 2 > PARTS_BYTES:
        return {}
    return {IMAGE_PARTS: images.parts.astype(np.float16), IMAGE_PART_LENGTHS: images.lengths}
