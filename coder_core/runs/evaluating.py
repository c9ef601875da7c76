"""A run on a split: embeddings, ranks, metrics, and the analysis folder the app reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coder_core.data.dataset import Split
from coder_core.evaluation.ranking import Ranks, pair_sources, scored_ranks
from coder_core.evaluation.recall import Metrics, all_metrics
from coder_core.evaluation.sources import check_sources
from coder_core.faults import Fault, InputError
from coder_core.model.encode import Progress, SplitEmbeddings, encode_split
from coder_core.runs.analysis import write_analysis
from coder_core.runs.cluster_tables import cluster_tables, read_prototypes
from coder_core.runs.concept_tables import concept_tables
from coder_core.runs.restore import LoadedModel
from coder_core.runs.weight_tables import weight_tables

BEST_LISTED = 10


def embed(loaded: LoadedModel, split: Split, *, progress: Progress | None = None) -> SplitEmbeddings:
    """A split under a run's model, in every branch it has, with the concept attention.

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
    return encode_split(loaded.model, split, tokens, device=loaded.device, progress=progress, attention=True)


def evaluate_split(
    folder: Path, loaded: LoadedModel, split: Split, name: str, *, progress: Progress | None = None
) -> tuple[Metrics, Ranks]:
    """Evaluate a run on a split and write `analysis/<name>/`.

    Args:
        folder: the run.
        loaded: its model.
        split: the data.
        name: the name the analysis goes by.
        progress: called with samples done and samples in all.
    """
    in_both, model = embed(loaded, split, progress=progress), loaded.config.model
    sources = pair_sources(in_both.images, in_both.texts, in_both.second, model.beta)
    scored = check_sources(sources, split.image_of_text)
    found = scored_ranks(scored, best=BEST_LISTED)
    arrays: dict[str, np.ndarray] = {}
    documents: dict[str, Any] = {}
    if loaded.concepts is not None:
        arrays, documents = concept_tables(
            in_both, loaded.concepts, threshold=model.concept_threshold, rescaled=model.concept_rescale
        )
    prototypes = read_prototypes(folder, loaded.fingerprint) if loaded.config.memory.prototypes else None
    if prototypes is not None:
        arrays |= cluster_tables(in_both, split.image_of_text, prototypes)
    weight_arrays, weight_documents = weight_tables(folder, loaded.config, in_both, split)
    arrays |= weight_arrays
    documents |= weight_documents
    metrics = all_metrics(scored, found)
    write_analysis(
        folder, name, image_embeddings=in_both.images, text_embeddings=in_both.texts,
        image_of_text=split.image_of_text, captions=split.captions, extra_arrays=arrays, extra_documents=documents,
        beta=model.beta if loaded.concepts is not None else None,
        image_names=split.image_names or [f"image {i}" for i in range(split.n_images)],
        picture_folder=split.picture_folder.resolve() if split.picture_folder else "", metrics=metrics,
        fingerprint=loaded.fingerprint, image_ranks=found.image_ranks, text_ranks=found.text_ranks,
        image_best=found.image_best, text_best=found.text_best,
        source=", ".join(f"{key}: {value}" for key, value in split.source.items()),
    )  # fmt: skip
    return metrics, found
