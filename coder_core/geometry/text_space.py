"""Encode captions as unit vectors of a fixed text space, which does not change during training.

TF-IDF with truncated SVD needs only the train captions. A sentence-embedding model (`model.sentence_space`) also places
captions with the same meaning in different words close together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent

FORMAT = "coder-text-space-1"
NAMES = "text_space.json"
ARRAYS = "text_space.safetensors"
FEWEST_CAPTIONS = 2  # a word in a single caption relates it to no other
CAPTIONS_AT_ONCE = 4096
SEED = 0  # of the randomised SVD: the space does not depend on a run's seed


class TextSpace(Protocol):
    """A space in which captions are compared."""

    @property
    def name(self) -> str:
        """Name for display."""

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """Encode captions as (m, S) float32 unit rows; a caption without a known word is a zero row."""

    def to_files(self) -> dict[str, bytes | str]:
        """Return the files in a run folder that restore it: name → content."""


@dataclass(frozen=True)
class TfidfSpace:
    """TF-IDF (log counts, smoothed idf, unit rows), projected onto its first right singular vectors."""

    terms: tuple[str, ...]  # T words, in the order of the columns
    idf: np.ndarray  # (T,) float64
    components: np.ndarray  # (S, T) float32

    @property
    def name(self) -> str:
        """Name for display."""
        return f"TF-IDF of {len(self.terms):,} words, SVD to {len(self.components)}"

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """Encode captions as (m, S) float32 unit rows; a caption without any known word is a zero row."""
        vectorizer = _vectorizer(vocabulary=list(self.terms))
        vectorizer.idf_ = self.idf
        rows = np.empty((len(captions), len(self.components)), np.float32)
        for start in range(0, len(captions), CAPTIONS_AT_ONCE):
            part = captions[start : start + CAPTIONS_AT_ONCE]
            rows[start : start + len(part)] = vectorizer.transform(part) @ self.components.T
            progress(start + len(part), len(captions))
        return unit_rows(rows)

    def to_files(self) -> dict[str, bytes | str]:
        """Return text_space.json and text_space.safetensors: name → content."""
        document = {"format": FORMAT, "terms": list(self.terms)}
        arrays = {"idf": self.idf, "components": self.components}
        return {NAMES: json.dumps(document, ensure_ascii=False, indent=0), ARRAYS: save(arrays)}

    @classmethod
    def from_files(cls, names: bytes, arrays: bytes, folder: str) -> TfidfSpace:
        """Read text_space.json and text_space.safetensors; `folder` is for messages. InputError: a file is damaged,
        or the two do not match."""
        try:
            document: Any = json.loads(names)
            tensors = load(arrays)
        except (ValueError, RecursionError, SafetensorError) as error:
            raise InputError.at(f"{folder}/{NAMES} or {ARRAYS}", f"cannot be read: {error}") from None

        is_ours = isinstance(document, dict) and document.get("format") == FORMAT
        terms = document.get("terms") if is_ours else None
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise InputError.at(f"{folder}/{NAMES}", "is not a list of words", f'the format "{FORMAT}"')
        if len(set(terms)) < len(terms):
            raise InputError.at(f"{folder}/{NAMES}", "lists a word twice", "every word once")

        size = len(tensors.get("components", ()))
        expected = {"components": f"float32{[size, len(terms)]}", "idf": f"float64{[len(terms)]}"}
        held = {}
        for name, array in sorted(tensors.items()):
            held[name] = f"{array.dtype}{list(array.shape)}" + " not finite" * (not np.isfinite(array).all())
        if held != expected or not size:
            has, needs = (" ".join(map(" ".join, forms.items())) for forms in (held, expected))
            raise InputError.at(f"{folder}/{ARRAYS}", f"contains {has}", needs)

        return cls(tuple(terms), tensors["idf"], tensors["components"])


def fit_tfidf(captions: Sequence[str], size: int) -> TfidfSpace:
    """Fit the space to a data set's train captions. `size`: S, reduced if there are too few captions or words.
    InputError: hardly any word is in two captions."""
    from sklearn.decomposition import TruncatedSVD
    from threadpoolctl import threadpool_limits

    vectorizer = _vectorizer(min_df=FEWEST_CAPTIONS)
    try:
        weighted = vectorizer.fit_transform(captions)
    except ValueError:
        weighted = None
    if weighted is None or min(weighted.shape) < 3:
        fix = "name a sentence-embedding model with --text-space"
        problem = f"hardly any word is in {FEWEST_CAPTIONS} of the {len(captions)} train captions"
        raise InputError.at("--text-space", f"is empty, and {problem}", "captions that share words", fix)
    # The share of the variance, which is not used here, is divided by 0 if all captions have the same words. Several
    # threads would wait for each other on busy cores.
    with np.errstate(invalid="ignore", divide="ignore"), threadpool_limits(1):
        svd = TruncatedSVD(min(size, min(weighted.shape) - 1), random_state=SEED).fit(weighted)
    terms = tuple(str(term) for term in vectorizer.get_feature_names_out())
    components = np.ascontiguousarray(svd.components_, dtype=np.float32)  # as loaded from a file
    return TfidfSpace(terms, np.asarray(vectorizer.idf_), components)


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, dtype=np.float64, **options)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Scale (m, S) rows to length 1; a row of zeros stays zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-8)
