"""What a run folder holds, read lazily: history, embeddings, scores, captions, pictures, ranks, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from coder_core.api.concepts.view import ConceptView
from coder_core.api.diversity import table as maths
from coder_core.api.diversity.anchor import Loss
from coder_core.api.diversity.table import Array, Modality
from coder_core.api.listing import RunSummary, loss_values
from coder_core.api.pictures import thumbnail
from coder_core.api.sampling import SCORES_AT_MOST, Part, Sample, draw_points_sample, draw_sample, part_of
from coder_core.console.faults import Fault, InputError
from coder_core.runs.analysis.concept_reader import in_one
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.files.history import read_frame


class StoredRun:
    """A run folder, read lazily; analysis arrays stay memory-mapped.

    Raises:
        InputError: from any method, when the part of the run it needs is missing or damaged.
    """

    def __init__(self, summary: RunSummary) -> None:
        self.summary = summary
        self.name = summary.name
        self.path = summary.path
        self.config = summary.config
        self.status = summary.status
        self.splits = summary.splits
        self._analyses: dict[str, Analysis] = {}
        self._names: dict[str, list[str]] = {}
        self._mixtures: dict[str, tuple[Array, Array]] = {}
        self._parts: dict[tuple[object, ...], Part] = {}

    @property
    def history(self) -> pd.DataFrame:
        """One row an epoch, as far as training has come."""
        return read_frame(self.path, "epoch")

    @property
    def steps(self) -> pd.DataFrame:
        """One row every few steps: losses, learning rate, quartiles of the diversity."""
        return read_frame(self.path, "step")

    @property
    def loss(self) -> Loss:
        """μ, γ, ε of training, or the paper's."""
        return loss_values(self.config)

    def analysis(self, split: str) -> Analysis:
        """The analysis folder of a split; the name is matched against `splits`, never joined to a path."""
        if split not in self.splits:
            known = ", ".join(self.splits) or "none; run `python -m coder_core.evaluate` on it"
            raise InputError(Fault(f"run {self.name}", f"has no analysis of split {split!r}", f"one of: {known}"))
        if split not in self._analyses:
            self._analyses[split] = open_analysis(self.path, split)
        return self._analyses[split]

    def metrics(self, split: str) -> dict[str, float]:
        """The dict of `retrieval_metrics`."""
        return dict(self.summary.metrics.get(split, {}))

    def embeddings(self, split: str) -> tuple[Array, Array]:
        """Images (n, D) and texts (m, D) of the instance branch, unit rows, memory-mapped float32."""
        analysis = self.analysis(split)
        return analysis.image_embeddings, analysis.text_embeddings

    def scoring(self, split: str) -> tuple[Array, Array]:
        """Images and texts as unit rows whose inner products are the run's scores, by which everything is ranked.

        The instance embeddings, or, with a concept branch, both in one vector: β · cos_I + (1 − β) · cos_C (eq. 8).
        """
        concepts = self.analysis(split).concepts
        if concepts is None:
            return self.embeddings(split)
        if split not in self._mixtures:
            v, w = self.embeddings(split)
            beta = concepts.beta
            self._mixtures[split] = (
                in_one(v, concepts.image_embeddings, beta),
                in_one(w, concepts.text_embeddings, beta),
            )
        return self._mixtures[split]

    def scores(self, split: str) -> Array | None:
        """(n, m) of a model that scores pair by pair; None where embeddings tell the scores."""
        return self.analysis(split).scores

    def compared(self, split: str) -> tuple[Array, Array, Array | None]:
        """Images and texts as `embeddings` has them and None; of a run without embeddings (n, 0), (m, 0) and scores."""
        scores = self.scores(split)
        if scores is None:
            return *self.embeddings(split), None
        return np.empty((scores.shape[0], 0), np.float32), np.empty((scores.shape[1], 0), np.float32), scores

    def sides(self, split: str, modality: Modality) -> maths.Sides:
        """All anchors, which `modality` names, and candidates, by the scores by which everything is ranked."""
        v, w, scores = self.compared(split)
        if scores is None:
            v, w = self.scoring(split)
        return maths.sides(v, w, self.image_of_text(split), modality, scores)

    def count(self, split: str, modality: Modality) -> int:
        """How many images or captions a split has."""
        analysis = self.analysis(split)
        return analysis.n_images if modality == "image" else analysis.n_texts

    def concepts(self, split: str) -> ConceptView | None:
        """What the concept branch reads; None for a run without one."""
        tables = self.analysis(split).concepts
        return None if tables is None else ConceptView(tables)

    def captions(self, split: str) -> Sequence[str]:
        """The m captions."""
        return self.analysis(split).captions

    def image_of_text(self, split: str) -> Array:
        """(m,) the image each caption belongs to."""
        return np.asarray(self.analysis(split).image_of_text)

    def captions_of(self, split: str, image: int) -> Array:
        """Numbers of an image's own captions."""
        return np.flatnonzero(self.image_of_text(split) == image)

    def first_captions(self, split: str) -> Array:
        """(n,) the number of each image's first caption; −1 for an image without captions."""
        owner = self.image_of_text(split)
        first = np.full(self.count(split, "image"), -1, dtype=np.int64)
        first[owner[::-1]] = np.arange(len(owner))[::-1]  # of equal places the last one written stays: the first
        return first

    def picture(self, split: str, image: int, size: int = 320) -> bytes | None:
        """The picture of an image as JPEG bytes; None when the run knows none."""
        analysis = self.analysis(split)
        if split not in self._names:
            self._names[split] = analysis.image_names
        return thumbnail(analysis.picture_folder, self._names[split][image], size)

    def ranks(self, split: str) -> dict[str, Array]:
        """ "i2t" (n,) and "t2i" (m,): rank of the best true match, 0 is first, ties count against it."""
        analysis = self.analysis(split)
        return {"i2t": np.asarray(analysis.image_ranks), "t2i": np.asarray(analysis.text_ranks)}

    def similarity(self, images: Sequence[int] | Array, texts: Sequence[int] | Array, *, split: str) -> Array:
        """(k, l) scores of the chosen images and captions: cosines, with a concept branch mixed by β."""
        rows, columns = np.asarray(images), np.asarray(texts)
        scores = self.scores(split)
        if scores is not None:
            return np.asarray(scores[rows[:, None], columns[None, :]])
        v, w = self.scoring(split)
        return np.asarray(v[rows] @ w[columns].T)

    def sample(self, split: str, *, scores: int = SCORES_AT_MOST, seed: int = 0) -> Sample | None:
        """A random part of a split too large to look at whole (images × captions > `scores`); None when it is not."""
        images = self.count(split, "image")
        return draw_sample(images, self.image_of_text(split), scores=scores, seed=seed)

    def points_sample(self, split: str, *, seed: int = 0) -> Sample | None:
        """About 20,000 images and captions of a split too large to look at whole, for its joint space; or None."""
        images = self.count(split, "image")
        return draw_points_sample(images, self.image_of_text(split), seed=seed)

    def part(self, split: str, sample: Sample | None = None) -> Part:
        """The embeddings of a sample, copied once and kept, and which rows they are; the whole split for None.

        Raises:
            InputError: the run scores pair by pair, so there is no embedding to look at.
        """
        self.embeddings(split)
        return self._part(split, sample)

    def _part(self, split: str, sample: Sample | None) -> Part:
        key = (split, sample.key if sample else None)
        if key not in self._parts:
            v, w, scores = self.compared(split)
            self._parts[key] = part_of(v, w, self.image_of_text(split), sample, scores)
        return self._parts[key]
