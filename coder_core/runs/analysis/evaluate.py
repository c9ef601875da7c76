"""Evaluate a run on a split: embeddings or scores, ranks, metrics, and the analysis folder the app reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.progress import Progress, named, silent
from coder_core.data.captioned.decoding import Pictures
from coder_core.data.captioned.positions import note_packed
from coder_core.data.embeddings import Embeddings
from coder_core.data.split import Split
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import Metrics, all_metrics
from coder_core.evaluation.sources import Source
from coder_core.evaluation.tiles import score_tiles
from coder_core.model.encode import ImageParts, SplitEmbeddings, SplitScores, score_split
from coder_core.runs.analysis.clusters import cluster_tables, read_prototypes
from coder_core.runs.analysis.concepts import concept_tables
from coder_core.runs.analysis.tables import (
    CAPTION_IDS,
    DOCUMENT_TUNED,
    IMAGE_PART_LENGTHS,
    IMAGE_PARTS,
    PICTURE_POSITIONS,
    RANKS,
    SCORES,
)
from coder_core.runs.analysis.weights import weight_tables
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.load import LoadedModel
from coder_core.runs.towers import noted_pictures, noted_tower

BEST_LISTED = 10
PARTS_BYTES = 1 << 28


def score(
    loaded: LoadedModel, split: Split, *, progress: Progress = silent
) -> tuple[list[Source], SplitEmbeddings | SplitScores]:
    """Encode or score a split with a run's model.

    Raises:
        InputError: the split's features have another width than the run was trained with.
    """
    if split.feature_size != loaded.feature_size:
        expected, fix = f"{loaded.feature_size}, as in training", "use the features of the same network"
        raise InputError.at(
            f"{split.name} features", f"have {split.feature_size} numbers a region", expected, fix
        )
    tokens = loaded.reader.encode(split.captions)
    return score_split(
        loaded.model,
        split,
        tokens,
        beta=loaded.config.model.beta,
        device=loaded.device,
        progress=progress,
        attention=True,
    )


def evaluate_split(
    folder: Path, loaded: LoadedModel, split: Split, name: str, *, progress: Progress = silent
) -> tuple[Metrics, list[Source]]:
    """Evaluate a run on a split and write `analysis/<name>/`; return its metrics and the scores behind them.

    Args:
        folder: the run.
        loaded: its model.
        split: the data.
        name: the name the analysis goes by.
        progress: called with what is done (samples, or pairs of a model that scores them one by one) and what there is.
    """
    sources, encoded = score(loaded, split, progress=progress)
    scores = score_tiles(sources, split.image_of_text)
    ranks = rank(scores, best=BEST_LISTED)
    metrics = all_metrics(scores, ranks)
    arrays, documents = _tables(folder, loaded, split, encoded, named(progress, folder.name))
    documents |= noted_tower(split.source.get("features", ""))
    if loaded.towers is not None:
        documents[DOCUMENT_TUNED] = loaded.towers.document()
    write_analysis(
        folder,
        name,
        **describe_samples(split, split.n_images),
        metrics=metrics,
        fingerprint=loaded.fingerprint,
        documents=documents,
        beta=loaded.config.model.beta if loaded.concepts is not None else None,
        **{table: getattr(ranks, table) for table in RANKS},
        **arrays,
    )
    return metrics, sources


def describe_samples(samples: Split | Embeddings, n_images: int) -> dict[str, Any]:
    """Arguments of `write_analysis` about a split's samples."""
    read = samples.pictures.split if isinstance(samples.pictures, Pictures) else samples.pictures
    noted = note_packed(read.positions, read.rows) if read is not None else None
    where: dict[str, Any] = {
        "picture_folder": samples.picture_folder.resolve() if samples.picture_folder else ""
    }
    if noted is not None:
        where |= {"packed": noted[0], PICTURE_POSITIONS: noted[1]}
    elif not samples.picture_folder and samples.image_names:
        where |= noted_pictures(samples.source.get("features", ""), samples.image_names)
    ids = (
        samples.caption_ids if isinstance(samples, Split) else read.caption_ids if read is not None else None
    )
    return (
        where
        | ({} if ids is None else {CAPTION_IDS: ids})
        | {
            "captions": samples.captions,
            "image_of_text": samples.image_of_text,
            "image_names": samples.image_names or [f"image {i}" for i in range(n_images)],
            "source": ", ".join(f"{key}: {value}" for key, value in samples.source.items()),
        }
    )


def _tables(
    folder: Path,
    loaded: LoadedModel,
    split: Split,
    encoded: SplitEmbeddings | SplitScores,
    progress: Progress,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and documents besides the ranks: scores, or embeddings with the tables of concepts and prototypes."""
    arrays, documents = weight_tables(folder, loaded.config, encoded, split, progress)
    if isinstance(encoded, SplitScores):
        return {**arrays, SCORES: encoded.scores, **image_part_tables(encoded.images)}, documents
    arrays = {**arrays, "image_embeddings": encoded.images, "text_embeddings": encoded.texts}
    if loaded.concepts is not None and loaded.model.concepts is not None:
        graph = loaded.model.concepts.network.graph.cpu().numpy()
        concept_arrays, concept_documents = concept_tables(encoded, loaded.concepts, graph)
        arrays, documents = arrays | concept_arrays, documents | concept_documents
    prototypes = read_prototypes(folder, loaded.fingerprint) if loaded.config.memory.prototypes else None
    if prototypes is not None:
        arrays |= cluster_tables(encoded, split.image_of_text, prototypes)
    return arrays, documents


def image_part_tables(images: ImageParts) -> dict[str, np.ndarray]:
    """Arrays for scoring new captions: image_parts (n, L, D) float16 and image_part_lengths (n,); {} when larger than
    256 MiB, so that an analysis stays small beside its data."""
    if images.parts.size * 2 > PARTS_BYTES:
        return {}
    return {IMAGE_PARTS: images.parts.astype(np.float16), IMAGE_PART_LENGTHS: images.lengths}
