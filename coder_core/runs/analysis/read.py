"""Reading `analysis/<split>/`: memory-mapped arrays, no torch, nothing on disk believed before it is checked."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.runs.analysis.concept_reader import CONCEPTS, ConceptTables, read_concept_tables
from coder_core.runs.analysis.write import SCORES, VERSION_MIXED, VERSION_SCORED, VERSIONS, split_folder
from coder_core.runs.files import sealed

_PART = re.compile(r"[a-z0-9_]+")


class Analysis(sealed.SealedFolder):
    """One split of one run.

    Attributes:
        path: the folder.
        manifest: its manifest: kind, split, fingerprint, source, metrics, arrays.
    """

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        super().__init__(path)
        _check_manifest(self.manifest, str(self.path / sealed.MANIFEST))
        self.check(digest=verify)
        self._arrays = {name: super(Analysis, self).array(name) for name in self.manifest["arrays"]}
        _check_layout(self)

    @property
    def kind(self) -> str:
        """What made the embeddings."""
        return str(self.manifest["kind"])

    @property
    def split(self) -> str:
        """The split's name."""
        return str(self.manifest["split"])

    @property
    def fingerprint(self) -> str:
        """Of the save the embeddings come from."""
        return str(self.manifest["fingerprint"])

    @property
    def metrics(self) -> dict[str, float]:
        """The dictionary of `retrieval_metrics`."""
        return dict(self.manifest["metrics"])

    def array(self, name: str) -> np.ndarray:
        """A table by name, memory-mapped, read-only."""
        if name not in self._arrays:
            raise InputError(Fault(str(self.path), f"holds no {name}.npy", f"one of {', '.join(self._arrays)}"))
        return self._arrays[name]

    @property
    def arrays(self) -> list[str]:
        """The names of the tables."""
        return list(self._arrays)

    @property
    def n_images(self) -> int:
        """n."""
        return len(self.image_ranks)

    @property
    def n_texts(self) -> int:
        """m."""
        return len(self.image_of_text)

    @property
    def scores(self) -> np.ndarray | None:
        """(n, m) float32 of a model that scores pair by pair; None where embeddings tell the scores."""
        return self._arrays[SCORES] if self.manifest["version"] == VERSION_SCORED else None

    @property
    def image_embeddings(self) -> np.ndarray:
        """(n, D) float32 unit rows; an InputError where there are scores only."""
        return self._embeddings("image_embeddings")

    @property
    def text_embeddings(self) -> np.ndarray:
        """(m, D) float32 unit rows; an InputError where there are scores only."""
        return self._embeddings("text_embeddings")

    def _embeddings(self, name: str) -> np.ndarray:
        if self.scores is not None:
            found = "was written by a model that scores pair by pair: there is not one embedding of a sample"
            raise InputError(Fault(str(self.path), found, "a run with one embedding of every image and caption"))
        return self._arrays[name]

    @property
    def image_of_text(self) -> np.ndarray:
        """(m,) int64 the image each caption belongs to."""
        return self._arrays["image_of_text"]

    @property
    def image_ranks(self) -> np.ndarray:
        """(n,) int64, 0 is first, −1 for an image without captions."""
        return self._arrays["image_ranks"]

    @property
    def text_ranks(self) -> np.ndarray:
        """(m,) int64, 0 is first."""
        return self._arrays["text_ranks"]

    @property
    def image_best(self) -> np.ndarray:
        """(n, k) int32 the best captions of every image, best first."""
        return self._arrays["image_best"]

    @property
    def text_best(self) -> np.ndarray:
        """(m, k) int32 the best images of every caption, best first."""
        return self._arrays["text_best"]

    @cached_property
    def concepts(self) -> ConceptTables | None:
        """The concept branch; None where the model had none."""
        if self.manifest["version"] != VERSION_MIXED:
            return None
        return read_concept_tables(self._arrays, self.document(CONCEPTS), self.manifest.get("beta"), str(self.path))

    @cached_property
    def captions(self) -> list[str]:
        """The m captions."""
        captions: list[str] = self.document("captions")
        return captions

    @cached_property
    def _images(self) -> dict[str, Any]:
        images: dict[str, Any] = self.document("images")
        return images

    @property
    def image_names(self) -> list[str]:
        """n relative picture paths, or ids. Whoever opens one checks that it stays inside `picture_folder`."""
        return list(self._images["names"])

    @property
    def picture_folder(self) -> str:
        """Where the pictures lie; "" when unknown."""
        return str(self._images["folder"])


def open_analysis(run_folder: Path, split: str, *, verify: bool = False) -> Analysis:
    """Open the analysis of a split.

    Sizes, shapes and dtypes are compared with the manifest at once; `verify` reads every byte and compares sha256.

    Raises:
        InputError: not there, cut, damaged, of a newer version, or not what the manifest says; the file is named.
    """
    folder = split_folder(run_folder, split)
    if not sealed.locate(folder).is_dir():
        fix = f"python -m coder_core.evaluate {run_folder} --split {split}"
        raise InputError(Fault(str(folder), "is not there", "the analysis of the split", fix))
    return Analysis(folder, verify=verify)


def _check_manifest(manifest: dict[str, Any], place: str) -> None:
    if manifest.get("version") not in VERSIONS:
        fix = "evaluate the run again, or use the version that wrote it"
        expected = f"version {' or '.join(map(str, VERSIONS))}"
        raise InputError(Fault(place, f"has version {manifest.get('version')}", expected, fix))
    keys = ("kind", "split", "fingerprint", "metrics", "arrays", "documents")
    missing = [key for key in keys if key not in manifest]
    if missing:
        raise InputError(Fault(place, f"lacks {', '.join(missing)}", "the manifest of an analysis"))
    names = [*manifest["arrays"], *manifest["documents"]]
    strange = [name for name in names if not _PART.fullmatch(str(name))]
    if strange:
        raise InputError(Fault(place, f"names the table {strange[0]!r}", "lower-case letters, digits and '_'"))


def _check_layout(analysis: Analysis) -> None:
    """The tables every reader relies on exist and fit one another."""
    if analysis.manifest["version"] == VERSION_SCORED:
        n, m = len(analysis.array("image_ranks")), len(analysis.array("image_of_text"))
        if analysis.array(SCORES).shape != (n, m) or analysis.array(SCORES).dtype != np.float32:
            found = f"holds {analysis.array(SCORES).dtype} {analysis.array(SCORES).shape}"
            raise InputError(Fault(str(analysis.path / f"{SCORES}.npy"), found, f"float32 {(n, m)}"))
    else:
        n, m = len(analysis.array("image_embeddings")), len(analysis.array("text_embeddings"))
    rows = {"image_of_text": m, "image_ranks": n, "text_ranks": m, "image_best": n, "text_best": m}
    for name, count in rows.items():
        if len(analysis.array(name)) != count:
            found = f"has {len(analysis.array(name)):,} rows"
            raise InputError(Fault(str(analysis.path / f"{name}.npy"), found, f"{count:,} rows"))
