"""Ranks of a run with its scores corrected for hubs, stored beside the run for the app."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.evaluation.sources import EmbeddingPair, Source
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.analysis.tables import RANKS, rank_tables
from coder_core.runs.derived.store import DerivedFolder, derived_folder, read_as, write_derived

FLAG = "--hub-correction"
REFERENCE = "train"  # its captions and images are the queries for computing biases


@dataclass(frozen=True)
class HubCorrection:
    """Ranks of a split after the correction, and how it was chosen."""

    image_ranks: np.ndarray  # (n,) int64 with corrected scores, −1 for an image without captions
    text_ranks: np.ndarray  # (m,)
    image_best: np.ndarray  # (n, k) int32 the best captions of every image
    text_best: np.ndarray  # (m, k) the best images of every caption
    chosen_on: str  # the split that k and α were chosen on
    strengths: Mapping[str, tuple[int, float]]  # "i2t" and "t2i" → k and α
    metrics: Mapping[str, float]  # of the corrected scores


def correction_folder(run: Path, split: str, analysis: Analysis) -> DerivedFolder:
    """Return the folder of a run's corrected ranks."""
    return derived_folder(run, split, "hubs", {}, [analysis])


def read_correction(folder: DerivedFolder) -> HubCorrection | None:
    """Read stored corrected ranks; None if they do not exist (InputError: they are damaged)."""

    def build(arrays: dict[str, Any], manifest: dict[str, Any]) -> HubCorrection:
        facts = manifest["facts"]
        strengths = {way: (int(k), float(alpha)) for way, (k, alpha) in facts["strengths"].items()}
        metrics = {str(name): float(value) for name, value in facts["metrics"].items()}
        ranks = {name: arrays[name] for name in RANKS}
        chosen_on = str(facts["chosen_on"])
        return HubCorrection(**ranks, chosen_on=chosen_on, strengths=strengths, metrics=metrics)

    return read_as(folder, build)


def correct_hubs(
    run: Path, split: str, chosen_on: str, sources_of: Callable[[str], tuple[Sequence[Source], np.ndarray]]
) -> tuple[HubCorrection, list[Source]]:
    """Correct the scores of an analysed split with k and α chosen on `chosen_on`, and store the ranks. Returns the
    ranks and the corrected scores. `sources_of`: split name → its scores, and the image of every caption, (m,).
    InputError: the run scores pair by pair, so that train queries would have to be scored with every candidate."""
    from coder_core.evaluation.hub_correction import NEIGHBOURS, choose_strengths, corrected, hub_biases
    from coder_core.evaluation.ranking import rank
    from coder_core.evaluation.recall import rank_metrics
    from coder_core.evaluation.relevance import Relevance
    from coder_core.evaluation.scores import check_scores

    reference = _embeddings(run, sources_of(REFERENCE)[0])
    neighbours = [k for k in NEIGHBOURS if k <= min(reference[0].shape)]

    def biased(name: str) -> tuple[list[EmbeddingPair], np.ndarray, np.ndarray, np.ndarray]:
        sources, owner = sources_of(name)
        pairs = _embeddings(run, sources)
        joined = list(zip(pairs, reference, strict=True))
        images = [EmbeddingPair(pair.image, train.text, pair.weight) for pair, train in joined]
        texts = [EmbeddingPair(pair.text, train.image, pair.weight) for pair, train in joined]
        return pairs, owner, hub_biases(images, neighbours), hub_biases(texts, neighbours)

    pairs, owner, image_biases, text_biases = biased(chosen_on)
    i2t, t2i = choose_strengths(pairs, owner, image_biases, text_biases, neighbours)
    if split != chosen_on:
        pairs, owner, image_biases, text_biases = biased(split)
    of_images = t2i.alpha * image_biases[:, neighbours.index(t2i.k)]
    of_texts = i2t.alpha * text_biases[:, neighbours.index(i2t.k)]
    scores = corrected(pairs, of_images, of_texts)
    labels = Relevance.of_labels(owner, scores[0].shape[0])
    ranks = rank(check_scores(scores), labels)
    strengths = {"i2t": (i2t.k, i2t.alpha), "t2i": (t2i.k, t2i.alpha)}
    arrays: dict[str, Any] = rank_tables(ranks)
    facts: dict[str, Any] = {"chosen_on": chosen_on, "strengths": strengths}
    facts["metrics"] = rank_metrics(ranks, labels)
    write_derived(correction_folder(run, split, open_analysis(run, split)), arrays, facts=facts)
    return HubCorrection(**arrays, **facts), scores


def _embeddings(run: Path, sources: Sequence[Source]) -> list[EmbeddingPair]:
    pairs = [source for source in sources if isinstance(source, EmbeddingPair)]
    if len(pairs) < len(sources):
        problem = f"scores pair by pair: {FLAG} needs embeddings"
        fix = f"evaluate it without {FLAG}"
        raise InputError.at(run, problem, "a run with one embedding of every image and caption", fix)
    return pairs
