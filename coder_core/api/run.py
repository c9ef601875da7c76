"""One run, opened: embeddings, ranks, diversity, search. NumPy and DataFrames out; torch only to encode a query."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL.Image import Image

from coder_core.api.diversity import measure as measuring
from coder_core.api.diversity import table as maths
from coder_core.api.diversity.anchor import Anchor, Loss
from coder_core.api.diversity.measure import BANK_SIZE, How
from coder_core.api.diversity.opening import open_anchor
from coder_core.api.diversity.table import Array, Candidates, Measure, Modality
from coder_core.api.listing import RunSummary, summarise
from coder_core.api.retrieval.comparison import rank_changes
from coder_core.api.retrieval.look_alike import LOOKED_AT, LookAlike, Looks, read_looks
from coder_core.api.sampling import Sample
from coder_core.api.stored_run import StoredRun
from coder_core.console.faults import Fault, InputError
from coder_core.data.demo.encoding import features_of, makes_features
from coder_core.runs.analysis.write import IMAGE_PART_LENGTHS, IMAGE_PARTS


class Run(StoredRun):
    """A run opened to be looked into: diversity, single anchors, search.

    Raises:
        InputError: from any method, when the part of the run it needs is missing or damaged.
    """

    def __init__(self, summary: RunSummary) -> None:
        super().__init__(summary)
        self._looks: dict[tuple[str, int], Looks] = {}
        self._spreads: dict[tuple[object, ...], Array] = {}

    def _spread(self, split: str, how: How, sample: Sample | None) -> Array:
        key = (split, sample.key if sample else None, *how.key)
        if key not in self._spreads:
            self._spreads[key] = measuring.spread(self._part(split, sample), how)
        return self._spreads[key]

    def spread(
        self, split: str, *, modality: Modality = "text", function: Measure = "std",
        candidates: Candidates = "split", batch_size: int = 128, bank_size: int = BANK_SIZE, seed: int = 0,
        temperature: float = 1.0, sample: Sample | None = None,
    ) -> Array:  # fmt: skip
        """(Q,) standard deviation or entropy (bits) of every anchor's similarities to its negatives; kept."""
        return self._spread(
            split, How(modality, function, candidates, batch_size, bank_size, seed, temperature), sample
        )

    def diversity(
        self, split: str, *, modality: Modality = "text", function: Measure = "std", epsilon: float = 0.1,
        candidates: Candidates = "split", batch_size: int = 128, bank_size: int = BANK_SIZE, seed: int = 0,
        temperature: float = 1.0, sample: Sample | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Diversity of every anchor. CODER eq. 3.

        Args:
            modality: of the anchors. function: "std" or "entropy".
            candidates: negatives from the whole split, from one random "batch" of `batch_size` pairs, or from a random
                "bank" of `bank_size` pairs (`seed`).
            temperature: of the softmax inside entropy.
            sample: from `sample`: only its anchors, against its candidates.

        Returns:
            One row an anchor: anchor, image, spread, raw, diversity, rank (of its best match in the whole split, from
            1; NaN for an image without captions).
        """
        how = How(modality, function, candidates, batch_size, bank_size, seed, temperature)
        part = self._part(split, sample)
        spread = self._spread(split, how, sample)
        raw = maths.squash(spread, epsilon)
        draw = measuring.draw_of(part, how)
        rows = part.image_rows if modality == "image" else part.text_rows
        ranks = self.ranks(split)["i2t" if modality == "image" else "t2i"][rows]
        return pd.DataFrame(
            {
                "anchor": rows,
                "image": rows if modality == "image" else part.image_rows[part.owner],
                "spread": spread,
                "raw": raw,
                "diversity": maths.normalise(raw, draw.batch_of if draw else None),
                "rank": np.where(ranks < 0, np.nan, ranks + 1.0),
            }
        )

    def anchor(
        self, number: int, *, split: str, modality: Modality = "text", function: Measure = "std",
        epsilon: float | None = None, candidates: Candidates = "split", batch_size: int = 128,
        bank_size: int = BANK_SIZE, seed: int = 0, temperature: float = 1.0, loss: Loss | None = None,
        sample: Sample | None = None,
    ) -> Anchor:  # fmt: skip
        """One anchor opened: its negatives, its diversity, and the weight of each negative with and without it.

        Args:
            epsilon: ε; that of `loss` for None. loss: μ, γ, ε to read it with; those of training for None.
            The others as in `diversity`.

        Raises:
            InputError: there is no such anchor.
        """
        v, w, scores = self.compared(split)
        s = maths.sides(v, w, self.image_of_text(split), modality, scores)
        if not 0 <= number < len(s.anchors):
            raise InputError(Fault(f"{modality} {number}", "is not in the split", f"0 to {len(s.anchors) - 1}"))
        loss = loss or self.loss
        epsilon = loss.epsilon if epsilon is None else epsilon
        how = How(modality, function, candidates, batch_size, bank_size, seed, temperature)
        return open_anchor(s, number, self._part(split, sample), how, self._spread(split, how, sample), loss, epsilon)

    def search(
        self, query: str | int | Array, *, split: str, modality: Modality = "text", top: int = 10
    ) -> pd.DataFrame:
        """The best candidates of the other modality, best first.

        Args:
            query: a free text (it searches images), the number of a sample of `modality`, or one row of `encode_text`
                or `encode_picture`, an embedding of `modality`.

        Returns:
            place (from 1), candidate, score, match (False for what is not of the split: nothing is known about it).
        """
        if isinstance(query, str) and self.scores(split) is not None:
            scores = self._score_text(query, split)
            match = np.zeros(len(scores), dtype=bool)
        elif not isinstance(query, int):
            v, w = self.scoring(split)
            embedding = self.encode_text([query])[0] if isinstance(query, str) else query
            scores = (v if modality == "text" or isinstance(query, str) else w) @ embedding
            match = np.zeros(len(scores), dtype=bool)
        else:
            s = self.sides(split, modality)
            if not 0 <= query < len(s.anchors):
                raise InputError(Fault(f"{modality} {query}", "is not in the split", f"0 to {len(s.anchors) - 1}"))
            scores, match = s.row(query), s.candidate_images == s.anchor_images[query]
        top = min(top, len(scores))
        best = np.argpartition(-scores, top - 1)[:top]
        best = best[np.argsort(-scores[best], kind="stable")]
        places = np.arange(1, top + 1)
        return pd.DataFrame({"place": places, "candidate": best, "score": scores[best], "match": match[best]})

    def encode_text(self, captions: list[str]) -> Array:
        """Free texts as float32 unit rows like those of `scoring`; loads the run's best checkpoint once."""
        return np.asarray(self._model.encode_text(captions, scoring=True), dtype=np.float32)

    def _score_text(self, text: str, split: str) -> Array:
        """(n,) scores of a free text with every image, of a model that scores pair by pair."""
        analysis = self.analysis(split)
        if IMAGE_PARTS not in analysis.arrays:
            found = f"has too many regions in split {split!r} to keep beside its scores, so a new text cannot be scored"
            raise InputError(Fault(f"run {self.name}", found, fix="ask with a sample of the split instead"))
        parts, lengths = analysis.array(IMAGE_PARTS), analysis.array(IMAGE_PART_LENGTHS)
        return np.asarray(self._model.score_texts([text], parts, lengths)[0])

    def reads_pictures(self, split: str) -> bool:
        """Whether a new picture can be encoded: its features are made from pixels, as those of the demo data are, and
        scores follow from one embedding of it."""
        if self.scores(split) is not None:
            return False
        return not self.summary.imported and makes_features(self.analysis(split).picture_folder)

    def encode_picture(self, picture: Image, *, split: str) -> Array:
        """A new picture as a float32 unit row like those of `scoring`.

        Raises:
            InputError: this run's features come from files; see `reads_pictures`.
        """
        regions = features_of(self.analysis(split).picture_folder, picture)
        return np.asarray(self._model.encode_images(regions[None], scoring=True)[0], dtype=np.float32)

    def look_alike(self, picture: Image, *, split: str, at_most: int = LOOKED_AT) -> LookAlike:
        """The image of the split whose picture looks most like this one, among `at_most` drawn at random.

        Raises:
            InputError: none of the split's pictures can be read.
        """
        if (split, at_most) not in self._looks:
            self._looks[split, at_most] = read_looks(self, split, at_most)
        return self._looks[split, at_most].nearest(picture)

    @cached_property
    def _model(self) -> Any:
        if self.summary.imported:
            found = "holds imported embeddings and no model, so it cannot embed new words"
            raise InputError(Fault(f"run {self.name}", found, fix="ask with a sample of the split instead"))
        from coder_core.runs.load import load_model  # torch is needed from here on, and only here

        return load_model(self.path)


def open_run(path: str | Path) -> Run:
    """Open a run folder.

    Raises:
        InputError: the folder is missing or damaged; the file is named.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(Fault(str(folder), "there is no such run", fix="`list_runs(folder)` names those there are"))
    summary = summarise(folder)
    if summary.fault:
        raise InputError(Fault(f"run {summary.name}", summary.fault))
    return Run(summary)


def compare(run_a: Run, run_b: Run, split: str, *, at: int = 1) -> pd.DataFrame:
    """Rank changes of every query from one run to another: fixed, broken, both wrong, both right.

    Args:
        at: a query is right when a true match is among its first `at` results.

    Returns:
        direction ("i2t", "t2i"), query, rank_a, rank_b (from 1), change (> 0: run_b is better), outcome.

    Raises:
        InputError: the runs were evaluated on different samples.
    """
    if not same_samples(run_a, run_b, split):
        found = f"split {split!r} holds other captions than in {run_b.name}"
        raise InputError(Fault(f"run {run_a.name}", found, "two runs evaluated on the same data"))
    return rank_changes(run_a.ranks(split), run_b.ranks(split), at)


def same_samples(run_a: Run, run_b: Run, split: str) -> bool:
    """Whether two runs were evaluated on the same captions of the same images."""
    if not np.array_equal(run_a.image_of_text(split), run_b.image_of_text(split)):
        return False
    first, second = (run.analysis(split).manifest["files"].get("captions.json") for run in (run_a, run_b))
    if first is not None and first == second:  # the same bytes; parsing many captions takes a second
        return True
    return list(run_a.captions(split)) == list(run_b.captions(split))
