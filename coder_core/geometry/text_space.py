"""Encode captions as unit vectors of a fixed text space, which training does not move.

TF-IDF with truncated SVD needs nothing but the train captions. A sentence-embedding model, in a folder of transformers,
also brings captions together that say the same in other words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent

FORMAT = "coder-text-space-1"
NAMES, ARRAYS = "text_space.json", "text_space.safetensors"
FEWEST_CAPTIONS = 2  # a word of one caption only relates it to no other
CAPTIONS_AT_ONCE = 4096
SENTENCES_AT_ONCE = 64
SAVE_AGAIN = "save model and tokenizer there with save_pretrained"
SEED = 0  # of the randomised SVD: the space does not change with a run's seed


class TextSpace(Protocol):
    """A space captions are compared in."""

    @property
    def name(self) -> str:
        """For people to read."""

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """(m, S) float32 unit rows; a zero row for a caption without a known word."""

    def to_files(self) -> dict[str, bytes | str]:
        """Files of a run that restore it: name → content."""


@dataclass(frozen=True)
class TfidfSpace:
    """TF-IDF (log counts, smoothed idf, unit rows) projected on its first right singular vectors.

    Args:
        terms: T words, in the order of the columns.
        idf: (T,) float64.
        components: (S, T) float32.
    """

    terms: tuple[str, ...]
    idf: np.ndarray
    components: np.ndarray

    @property
    def name(self) -> str:
        """For people to read."""
        return f"TF-IDF of {len(self.terms):,} words, SVD to {len(self.components)}"

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """(m, S) float32 unit rows; a caption without any known word is a zero row."""
        vectorizer = _vectorizer(vocabulary=list(self.terms))
        vectorizer.idf_ = self.idf
        rows = np.empty((len(captions), len(self.components)), np.float32)
        for start in range(0, len(captions), CAPTIONS_AT_ONCE):
            part = captions[start : start + CAPTIONS_AT_ONCE]
            rows[start : start + len(part)] = vectorizer.transform(part) @ self.components.T
            progress(start + len(part), len(captions))
        return _unit(rows)

    def to_files(self) -> dict[str, bytes | str]:
        """text_space.json and text_space.safetensors."""
        document = {"format": FORMAT, "terms": list(self.terms)}
        arrays = {"idf": self.idf, "components": self.components}
        return {NAMES: json.dumps(document, ensure_ascii=False, indent=0), ARRAYS: save(arrays)}

    @classmethod
    def from_files(cls, names: bytes, arrays: bytes, place: str) -> TfidfSpace:
        """Read what `to_files` wrote.

        Args:
            names: of text_space.json.
            arrays: of text_space.safetensors.
            place: the folder, for messages.

        Raises:
            InputError: damaged, or not fitting one another.
        """
        try:
            document: Any = json.loads(names)
            tensors = load(arrays)
        except (ValueError, RecursionError, SafetensorError) as error:
            raise InputError(Fault(f"{place}/{NAMES}", f"or {ARRAYS} cannot be read: {error}")) from None
        terms = (
            document.get("terms") if isinstance(document, dict) and document.get("format") == FORMAT else None
        )
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise InputError(Fault(f"{place}/{NAMES}", "is no list of words", f'the format "{FORMAT}"'))
        idf, components = tensors.get("idf"), tensors.get("components")
        if (
            idf is None
            or components is None
            or idf.shape != (len(terms),)
            or components.shape[1:] != (len(terms),)
        ):
            raise InputError(
                Fault(f"{place}/{ARRAYS}", "does not fit the words", f"arrays of {len(terms)} words")
            )
        if len(set(terms)) < len(terms):
            raise InputError(Fault(f"{place}/{NAMES}", "names a word twice", "every word once"))
        wrong = [
            f"{name} ({values.dtype})"
            for name, values, dtype in (("idf", idf, np.float64), ("components", components, np.float32))
            if values.dtype != dtype or not np.isfinite(values).all()
        ]
        if wrong or not len(components):
            problem = f"holds {', '.join(wrong) or 'no components'}"
            raise InputError(Fault(f"{place}/{ARRAYS}", problem, "finite float64 idf and float32 components"))
        return cls(tuple(terms), idf, components)


@dataclass(frozen=True)
class SentenceSpace:
    """Mean over a caption's word pieces of a sentence-embedding model's last layer.

    Args:
        folder: of save_pretrained, with config.json, a tokenizer and safetensors.
    """

    folder: Path

    @property
    def name(self) -> str:
        """For people to read."""
        return f"sentence embeddings of {self.folder.name}"

    def encode(self, captions: Sequence[str], progress: Progress = silent) -> np.ndarray:
        """(m, S) float32 unit rows.

        Raises:
            InputError: transformers cannot load the folder.
        """
        import torch

        tokenizer, model = _load(self.folder)
        order = np.argsort([len(caption) for caption in captions], kind="stable")
        encoded: np.ndarray | None = None
        with torch.inference_mode():
            for start in range(0, len(order), SENTENCES_AT_ONCE):
                rows = order[start : start + SENTENCES_AT_ONCE]
                pieces = tokenizer(
                    [captions[row] for row in rows], padding=True, truncation=True, return_tensors="pt"
                )
                states = model(**pieces).last_hidden_state.float()
                mask = pieces["attention_mask"].unsqueeze(-1)
                means = ((states * mask).sum(1) / mask.sum(1).clamp_min(1)).numpy()
                if encoded is None:
                    encoded = np.empty((len(captions), means.shape[1]), np.float32)
                encoded[rows] = means
                progress(start + len(rows), len(captions))
        if encoded is None:
            raise ValueError("there is no caption to encode")
        return _unit(encoded)

    def to_files(self) -> dict[str, bytes | str]:
        """Nothing: the folder is named in the configuration."""
        return {}


def fit_tfidf(captions: Sequence[str], size: int) -> TfidfSpace:
    """Fit the space to a data set's train captions.

    Args:
        captions: m strings.
        size: S, fewer where captions and words do not suffice for it.

    Raises:
        InputError: hardly any word stands in two captions.
    """
    from sklearn.decomposition import TruncatedSVD

    vectorizer = _vectorizer(min_df=FEWEST_CAPTIONS)
    try:
        weighted = vectorizer.fit_transform(captions)
    except ValueError:
        weighted = None
    if weighted is None or min(weighted.shape) < 3:
        fix = "name a sentence-embedding model with --text-space"
        problem = f"hardly a word stands in {FEWEST_CAPTIONS} of the {len(captions)} train captions"
        raise InputError(Fault("--text-space", f"is empty, and {problem}", "captions that share words", fix))
    with np.errstate(
        invalid="ignore"
    ):  # its share of the variance, not read here, is 0 / 0 where captions are alike
        svd = TruncatedSVD(min(size, min(weighted.shape) - 1), random_state=SEED).fit(weighted)
    terms = tuple(str(term) for term in vectorizer.get_feature_names_out())
    components = np.ascontiguousarray(svd.components_, dtype=np.float32)  # as a file gives it back
    return TfidfSpace(terms, np.asarray(vectorizer.idf_), components)


def sentence_space(folder: str) -> SentenceSpace:
    """Check a model's folder; the model is loaded when captions are encoded.

    Raises:
        InputError: it is no folder of a model that transformers can load from safetensors.
    """
    path = Path(folder)
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        expected = "a folder of save_pretrained: config.json, tokenizer and safetensors"
        raise InputError(
            Fault(f"--text-space {folder}", "holds no model", expected, "or leave it out for TF-IDF")
        )
    return SentenceSpace(path)


def folder_fingerprint(folder: Path) -> str:
    """sha256 (hex) of every file that decides how a model encodes a caption."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in (".json", ".txt", ".safetensors", ".model"):
            digest.update(path.name.encode() + b"\0")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _load(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    place = f"--text-space {folder}"
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
        model, loading = AutoModel.from_pretrained(
            str(folder),
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **options,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(Fault(place, f"could not be loaded: {error}", fix=SAVE_AGAIN)) from error
    # The pooling layer is not read; anything else that is missing or of another size would be random numbers.
    unfit = {*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])}
    unfit = {name for name in unfit if not name.startswith("pooler.")}
    if unfit:
        problem = f"its weights do not fit its config.json: {len(unfit)} missing or of another size, as {min(unfit)}"
        raise InputError(Fault(place, problem, "the weights of this very model", SAVE_AGAIN))
    longest = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
    return tokenizer, model.eval()


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, dtype=np.float64, **options)


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-8)
