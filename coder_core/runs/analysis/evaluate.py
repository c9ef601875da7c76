"""Evaluate a run on a split: embeddings or scores, ranks, metrics, and the analysis folder the app reads."""

from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, named, silent
from coder_core.data.captioned.decoding import Pictures
from coder_core.data.captioned.positions import note_packed
from coder_core.data.embeddings import Embeddings
from coder_core.data.split import Split
from coder_core.evaluation.rank_metrics import Metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import metrics_of
from coder_core.evaluation.relevance import Queries, Relevance, relevance_of_judgements
from coder_core.evaluation.sampled import AS_USUAL, RANKED_PAIRS, RankOptions, choose_queries
from coder_core.evaluation.scores import check_owners, check_scores
from coder_core.evaluation.sources import Source
from coder_core.model.encode import Encoded, SplitEncoding, SplitScores, score_split
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.clusters import cluster_tables, read_prototypes
from coder_core.runs.analysis.concept_arrays import concept_tables
from coder_core.runs.analysis.unfinished_ranks import UnfinishedRanks
from coder_core.runs.analysis.weights import weight_tables
from coder_core.runs.analysis.write import write_analysis
from coder_core.runs.load import LoadedModel
from coder_core.runs.towers import noted_pictures, noted_tower

BEST_LISTED = 10
PARTS_BYTES = 1 << 28  # of image_parts


def score(loaded: LoadedModel, split: Split, *, progress: Progress = silent) -> tuple[list[Source], Encoded]:
    """Encode or score a split with a run's model. InputError: its features have another size than in training."""
    if split.feature_size != loaded.feature_size:
        found = f"have {split.feature_size} numbers per region"
        expected = f"{loaded.feature_size}, as in training"
        fix = "use features of the same network"
        raise InputError.at(f"{split.name} features", found, expected, fix)
    tokens = loaded.reader.encode(split.captions)
    beta = loaded.config.model.beta
    encoding = SplitEncoding(attention=True, progress=progress)
    return score_split(loaded.model, split, tokens, beta, encoding)


def evaluate_split(
    folder: Path,
    loaded: LoadedModel,
    split: Split,
    name: str,
    *,
    options: RankOptions = AS_USUAL,
    progress: Progress = silent,
) -> tuple[Metrics, list[Source]]:
    """Evaluate a run on a split and write `analysis/<name>/`; return its metrics and the scores behind them."""
    sources, encoded = score(loaded, split, progress=progress)
    place = UnfinishedRanks(folder, name)
    judged = _judgements(split)
    progress_of_ranks = named(progress, "ranks")
    metrics, ranks = ranked(sources, split.image_of_text, place, options, progress_of_ranks, relevance=judged)
    arrays, documents = _tables(folder, loaded, split, encoded, named(progress, folder.name))
    if split.search_log is not None:
        arrays[tables.JUDGEMENTS] = split.search_log.judgements
        documents[tables.DOCUMENT_SEARCH_LOG] = split.search_log.document()

    documents |= noted_tower(split.source.get("features", ""))
    if loaded.towers is not None:
        documents[tables.DOCUMENT_TUNED] = loaded.towers.document()

    beta = loaded.config.model.beta if loaded.concepts is not None else None
    write_analysis(
        folder,
        name,
        fingerprint=loaded.fingerprint,
        metrics=metrics,
        documents=documents,
        beta=beta,
        **describe_samples(split, split.n_images),
        **ranks,
        **arrays,
    )
    return metrics, sources


def _judgements(split: Split) -> Relevance | None:
    """Return the judgments of a search log; None for a split of captions, whose labels decide what is right."""
    if split.search_log is None:
        return None
    return relevance_of_judgements(split.search_log.judgements, split.n_images, split.n_texts)


def ranked(
    sources: list[Source],
    image_of_text: np.ndarray,
    place: UnfinishedRanks,
    options: RankOptions = AS_USUAL,
    progress: Progress = silent,
    *,
    relevance: Relevance | None = None,
) -> tuple[Metrics, dict[str, Any]]:
    """Rank scores, of a large split those of a sample of queries (`choose_queries`); return their metrics and the arrays
    `tables.RANKS` and, of a sample, `tables.RANKED_QUERIES`. Metrics are {} if no query is ranked.

    Args:
        place: of finished parts of a ranking of many queries, which continues there after an interruption.
        relevance: which results are right; None: the labels.
    """
    scores = check_scores(sources, options.device)
    n, m = scores.shape
    owner = check_owners(image_of_text, n, m)
    relevance = Relevance.of_labels(owner, n) if relevance is None else relevance
    queries = choose_queries(relevance, owner, options.queries)
    in_parts = queries
    if queries is None and n * m > RANKED_PAIRS:
        in_parts = Queries(np.arange(n), np.arange(m))
    chosen = relevance.of_queries(in_parts)
    with place.opened(sources, chosen) as keep:
        ranks = rank(scores, chosen, best=BEST_LISTED, progress=progress, keep=keep)
    return metrics_of(scores, ranks, chosen), tables.rank_tables(ranks, queries)


def describe_samples(samples: Split | Embeddings, n_images: int) -> dict[str, Any]:
    """Return the arguments of `write_analysis` that describe a split's samples."""
    read = samples.pictures.split if isinstance(samples.pictures, Pictures) else samples.pictures
    packed = note_packed(read.positions, read.rows) if read is not None else None
    folder = samples.picture_folder
    described: dict[str, object] = {
        "captions": samples.captions,
        "image_of_text": samples.image_of_text,
        "image_names": samples.image_names or [f"image {i}" for i in range(n_images)],
        "source": ", ".join(f"{key}: {value}" for key, value in samples.source.items()),
        "picture_folder": folder.resolve() if folder else "",
    }
    if packed is not None:
        described |= {"packed": packed[0], tables.PICTURE_POSITIONS: packed[1]}
    elif not folder and samples.image_names:
        described |= noted_pictures(samples.source.get("features", ""), samples.image_names)

    groups = getattr(samples, tables.IMAGE_GROUPS, None)
    if groups is not None:
        described[tables.IMAGE_GROUPS] = groups
    if samples.columns:
        described["columns"] = samples.columns

    holder = samples if isinstance(samples, Split) else read
    ids = None if holder is None else holder.caption_ids
    return described if ids is None else described | {tables.CAPTION_IDS: ids}


def _tables(
    folder: Path, loaded: LoadedModel, split: Split, encoded: Encoded, progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arrays and documents besides the ranks: scores, or embeddings, with weights, concepts and prototypes."""
    if split.search_log is None:
        arrays, documents = weight_tables(folder, loaded.config, encoded, split, progress)
    else:  # weights are of captions with their own images
        arrays = {}
        documents = {}

    if isinstance(encoded, SplitScores):
        parts = encoded.images.parts
        arrays[tables.SCORES] = encoded.scores
        if parts.size * 2 <= PARTS_BYTES:  # for scoring new captions; larger ones are not stored
            arrays[tables.IMAGE_PARTS] = parts.astype(np.float16)
            arrays[tables.IMAGE_PART_LENGTHS] = encoded.images.lengths
        return arrays, documents

    arrays |= {"image_embeddings": encoded.images, "text_embeddings": encoded.texts}
    if loaded.concepts is not None and loaded.model.concepts is not None:
        graph = loaded.model.concepts.network.graph.cpu().numpy()
        concept_arrays, concept_documents = concept_tables(encoded, loaded.concepts, graph)
        arrays = arrays | concept_arrays
        documents = documents | concept_documents

    prototypes = read_prototypes(folder, loaded.fingerprint) if loaded.config.memory.prototypes else None
    if prototypes is not None:
        arrays |= cluster_tables(encoded, split.image_of_text, prototypes)

    return arrays, documents
