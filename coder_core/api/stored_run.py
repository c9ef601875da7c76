"""Stored contents of an evaluated run: history, embeddings, ranks, diversity, and results that a command stored beside
it. Returns NumPy arrays and DataFrames, without torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import pandas as pd
from PIL.Image import Image

from coder_core.api import diversity, sampling
from coder_core.api.concepts import ConceptView
from coder_core.api.diversity import Anchor, DiversitySettings, LossSettings, MeasuredSpreads
from coder_core.api.listing import RunSummary, loss_values
from coder_core.api.sampling import Sample, SplitPart
from coder_core.api.sides import Array, Direction, Modality, Sides, first_captions
from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.data.pictures import jpeg, open_picture, read_picture
from coder_core.data.qrels import Way
from coder_core.evaluation.lists import NO_CANDIDATE, Lists
from coder_core.evaluation.relevance import Queries
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.ops.diversity_scaling import squash
from coder_core.runs.analysis.joined import joined_columns
from coder_core.runs.analysis.read import Analysis, how_to_add, open_analysis
from coder_core.runs.change import DevProgress, dev_progress
from coder_core.runs.record import HISTORY, history_faults, read_frame

T = TypeVar("T")


@dataclass(frozen=True)
class StoredResult(Generic[T]):
    """A stored layout or clustering, or why there is none."""

    state: Literal["there", "missing", "damaged"]
    name: str  # of the result and of the job that computes it
    value: T | None = None  # if the state is "there"
    fault: str = ""  # the damage


def read_stored(name: str, read: Callable[[], T | None]) -> StoredResult[T]:
    """Return the result of `read`, which returns None for a missing result and raises InputError for a damaged one."""
    try:
        value = read()
    except InputError as error:
        return StoredResult("damaged", name, fault=str(error))
    return StoredResult("missing" if value is None else "there", name, value)


class StoredRun:
    """Contents of a run folder; its name, path, splits and metrics are those of the summary. `Run` answers new queries."""

    def __init__(self, summary: RunSummary) -> None:
        self.summary = summary
        self.name = summary.name
        self.path = summary.path
        self.config = summary.config
        self.status = summary.status
        self.splits = summary.splits
        self.metrics = summary.metrics

        self._analyses: dict[str, Analysis] = {}
        self._columns: dict[str, tuple[SampleColumns, list[str]]] = {}
        self._mixtures: dict[str, tuple[Array, Array]] = {}
        self._samples: dict[tuple[object, ...], Sample | None] = {}
        self._parts: dict[tuple[object, ...], SplitPart] = {}
        self._spreads: dict[tuple[object, ...], Array] = {}
        self._checked: dict[str, Any] = {}  # split → its scores, to rank queries that are opened
        self._ranks: dict[tuple[str, Direction, int], int] = {}

    @property
    def history(self) -> pd.DataFrame:
        """One row per finished epoch."""
        return read_frame(self.path, "epoch")

    @property
    def steps(self) -> pd.DataFrame:
        """One row per few steps: losses, learning rate, quartiles of the diversity."""
        return read_frame(self.path, "step")

    @property
    def history_faults(self) -> list[str]:
        """Sentences on lost or damaged parts of `history` and `steps`; the rest of the run is not affected."""
        step = self.status.get("step", 0)
        epochs = self.status.get("evaluated", 0)
        return [str(fault) for fault in history_faults(self.path / HISTORY, step=step, epochs=epochs)]

    @property
    def dev_progress(self) -> DevProgress:
        """What changed on dev at the newest evaluation, in sentences, and warnings if the run is worse than its start."""
        return dev_progress(self.path)

    @property
    def loss(self) -> LossSettings:
        """μ, γ, ε of training, or the paper's."""
        return loss_values(self.config)

    def analysis(self, split: str) -> Analysis:
        """Open the analysis of a split, once; the name is matched against `splits`, never joined to a path."""
        if split not in (*self.splits, *self.summary.damaged):
            expected = f"one of {', '.join(self.splits)}" if self.splits else ""
            fact = f"has no analysis of split {split!r}"
            fix = how_to_add(self.path, split)
            raise InputError.at(f"run {self.name}", fact, expected, fix)
        if split not in self._analyses:
            self._analyses[split] = open_analysis(self.path, split)
        return self._analyses[split]

    def columns(self, split: str) -> SampleColumns:
        """Return the user's columns of images and captions, stored with the analysis or joined to it later; without
        those that `column_faults` names."""
        return self._columns_and_faults(split)[0]

    def column_faults(self, split: str) -> list[str]:
        """Return sentences on files of columns that cannot be read."""
        return self._columns_and_faults(split)[1]

    def _columns_and_faults(self, split: str) -> tuple[SampleColumns, list[str]]:
        if split not in self._columns:
            analysis = self.analysis(split)
            faults: list[Fault] = []
            stored = collect(lambda: analysis.columns, faults) or NO_COLUMNS
            joined = collect(lambda: joined_columns(self.path, analysis), faults) or NO_COLUMNS
            self._columns[split] = stored.joined(joined), [str(fault) for fault in faults]
        return self._columns[split]

    def embeddings(self, split: str) -> tuple[Array, Array]:
        """Return images (n, D) and texts (m, D) of the instance branch, unit rows, read-only float32."""
        analysis = self.analysis(split)
        return analysis.image_embeddings, analysis.text_embeddings

    def scoring(self, split: str) -> tuple[Array, Array]:
        """Return images and texts as unit rows whose inner products are the scores by which the run ranks: the instance
        embeddings or, with a concept branch, both in one vector: β · cos_I + (1 − β) · cos_C (eq. 8)."""
        concepts = self.analysis(split).concepts
        if concepts is None:
            return self.embeddings(split)
        if split not in self._mixtures:
            (v, w) = self.embeddings(split)
            beta = concepts.beta
            images = mixed_embeddings(v, concepts.image_embeddings, beta)
            self._mixtures[split] = images, mixed_embeddings(w, concepts.text_embeddings, beta)
        return self._mixtures[split]

    def scores(self, split: str) -> Array | None:
        """Return the (n, m) scores of a model that scores pair by pair; None if scores follow from embeddings."""
        return self.analysis(split).scores

    def lists(self, split: str) -> Mapping[Way, Lists] | None:
        """Return the lists of another system by direction; None for a run of embeddings or scores."""
        return self.analysis(split).lists

    def without_embeddings(self, split: str) -> str:
        """Return why the samples of a split have no embeddings, in words; "" if they have."""
        return self.analysis(split).without_embeddings

    def compared(self, split: str, sample: Sample | None = None) -> SplitPart:
        """Return images and captions of a sample (None: all), with their rows in the split: as in `embeddings`, or as
        scores for a run without embeddings. The copy is cached."""
        key = (split, sample.key if sample else None)
        if key not in self._parts:
            owner = self.image_of_text(split)
            scores = self.scores(split)
            if scores is None:
                images, texts = self.embeddings(split)
            else:
                images = np.empty((len(scores), 0), np.float32)
                texts = np.empty((len(owner), 0), np.float32)
            whole = sampling.whole_split(images, texts, owner, scores)
            self._parts[key] = whole.of_sample(sample)
        return self._parts[key]

    def part(self, split: str, sample: Sample | None = None) -> SplitPart:
        """Return `compared` for a run with embeddings. InputError: the run scores pair by pair, without embeddings."""
        self.embeddings(split)
        return self.compared(split, sample)

    def ranked(self, split: str) -> SplitPart:
        """Return all images and captions with the scores by which the run ranks."""
        if self.scores(split) is not None:
            return self.compared(split)
        images, texts = self.scoring(split)
        return sampling.whole_split(images, texts, self.image_of_text(split))

    def sides(self, split: str, modality: Modality) -> Sides:
        """Return all anchors, of `modality`, and candidates, with the scores by which the run ranks."""
        return self.ranked(split).sides(modality)

    def count(self, split: str, modality: Modality) -> int:
        """Return the number of images or captions in a split."""
        analysis = self.analysis(split)
        return analysis.n_images if modality == "image" else analysis.n_texts

    def concepts(self, split: str) -> ConceptView | None:
        """Return the attention of the concept branch; None for a run without one."""
        tables = self.analysis(split).concepts
        return None if tables is None else ConceptView(tables)

    def captions(self, split: str) -> Sequence[str]:
        """Return the m captions."""
        return self.analysis(split).captions

    def image_of_text(self, split: str) -> Array:
        """Return (m,) the image of each caption."""
        return np.asarray(self.analysis(split).image_of_text)

    def captions_of(self, split: str, image: int) -> Array:
        """Return the numbers of an image's captions."""
        return np.flatnonzero(self.image_of_text(split) == image)

    def first_captions(self, split: str) -> Array:
        """Return (n,) the number of each image's first caption; −1 for an image without captions."""
        return first_captions(self.image_of_text(split), self.count(split, "image"))

    def image_names(self, split: str) -> Sequence[str]:
        """Return the n file names of the pictures, or ids of the images."""
        return self.analysis(split).image_names

    def has_pictures(self, split: str) -> bool:
        """True if the run records where the pictures of a split are."""
        analysis = self.analysis(split)
        return bool(analysis.picture_folder) or analysis.packed_pictures is not None

    def open_picture(self, split: str, image: int, *, size: int | None = None) -> Image:
        """Open the picture of an image, at most `size` pixels on its longer side: a file in the run's picture folder,
        or part of its tar or parquet files. InputError: the run does not record its place, or it is missing there,
        outside the folder, or broken."""
        analysis = self.analysis(split)
        packed = analysis.packed_pictures
        if packed is not None:
            content = packed.read(image)
            try:
                return read_picture(content, "", size=size)
            except InputError as error:
                raise InputError(replace(error.faults[0], place=packed.place(image))) from None
        if not analysis.picture_folder:
            fact = f"does not record where the pictures of {split} are"
            fix = "evaluate or embed it again with --pictures"
            raise InputError.at(f"run {self.name}", fact, "a folder with the pictures", fix)
        return open_picture(analysis.picture_folder, self.image_names(split)[image], size=size)

    def picture(self, split: str, image: int, size: int = 320) -> bytes | None:
        """Return an image's picture as JPEG bytes, at most `size` pixels on its longer side; None if unreadable."""
        if not self.has_pictures(split):
            return None
        try:
            return jpeg(self.open_picture(split, image, size=size))
        except InputError:
            return None

    def ranks(self, split: str) -> dict[str, Array]:
        """Return "i2t" (n,) and "t2i" (m,): rank of the best true match, 0 is first, ties count against it; −1 for a sample
        that is not a query, or is not ranked (`rank_of` ranks it), `UNLISTED` if another system's list does not contain
        it."""
        analysis = self.analysis(split)
        return {"i2t": np.asarray(analysis.image_ranks), "t2i": np.asarray(analysis.text_ranks)}

    def ranked_images(self, split: str) -> Array | None:
        """Return the images that are ranked, or whose captions are, if only a sample of a split is; None: all."""
        queries = self.analysis(split).ranked_queries
        if queries is None:
            return None
        return np.union1d(queries.images, self.image_of_text(split)[queries.texts])

    def rank_of(self, split: str, direction: Direction, query: int) -> int:
        """Return the rank of a query's best true match, as in `ranks`; compute it if it is not stored. Loads torch then."""
        key = (split, direction, query)
        if key not in self._ranks:
            self._ranks[key] = int(self.ranks_of(split, direction, np.array([query]))[0])
        return self._ranks[key]

    def ranks_of(self, split: str, direction: Direction, queries: Array) -> Array:
        """Return (k,) the ranks of these queries' best true matches, as in `ranks`; compute those that are not stored. Loads
        torch then."""
        ranks = np.asarray(self.ranks(split)[direction])[queries]
        analysis = self.analysis(split)
        unranked = np.unique(queries[ranks < 0])
        if not len(unranked) or analysis.ranked_queries is None:
            return ranks
        from coder_core.evaluation.ranking import first_ranks
        from coder_core.evaluation.scores import check_scores

        if split not in self._checked:
            self._checked[split] = check_scores(analysis.sources)
        none = unranked[:0]
        asking = Queries(unranked, none) if direction == "i2t" else Queries(none, unranked)
        image_ranks, text_ranks = first_ranks(self._checked[split], analysis.relevance.of_queries(asking))
        computed = np.asarray(image_ranks if direction == "i2t" else text_ranks)[queries]
        return np.where(ranks < 0, computed, ranks)

    def best(self, split: str, direction: Direction) -> Array:
        """Return (Q, K) the (at most ten) best candidates of every query, best first; −1 for a query that is not ranked, and
        after the end of another system's list."""
        analysis = self.analysis(split)
        return np.asarray(analysis.text_best if direction == "t2i" else analysis.image_best)

    def matches(self, split: str, direction: Direction, queries: Array, candidates: Array | int) -> Array:
        """Return True where a query and a candidate (numbers that broadcast) are an image and its caption; in a search log,
        where judges found them right for each other."""
        judged = self.analysis(split).judged
        if judged is not None:
            relation = judged.t2i if direction == "t2i" else judged.i2t
            return relation.contains(*np.broadcast_arrays(queries, candidates))
        owner = self.image_of_text(split)
        match = owner[queries] == candidates if direction == "t2i" else owner[candidates] == queries
        return np.asarray(match & (np.asarray(candidates) != NO_CANDIDATE))

    def grades(self, split: str, direction: Direction, query: int) -> dict[int, int] | None:
        """Return candidate → grade of the candidates of a query that judges of a search log have seen; None for a split of
        captions."""
        analysis = self.analysis(split)
        if analysis.judged is None:
            return None
        relation = analysis.judged.t2i if direction == "t2i" else analysis.judged.i2t
        of_query = slice(*np.searchsorted(relation.queries, [query, query + 1]))
        return dict(
            zip(relation.candidates[of_query].tolist(), relation.grades[of_query].tolist(), strict=True)
        )

    def uncounted_queries(self, split: str) -> pd.DataFrame | None:
        """Return the queries of a search log that are not counted: id, text and reason; None for a split of captions."""
        log = self.analysis(split).search_log
        return None if log is None else pd.DataFrame(log["others"], columns=["id", "text", "reason"])

    def similarity(self, images: Sequence[int] | Array, texts: Sequence[int] | Array, *, split: str) -> Array:
        """Return (k, l) scores of some images and captions: cosines, with a concept branch mixed by β."""
        return self.ranked(split).similarities(np.asarray(images), np.asarray(texts))

    def sample(self, split: str, **limits: int) -> Sample | None:
        """Draw a sample of a split too large to compute whole, the same at every call; None for a smaller one. `limits` as
        in `draw_sample`."""
        key = (split, *sorted(limits.items()))
        if key not in self._samples:
            owner = self.image_of_text(split)
            ranked = self.ranked_images(split)
            self._samples[key] = sampling.draw_sample(
                self.count(split, "image"), owner, first=ranked, **limits
            )
        return self._samples[key]

    def points_sample(self, split: str) -> Sample | None:
        """Draw about 20,000 images and captions of a split too large to compute whole, for its joint space; or None."""
        return self.sample(split, points=sampling.POINTS_AT_MOST)

    def query_sample(self, split: str) -> Sample | None:
        """Draw images with about 5,000 captions of a split too large to compute whole, for work per query; or None."""
        return self.sample(split, texts=sampling.QUERIES_AT_MOST)

    def spread(self, split: str, *, sample: Sample | None = None, **settings: Any) -> Array:
        """Compute (Q,) standard deviation or entropy (bits) of every anchor's similarities to its negatives; cached.
        `settings` are fields of `DiversitySettings`: modality, function, candidates, …"""
        fields = DiversitySettings(**settings)
        key = (split, sample.key if sample else None, *fields.key)
        if key not in self._spreads:
            self._spreads[key] = diversity.anchor_spreads(self.compared(split, sample), fields)
        return self._spreads[key]

    def diversity(
        self, split: str, *, epsilon: float = 0.1, sample: Sample | None = None, **settings: Any
    ) -> pd.DataFrame:
        """Compute the diversity of every anchor. CODER eq. 3.

        Args:
            sample: from `sample`: only its anchors, against its candidates.
            settings: fields of `DiversitySettings`: modality of the anchors ("text" or "image"), function ("std" or
                "entropy"), candidates ("split", "batch", "bank"), batch_size, bank_size, seed, temperature.

        Returns:
            One row per anchor: anchor, image, spread, raw, diversity, rank (of its best match in the whole split, from
            1; NaN for an image without captions).
        """
        fields = DiversitySettings(**settings)
        part = self.compared(split, sample)
        spreads = self.spread(split, sample=sample, **settings)
        raw = squash(spreads, epsilon)
        draw = diversity.draw_batches(part, fields)
        rows = part.rows(fields.modality)
        ranks = self.ranks(split)["i2t" if fields.modality == "image" else "t2i"][rows]
        columns = {
            "anchor": rows,
            "image": rows if fields.modality == "image" else part.image_rows[part.owner],
            "spread": spreads,
            "raw": raw,
            "diversity": diversity.normalise_in_draw(raw, draw),
            "rank": np.where(ranks < 0, np.nan, ranks + 1.0),
        }
        return pd.DataFrame(columns)

    def anchor(
        self,
        number: int,
        *,
        split: str,
        loss: LossSettings | None = None,
        sample: Sample | None = None,
        **settings: Any,
    ) -> Anchor:
        """Compute one anchor's negatives, its diversity, and the weight of each negative with and without it.

        `loss`: μ, γ, ε to use, None for those of training; `sample` and `settings` as in `diversity`. InputError: there
        is no such anchor.
        """
        fields = DiversitySettings(**settings)
        anchors = self.compared(split).sides(fields.modality)
        check_number(number, len(anchors.anchors), fields.modality)
        spreads = self.spread(split, sample=sample, **settings)
        measured = MeasuredSpreads(self.compared(split, sample), fields, spreads)
        return diversity.open_anchor(anchors, number, measured, loss or self.loss)


def check_number(number: int, count: int, modality: Modality) -> None:
    """Refuse (InputError) the number of a sample that is not in the split."""
    if not 0 <= number < count:
        raise InputError.at(f"{modality} {number}", "is not in the split", f"0 to {count - 1}")
