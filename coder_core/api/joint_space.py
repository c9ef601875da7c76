"""The joint space of a run: modality gap, similarity distributions, maps, and a table of all samples."""

import numpy as np
import pandas as pd

from coder_core.api.retrieval.results import occurrences
from coder_core.api.run import Run
from coder_core.api.sampling import SCORES_AT_MOST, Sample
from coder_core.api.sides import BOTH, Array, first_captions
from coder_core.api.stored_run import StoredResult, read_stored
from coder_core.data.words import tokenise
from coder_core.evaluation import separation as pairs_apart
from coder_core.evaluation.separation import Distributions, Separation
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.geometry import points as clouds
from coder_core.geometry.layout import FEWEST, MOST_TSNE, PlaneLayout, lay_out, layout_seconds
from coder_core.geometry.settings import LayoutSettings, Method, Modalities
from coder_core.runs.derived.compute import layout_folder, read_layout


def stored_layout(
    run: Run, split: str, settings: LayoutSettings, reference: Run | None = None
) -> StoredResult[PlaneLayout]:
    """Return the layout that `coder-lab project` computed, aligned to `reference` if given. InputError: the
    analysis of a run is missing or damaged."""
    other = reference.analysis(split) if reference else None
    folder = layout_folder(run.path, split, settings, run.analysis(split), other)
    return read_stored(folder.name, lambda: read_layout(folder))


def principal_layout(
    run: Run,
    split: str,
    reference: PlaneLayout | None = None,
    *,
    sample: Sample | None = None,
    modalities: Modalities = "both",
) -> PlaneLayout:
    """Compute the PCA layout of a split, or of a sample of it, aligned to `reference` if given."""
    part = run.part(split, sample)
    settings = LayoutSettings("pca", modalities=modalities)
    plane = None if reference is None else reference.plane
    return lay_out(clouds.Points(part.images, part.texts), settings, reference=plane)


def draw_points(images: int, captions: int, most: int) -> Array:
    """Choose the points to draw: all, or `most` at random with images and captions in proportion; ascending."""
    return clouds.stratified((images, captions), most, seed=0)


def modality_gap(run: Run, split: str, *, sample: Sample | None = None) -> float:
    """Return the distance between the mean image and the mean caption of a split, or of a sample of it."""
    part = run.part(split, sample)
    return clouds.centroid_distance(part.images, part.texts)


def score_separation(run: Run, split: str) -> Separation:
    """Return the mean scores of matching and of other pairs of a split, with both branches of a run that has two."""
    sources = run.analysis(split).sources
    own = pairs_apart.own_similarity(sources, run.image_of_text(split))
    return pairs_apart.separation(sources, own)


def score_distributions(run: Run, split: str) -> Distributions:
    """Return histograms of the scores by which the run ranks."""
    return pairs_apart.distributions(run.analysis(split).sources, run.image_of_text(split))


def auroc(counts: Distributions) -> float:
    """Return the probability that a matching pair scores higher than another pair, the area under the ROC curve, from
    histograms; pairs in one bin count half. It does not depend on the scale of the scores. NaN without other pairs.

    >>> counts = Distributions(np.linspace(-1, 1, 4), np.array([0, 1, 3]), np.array([4, 4, 0]), 2, 2)
    >>> auroc(counts)
    0.9375
    """
    others = int(counts.negative.sum())
    matching = int(counts.positive.sum())
    if not others or not matching:
        return float("nan")
    below = np.cumsum(counts.negative) - counts.negative
    higher = (counts.positive * (below + counts.negative / 2)).sum()
    return float(higher / (matching * others))


def samples(run: Run, split: str, *, sample: Sample | None = None) -> pd.DataFrame:
    """Describe the position of every sample in the joint space: images first, in the order of a layout's points.

    Args:
        sample: from `Run.points_sample`: only its rows are read; hubness then counts its queries, diversity is taken
            over its candidates, and ranks are those in the whole split.

    Returns:
        One row per sample: modality ("image", "caption"), number (row in its modality), image, text (the caption; of an
        image its first one), rank (of the best true match, from 1), similarity (to its match, of an image the best),
        hubness (number of queries that have it among their first ten results), words (of the caption), and diversity
        (with the run's ε) if the split, or the sample, is small enough to compute whole.
    """
    part = run.part(split, sample)
    n = len(part.images)
    m = len(part.texts)
    owner = part.owner
    split_captions = run.captions(split)
    captions = [split_captions[j] for j in part.text_rows.tolist()]
    similarity = pairs_apart.own_similarity([EmbeddingPair(part.images, part.texts)], owner)
    best = np.full(n, np.nan)
    np.fmax.at(best, owner, similarity)
    first = first_captions(owner, n)
    ranks = run.ranks(split)
    rank = np.concatenate([ranks["i2t"][part.image_rows], ranks["t2i"][part.text_rows]]) + 1.0
    of_images = occurrences(run, split, "t2i", queries=part.text_rows)["count"].to_numpy()
    of_texts = occurrences(run, split, "i2t", queries=part.image_rows)["count"].to_numpy()
    lengths = np.array([float(len(tokenise(caption))) for caption in captions])
    columns = {
        "modality": np.repeat(np.array(["image", "caption"], dtype=object), [n, m]),
        "number": np.concatenate([part.image_rows, part.text_rows]),
        "image": np.concatenate([part.image_rows, part.image_rows[owner]]),
        "text": [captions[j] if j >= 0 else "" for j in first.tolist()] + captions,
        "rank": np.where(rank < 1, np.nan, rank),
        "similarity": np.concatenate([best, similarity]),
        "hubness": np.concatenate([of_images[part.image_rows], of_texts[part.text_rows]]),
        "words": np.concatenate([np.where(first >= 0, lengths[first], np.nan), lengths]),
    }
    table = pd.DataFrame(columns)
    if n * m <= SCORES_AT_MOST:
        epsilon = run.loss.epsilon
        tables = [run.diversity(split, epsilon=epsilon, sample=sample, modality=side) for side in BOTH]
        table["diversity"] = np.concatenate([table["diversity"].to_numpy() for table in tables])
    return table
