"""Questions about a run that combine several functions of `coder_core.api`; pages pass them to `ask` like those."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
from PIL import Image

from coder_core.api import (
    InputError,
    LossSettings,
    Run,
    causes,
    clusters,
    concept_attention,
    concepts,
    data_quality,
    decode,
    heat_maps,
    joint_space,
    jpeg,
    masked_maps,
    retrieval,
    similarity,
    slices,
)
from coder_core.api.sides import BOTH, Direction, Modality, Sides
from coder_core.api.stored_run import StoredResult

UPLOAD = "the picture"
SIZE = 480  # pixels of the longer side of a heat map's picture
Ranks = dict[str, np.ndarray]  # of every direction
Rows = np.ndarray | None  # samples of the split; None for all
Cell = tuple[int, int]  # anchor and candidate in a matrix
Samples = similarity.MatrixSamples
Scaled = similarity.Scaled


def clusters_of(
    run: Run, split: str, settings: clusters.ClusterSettings | None
) -> StoredResult[clusters.Clusters]:
    """Return stored offline clusters with these settings, or for None the run's prototypes."""
    if settings is not None:
        return clusters.offline_clusters(run, split, settings)
    prototypes = clusters.prototypes(run, split)
    return StoredResult("missing" if prototypes is None else "there", "prototypes", prototypes)


def cluster_labels(run: Run, split: str) -> np.ndarray | None:
    """Return (n + m,) the cluster of every sample: by prototypes, else by offline clusters with default settings."""
    settings = None if clusters.prototypes(run, split) else clusters.ClusterSettings()
    result = clusters_of(run, split, settings).value
    return None if result is None else np.concatenate([result.images, result.texts])


def agreement(run: Run, split: str, result: clusters.Clusters) -> tuple[float, float]:
    """Return the share (%) of pairs whose image and caption have the same label, and the share expected by chance."""
    owner = run.image_of_text(split)
    shares = clusters.labels_agree(result, owner).mean(), clusters.chance_agreement(result, owner)
    return 100 * float(shares[0]), 100 * float(shares[1])


def concept_table(run: Run, split: str) -> pd.DataFrame:
    """Return `ConceptView.table` with the attention (%) to every concept: image, text, and read, their mean."""
    images, texts = (100 * concept_attention.attention_of(run, split, modality).mean for modality in BOTH)
    table = concept_attention.view_of(run, split).table()
    return table.assign(image=images, text=texts, read=(images + texts) / 2)


@dataclass(frozen=True)
class GraphPart:
    """The part of the concept graph to show: the `count` strongest concepts of a kind ("": all) and the chosen one, or
    (`around`) the neighbourhood of the chosen one."""

    concept: int | None
    around: bool
    by: concepts.Strength
    kind: str
    count: int


def concept_graph(run: Run, split: str, part: GraphPart) -> tuple[concepts.ConceptGraph, int]:
    """Return a part of the graph, and the number of concepts to choose from."""
    view = concept_attention.view_of(run, split)
    chosen = part.concept
    if part.around and chosen is not None:
        neighbourhood = concepts.neighbourhood(view.edges(), chosen, len(view.words))
        return concepts.graph_of(view, neighbourhood[: part.count]), len(neighbourhood)
    table = concept_table(run, split)
    selected = concepts.strongest(table, part.by, part.kind, part.count)
    if chosen is not None and chosen not in selected and part.kind in ("", view.kinds[chosen]):
        selected = np.append(selected[: part.count - 1], chosen)
    total = int((table["kind"] == part.kind).sum()) if part.kind else len(table)
    return concepts.graph_of(view, selected), total


def caption_facts(run: Run, split: str) -> pd.DataFrame:
    """Return words, content words and diversity of every caption of the split, or of its sample."""
    captions = run.captions(split)
    anchors = run.diversity(split, modality="text", sample=run.sample(split))
    table = data_quality.caption_table([captions[row] for row in anchors["anchor"].tolist()])
    return table.assign(caption=anchors["anchor"], diversity=anchors["diversity"])


def why_not_cross_fitted(first: Run, second: Run) -> str:
    """Explain why two runs cannot judge each other's train pairs; "" if they can."""
    try:
        data_quality.unseen_images(first, second)
    except InputError as error:
        return f"{error.faults[0].place} {error.faults[0].found}"
    return ""


def principal_maps(
    runs: Sequence[Run], split: str, modalities: joint_space.Modalities
) -> list[joint_space.PlaneLayout]:
    """Compute the PCA map of every run, aligned to the first."""
    first = joint_space.principal_layout(runs[0], split, modalities=modalities)
    others = [joint_space.principal_layout(run, split, first, modalities=modalities) for run in runs[1:]]
    return [first, *others]


def answers(runs: Sequence[Run], split: str, direction: Direction, at: int, queries: Rows) -> np.ndarray:
    """Return (runs, queries) bool: which queries (None: all) with a match each run answers within the first `at`."""
    ranks = np.stack([run.ranks(split)[direction] for run in runs])
    ranks = ranks if queries is None else ranks[:, queries]
    return np.asarray((ranks < at)[:, (ranks >= 0).all(0)])


def cause_shares(run: Run, split: str, question: causes.Question, known: causes.Known) -> pd.DataFrame:
    """Return the share of every cause among the misses of a run."""
    return causes.error_budget(causes.causes_of_run(run, split, question, known))


def cause_fixes(
    runs: Sequence[Run], split: str, question: causes.Question, known: causes.Known
) -> pd.DataFrame:
    """Return recall of the last run under every fix; with another run, the first, also averaged with it."""
    last = runs[-1]
    misses = causes.causes_of_run(last, split, question, known)
    other = runs[0] if len(runs) > 1 else None
    return causes.fixes_of_run(last, other, split, misses, question.direction)


def drawn_for_verdicts(run: Run, split: str, captions: Rows) -> causes.Drawn:
    """Draw the first results that people should judge, for R@1 of captions (None: all) under complete labels."""
    misses = causes.causes_of_run(run, split, causes.Question("t2i", within=captions))
    return causes.draw_for_verdicts(misses)


def why(run: Run, split: str, misses: causes.Misses, known: causes.Known, query: int) -> str:
    """Say why a run misses a query; "" for a query outside the sample of a large split. `misses`: of `causes_of_run`."""
    evidence = causes.split_evidence(run, split)
    hubs = causes.hubs(run, split, misses.direction)
    return causes.why(misses, query, evidence, known, hubs)


def search_picture(run: Run, split: str, content: bytes, top: int = 10) -> pd.DataFrame:
    """Find the captions nearest to a new picture, for a run that `reads_pictures`."""
    query = run.encode_picture(decode(content, UPLOAD), split=split)
    return run.search(query, split=split, modality="image", top=top)


def look_alike(run: Run, split: str, content: bytes) -> retrieval.LookAlike:
    """Find the picture of the split whose pixels are most similar to a new picture."""
    return retrieval.look_alike(run, decode(content, UPLOAD), split=split)


def word_regions(
    run: Run, split: str, text: str, image: int | bytes, way: heat_maps.Way
) -> heat_maps.HeatMap:
    """Compute the heat map of a text and an image of the split, or an uploaded picture."""
    picture = decode(image, UPLOAD) if isinstance(image, bytes) else image
    return heat_maps.heat_map(run, split, text, picture, way)


def masked_regions(run: Run, split: str, text: str, image: int | bytes) -> masked_maps.MaskMap:
    """Compute the heat map by masking of a text and an image of the split, or an uploaded picture."""
    picture = decode(image, UPLOAD) if isinstance(image, bytes) else image
    return masked_maps.mask_map(run, split, text, picture)


def picture_of(run: Run, split: str, image: int | bytes) -> tuple[bytes, float] | None:
    """Return an image of the split, or an uploaded picture, as JPEG bytes with height ÷ width; None if unavailable."""
    upload = jpeg(decode(image, UPLOAD, size=SIZE)) if isinstance(image, bytes) else None
    if (content := run.picture(split, image, SIZE) if isinstance(image, int) else upload) is None:
        return None
    with Image.open(io.BytesIO(content), formats=["JPEG"]) as picture:
        return content, picture.height / picture.width


def best_candidates(run: Run, split: str, modality: Modality) -> np.ndarray:
    """Return the best candidates of every query of a modality, best first."""
    analysis = run.analysis(split)
    return np.asarray(analysis.text_best if modality == "text" else analysis.image_best)


def analysis_fault(run: Run, split: str) -> str:
    """Return the fault of the analysis of a split; "" if every byte is as it was written."""
    try:
        analysis = run.analysis(split)
        _ = analysis.captions, analysis.image_names, analysis.packed_pictures
    except InputError as error:
        return str(error)
    return ""


def gain_of_ranks(run: Run, split: str, recall: str, after: Ranks, row: str, captions: Rows) -> str:
    """Describe a recall by other ranks of a run, called `row`, against that by its own ranks."""
    change = retrieval.rank_gains(run.ranks(split), after, run.image_of_text(split), captions)[recall]
    return retrieval.describe_gain(recall, change, row, "the same run without it")


@dataclass(frozen=True)
class MatrixSettings:
    """Settings of a matrix; two runs with the same settings show the same samples in the same order. Settings of
    samples are those of `choose_samples`; the direction is that of the anchors; the loss has μ, γ, ε and the measure of
    diversity."""

    split: str
    source: similarity.BatchSource
    size: int
    seed: int
    chosen: str
    order: similarity.Order
    direction: Direction
    loss: LossSettings
    within: np.ndarray | None = None

    def without_sliders(self) -> Self:
        """Return the same with default μ, γ and ε, because batch, order and spread do not depend on the sliders."""
        measure = LossSettings(function=self.loss.function, entropy_temperature=self.loss.entropy_temperature)
        return replace(self, loss=measure)


def starting_loss(run: Run, split: str) -> LossSettings:
    """Return the sliders' initial values: those of training or, for imported embeddings, from their similarities."""
    return similarity.values_from_similarities(run, split).loss if run.summary.imported else run.loss


def matrix_batch(run: Run, settings: MatrixSettings) -> Samples:
    """Return the samples in this run's order. InputError: fewer than two pairs. Pass `settings.without_sliders()`."""
    s = settings
    choice = similarity.SampleChoice(s.source, s.size, s.seed, s.chosen, s.within)
    batch = similarity.choose_samples(run, s.split, choice)
    of_images = similarity.matrix_sides(run, s.split, batch, "i2t")
    return similarity.ordered(batch, of_images, s.order, s.direction, s.loss)


def matrix_spread(run: Run, settings: MatrixSettings, batch: Samples) -> np.ndarray:
    """Return the spread of every anchor's similarities over a batch. Pass `settings.without_sliders()`."""
    return similarity.shown_spread(_sides(run, settings, batch), settings.loss)


def scaled_matrix(run: Run, settings: MatrixSettings, batch: Samples, spread: np.ndarray) -> Scaled:
    """Return the matrix before and after scaling by diversity. `spread`: from `matrix_spread`."""
    return similarity.scaled_matrix(_sides(run, settings, batch), settings.loss, spread=spread)


def _sides(run: Run, settings: MatrixSettings, batch: Samples) -> Sides:
    return similarity.matrix_sides(run, settings.split, batch, settings.direction)


def pair_at(run: Run, settings: MatrixSettings, batch: Samples, scaled: Scaled, cell: Cell) -> Cell:
    """Return the image and caption (rows of the split) of a cell; for a block, those of its most similar negative."""
    row, column = cell
    pair = similarity.hardest_in_cell(_sides(run, settings, batch), scaled, row, column)
    image, text = pair if settings.direction == "i2t" else pair[::-1]
    return int(batch.images[image]), int(batch.texts[text])


def hardest_negative(run: Run, settings: MatrixSettings, batch: Samples, scaled: Scaled) -> tuple[int, int]:
    """Return the image and caption of the most similar negative (for blocks: in the most similar block)."""
    negatives = np.where(np.isnan(scaled.exponent), -np.inf, scaled.similarity)
    row, column = np.unravel_index(int(negatives.argmax()), negatives.shape)
    return pair_at(run, settings, batch, scaled, (int(row), int(column)))


def pair_numbers(
    run: Run, settings: MatrixSettings, batch: Samples, scaled: Scaled, cell: Cell
) -> similarity.Pair:
    """Return every number of one pair."""
    return similarity.open_pair(_sides(run, settings, batch), scaled, cell, paired=batch.paired)


def slice_mask(run: Run, split: str, expression: str, columns: slices.Columns) -> np.ndarray:
    """Return (m,) bool: captions selected by an expression or by plain words."""
    return slices.search(expression, columns)


def usual_expressions(run: Run, split: str, columns: slices.Columns) -> list[str]:
    """Return the expressions of the usual slices."""
    return [entry.expression for entry in slices.usual_slices(columns)]


def column_values(run: Run, split: str, name: str, columns: slices.Columns) -> slices.Values:
    """Return the values of the user's column, over the captions."""
    return slices.values_of(columns.own[name])


def slice_table(
    runs: Sequence[Run], split: str, direction: Direction, at: int, columns: slices.Columns
) -> pd.DataFrame:
    """Compute recall of the usual slices."""
    return slices.slice_table(
        runs, split, slices.Queries(direction, at), slices.usual_slices(columns), columns
    )
