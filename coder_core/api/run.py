"""One run, opened: embeddings, ranks, diversity, search. NumPy and DataFrames out; torch only to encode a query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coder_core.api import diversity as maths
from coder_core.api.anchors import Anchor, Loss, negative_weights
from coder_core.api.comparison import rank_changes
from coder_core.api.diversity import Array, Candidates, Measure, Modality
from coder_core.api.listing import RunSummary, loss_values, summarise
from coder_core.api.pictures import thumbnail
from coder_core.faults import Fault, InputError
from coder_core.runs.analysis_reader import Analysis, open_analysis
from coder_core.runs.history import read_frame


class Run:
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
        self._spreads: dict[tuple[object, ...], Array] = {}

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
        """Images (n, D) and texts (m, D), unit rows, memory-mapped float32."""
        analysis = self.analysis(split)
        return analysis.image_embeddings, analysis.text_embeddings

    def captions(self, split: str) -> Sequence[str]:
        """The m captions."""
        return self.analysis(split).captions

    def image_of_text(self, split: str) -> Array:
        """(m,) the image each caption belongs to."""
        return np.asarray(self.analysis(split).image_of_text)

    def captions_of(self, split: str, image: int) -> Array:
        """Numbers of an image's own captions."""
        return np.flatnonzero(self.image_of_text(split) == image)

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
        """(k, l) cosines of the chosen images and captions."""
        v, w = self.embeddings(split)
        return np.asarray(v[np.asarray(images)] @ w[np.asarray(texts)].T)

    def spread(
        self, split: str, *, modality: Modality = "text", function: Measure = "std",
        candidates: Candidates = "split", batch_size: int = 128, seed: int = 0, temperature: float = 1.0,
    ) -> Array:  # fmt: skip
        """(Q,) standard deviation or entropy (bits) of every anchor's similarities to its negatives; kept."""
        drawn = (batch_size, seed) if candidates == "batch" else ()
        key = (split, modality, function, candidates, *drawn, temperature)
        if key not in self._spreads:
            v, w = self.embeddings(split)
            if candidates == "batch":
                draw = self._draw(split, modality, batch_size, seed)
                found = maths.spread_in_batches(v, w, draw, modality, function, temperature=temperature)
            else:
                s = maths.sides(v, w, self.image_of_text(split), modality)
                found = maths.std_over_split(s) if function == "std" else maths.entropy_over_split(s, temperature)
            self._spreads[key] = found
        return self._spreads[key]

    def _draw(self, split: str, modality: Modality, batch_size: int, seed: int) -> maths.Draw:
        count = len(self.analysis(split).image_embeddings)
        return maths.draw_batches(count, self.image_of_text(split), modality, batch_size=batch_size, seed=seed)

    def diversity(
        self, split: str, *, modality: Modality = "text", function: Measure = "std", epsilon: float = 0.1,
        candidates: Candidates = "split", batch_size: int = 128, seed: int = 0, temperature: float = 1.0,
    ) -> pd.DataFrame:  # fmt: skip
        """Diversity of every anchor. CODER eq. 3.

        Args:
            modality: of the anchors. function: "std" or "entropy".
            candidates: negatives from the whole split, or from one random batch of `batch_size` pairs (`seed`).
            temperature: of the softmax inside entropy.

        Returns:
            One row an anchor: anchor, image, spread, raw, diversity, rank (of its best match, from 1;
            NaN for an image without captions).
        """
        spread = self.spread(
            split, modality=modality, function=function, candidates=candidates, batch_size=batch_size, seed=seed,
            temperature=temperature,
        )  # fmt: skip
        raw = maths.squash(spread, epsilon)
        batch_of = self._draw(split, modality, batch_size, seed).batch_of if candidates == "batch" else None
        ranks = self.ranks(split)["i2t" if modality == "image" else "t2i"]
        return pd.DataFrame(
            {
                "anchor": np.arange(len(spread)),
                "image": np.arange(len(spread)) if modality == "image" else self.image_of_text(split),
                "spread": spread,
                "raw": raw,
                "diversity": maths.normalise(raw, batch_of),
                "rank": np.where(ranks < 0, np.nan, ranks + 1.0),
            }
        )

    def anchor(
        self, number: int, *, split: str, modality: Modality = "text", function: Measure = "std",
        epsilon: float | None = None, candidates: Candidates = "split", batch_size: int = 128, seed: int = 0,
    ) -> Anchor:  # fmt: skip
        """One anchor opened: its negatives, its diversity, and the weight of each negative with and without it.

        Raises:
            InputError: there is no such anchor.
        """
        v, w = self.embeddings(split)
        s = maths.sides(v, w, self.image_of_text(split), modality)
        if not 0 <= number < len(s.anchors):
            raise InputError(Fault(f"{modality} {number}", "is not in the split", f"0 to {len(s.anchors) - 1}"))
        rows = np.arange(len(s.candidates))
        if candidates == "batch":
            draw = self._draw(split, modality, batch_size, seed)
            pairs = draw.batches[draw.batch_of[number]]
            rows = (draw.pair_text if modality == "image" else draw.pair_image)[pairs]  # an image may stand there twice
        own = s.candidate_images == s.anchor_images[number]
        rows = rows[~own[rows]]
        scores = np.asarray(s.candidates @ s.anchors[number])
        loss = self.loss
        table = self.diversity(
            split, modality=modality, function=function, epsilon=loss.epsilon if epsilon is None else epsilon,
            candidates=candidates, batch_size=batch_size, seed=seed,
        )  # fmt: skip
        row = table.iloc[number]
        effective = loss.temperature * float(row["diversity"])
        return Anchor(
            modality=modality, number=number, candidates=rows, similarities=scores[rows], positives=scores[own],
            positive_rows=np.flatnonzero(own), spread=float(row["spread"]), raw=float(row["raw"]),
            diversity=float(row["diversity"]), temperature=effective,
            plain=negative_weights(scores[rows], temperature=loss.temperature, gamma=loss.gamma),
            scaled=negative_weights(scores[rows], temperature=effective, gamma=loss.gamma), loss=loss,
        )  # fmt: skip

    def search(self, query: str | int, *, split: str, modality: Modality = "text", top: int = 10) -> pd.DataFrame:
        """The best candidates of the other modality, best first.

        Args:
            query: a free text (it searches images), or the number of a sample of `modality`.

        Returns:
            place (from 1), candidate, score, match (False for a free text: nothing is known about it).
        """
        v, w = self.embeddings(split)
        if isinstance(query, str):
            scores, match = v @ self.encode_text([query])[0], np.zeros(len(v), dtype=bool)
        else:
            s = maths.sides(v, w, self.image_of_text(split), modality)
            if not 0 <= query < len(s.anchors):
                raise InputError(Fault(f"{modality} {query}", "is not in the split", f"0 to {len(s.anchors) - 1}"))
            scores, match = s.candidates @ s.anchors[query], s.candidate_images == s.anchor_images[query]
        top = min(top, len(scores))
        best = np.argpartition(-scores, top - 1)[:top]
        best = best[np.argsort(-scores[best], kind="stable")]
        places = np.arange(1, top + 1)
        return pd.DataFrame({"place": places, "candidate": best, "score": scores[best], "match": match[best]})

    def encode_text(self, captions: list[str]) -> Array:
        """(k, D) float32 unit rows of free texts; loads the run's best checkpoint once."""
        return np.asarray(self._model.encode_text(captions), dtype=np.float32)

    @cached_property
    def _model(self) -> Any:
        if self.summary.imported:
            found = "holds imported embeddings and no model, so it cannot embed new words"
            raise InputError(Fault(f"run {self.name}", found, fix="ask with a sample of the split instead"))
        from coder_core.runs.restore import load_model  # torch is needed from here on, and only here

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
    same = np.array_equal(run_a.image_of_text(split), run_b.image_of_text(split))
    if not same or list(run_a.captions(split)) != list(run_b.captions(split)):
        found = f"split {split!r} holds other captions than in {run_b.name}"
        raise InputError(Fault(f"run {run_a.name}", found, "two runs evaluated on the same data"))
    return rank_changes(run_a.ranks(split), run_b.ranks(split), at)
