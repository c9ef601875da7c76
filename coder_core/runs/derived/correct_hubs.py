"""Correct the scores of a run for hubs, and store the ranks. `hub_correction` reads them without torch."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from coder_core.console.faults import InputError
from coder_core.evaluation.hub_correction import NEIGHBOURS, choose_strengths, corrected, hub_biases
from coder_core.evaluation.nearest import too_many
from coder_core.evaluation.rank_metrics import rank_metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, Source
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import rank_tables
from coder_core.runs.derived.hub_correction import FLAG, HubCorrection, correction_folder
from coder_core.runs.derived.store import write_derived

REFERENCE = "train"  # its captions and images are the queries for computing biases


def correct_hubs(
    run: Path,
    split: str,
    chosen_on: str,
    sources_of: Callable[[str], tuple[Sequence[Source], np.ndarray]],
    device: str = "cpu",
) -> tuple[HubCorrection, list[Source]]:
    """Correct the scores of an analysed split with k and α chosen on `chosen_on`, and store the ranks. Returns the
    ranks and the corrected scores. `sources_of`: split name → its scores, and the image of every caption, (m,).
    InputError: the run scores pair by pair, so that train queries would have to be scored with every candidate."""
    reference = _embeddings(run, sources_of(REFERENCE)[0])
    neighbours = [k for k in NEIGHBOURS if k <= min(reference[0].shape)]

    def biased(name: str) -> tuple[list[EmbeddingPair], np.ndarray, np.ndarray, np.ndarray]:
        sources, owner = sources_of(name)
        pairs = _embeddings(run, sources)
        joined = list(zip(pairs, reference, strict=True))
        images = [EmbeddingPair(pair.image, train.text, pair.weight) for pair, train in joined]
        texts = [EmbeddingPair(pair.text, train.image, pair.weight) for pair, train in joined]
        return pairs, owner, hub_biases(images, neighbours, device), hub_biases(texts, neighbours, device)

    pairs, owner, image_biases, text_biases = biased(chosen_on)
    i2t, t2i = choose_strengths(pairs, owner, image_biases, text_biases, neighbours, device)
    if split != chosen_on:
        pairs, owner, image_biases, text_biases = biased(split)
    of_images = t2i.alpha * image_biases[:, neighbours.index(t2i.k)]
    of_texts = i2t.alpha * text_biases[:, neighbours.index(i2t.k)]
    scores = corrected(pairs, of_images, of_texts)

    analysis = open_analysis(run, split)
    labels = Relevance.of_labels(owner, scores[0].shape[0]).of_queries(analysis.ranked_queries)
    ranks = rank(check_scores(scores, device), labels)

    strengths = {"i2t": (i2t.k, i2t.alpha), "t2i": (t2i.k, t2i.alpha)}
    metrics = rank_metrics(ranks, labels)
    facts = {"chosen_on": chosen_on, "strengths": strengths, "metrics": metrics}

    folder = correction_folder(run, split, analysis)
    write_derived(folder, rank_tables(ranks), facts=facts)

    images, texts = scores[0].shape
    train_images, train_texts = reference[0].shape
    correction = HubCorrection(
        image_ranks=ranks.i2t.first,
        text_ranks=ranks.t2i.first,
        image_best=ranks.i2t.best,
        text_best=ranks.t2i.best,
        chosen_on=chosen_on,
        strengths=strengths,
        metrics=metrics,
        by_index=too_many(images, train_texts) or too_many(texts, train_images),
    )
    return correction, scores


def _embeddings(run: Path, sources: Sequence[Source]) -> list[EmbeddingPair]:
    pairs = [source for source in sources if isinstance(source, EmbeddingPair)]
    if len(pairs) < len(sources):
        problem = f"scores pair by pair: {FLAG} needs embeddings"
        fix = f"evaluate it without {FLAG}"
        raise InputError.at(run, problem, "a run with one embedding of every image and caption", fix)
    return pairs
