"""Read `analysis/<split>/`: checked, read-only arrays, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from coder_core.console.documents import NUMBER, check_values
from coder_core.console.faults import InputError
from coder_core.data.lines import LONGEST_CAPTION_CHARACTERS
from coder_core.evaluation.sources import ScoreMatrix, Source, mixture
from coder_core.files import atomic, sealed
from coder_core.files.manifest import MANIFEST
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.concepts import CONCEPTS, ConceptTables, read_concept_tables

if TYPE_CHECKING:
    from coder_core.data.captioned.positions import PackedPictures

Result = TypeVar("Result")
_KINDS = {"kind": str, "split": str, "fingerprint": str, "metrics": dict, "arrays": dict, "documents": list}


class Analysis(sealed.SealedFolder):
    """One split of one run; arrays are read-only, large ones mapped from a copy.

    Attributes:
        path: the folder.
        manifest: its manifest.
        kind: what made the embeddings.
        split: its name.
        fingerprint: of the save the embeddings come from.
        metrics: the dictionary of `retrieval_metrics`.
        arrays: the names of the tables.
        n_images, n_texts: n and m.
        image_of_text: (m,) int64 the image each caption belongs to.
        caption_ids: (m,) int64, numbers of the captions in their data set; None where none are known.
        image_ranks: (n,) int64, 0 is first, −1 for an image without captions.
        text_ranks: (m,) int64, 0 is first.
        image_best: (n, k) int32 the best captions of every image, best first.
        text_best: (m, k) int32 the best images of every caption, best first.
    """

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        super().__init__(path)
        _check_version(self.manifest, str(self.path / MANIFEST))
        check_manifest(self.manifest, str(self.path / MANIFEST))
        large = self.large_arrays
        self.check(large, digest=False)  # their contents are compared while they are copied
        self.check([name for name in self.manifest["files"] if name not in large], remember=not verify)
        self._arrays = {name: super(Analysis, self).array(name) for name in self.manifest["arrays"]}
        tables.check_tables(self._arrays, tables.required_tables(self.manifest["version"]), str(self.path))
        self.kind, self.split = str(self.manifest["kind"]), str(self.manifest["split"])
        self.fingerprint = str(self.manifest["fingerprint"])
        self.metrics: dict[str, float] = dict(self.manifest["metrics"])
        self.arrays = list(self._arrays)
        self.image_of_text = self._arrays["image_of_text"]
        self.caption_ids = self._arrays.get(tables.CAPTION_IDS)
        self.image_ranks, self.text_ranks = self._arrays["image_ranks"], self._arrays["text_ranks"]
        self.image_best, self.text_best = self._arrays["image_best"], self._arrays["text_best"]
        self.n_images, self.n_texts = len(self.image_ranks), len(self.image_of_text)

    def array(self, name: str) -> np.ndarray:
        """A table by name.

        Raises:
            InputError: there is none.
        """
        if name not in self._arrays:
            raise InputError.at(self.path, f"holds no {name}.npy", f"one of {', '.join(self._arrays)}")
        return self._arrays[name]

    @property
    def scores(self) -> np.ndarray | None:
        """(n, m) float32 of a model that scores pair by pair; None where embeddings tell the scores."""
        return self.array(tables.SCORES) if self.manifest["version"] == tables.VERSION_SCORED else None

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
            reason = "was written by a model that scores pair by pair: there is not one embedding of a sample"
            raise InputError.at(self.path, reason, "a run with one embedding of every image and caption")
        return self.array(name)

    @cached_property
    def concepts(self) -> ConceptTables | None:
        """The concept branch; None where the model had none."""
        if self.manifest["version"] != tables.VERSION_MIXED:
            return None
        return read_concept_tables(
            self._arrays, self.document(CONCEPTS), self.manifest.get("beta"), str(self.path)
        )

    @cached_property
    def captions(self) -> list[str]:
        """The m captions; what training would not read of a longer one is cut."""
        captions = self.document("captions")
        if not _are_strings(captions, self.n_texts):
            raise InputError.at(
                self.path / "captions.json", "is no list of captions", f"{self.n_texts} texts"
            )
        longest = LONGEST_CAPTION_CHARACTERS
        return [text if len(text) <= longest else f"{text[: longest - 1]}…" for text in captions]

    @cached_property
    def queries(self) -> list[str]:
        """The q texts of `query_embeddings`, whose unit rows were imported beside; [] without."""
        if tables.QUERIES not in self._arrays:
            return []
        queries, count = self.document(tables.DOCUMENT_QUERIES), len(self._arrays[tables.QUERIES])
        if not _are_strings(queries, count):
            raise InputError.at(self.path / "queries.json", "is no list of queries", f"{count} texts")
        return cast(list[str], queries)

    @cached_property
    def _images(self) -> dict[str, Any]:
        images = self.document("images")
        sound = isinstance(images, dict) and isinstance(images.get("folder"), str)
        if not sound or not _are_strings(images.get("names"), self.n_images):
            expected = f"names of {self.n_images} pictures and their folder"
            raise InputError.at(self.path / "images.json", "is no list of pictures", expected)
        return cast(dict[str, Any], images)

    @property
    def image_names(self) -> list[str]:
        """n relative picture paths, or ids. Whoever opens one checks that it stays inside `picture_folder`."""
        return list(self._images["names"])

    @cached_property
    def packed_pictures(self) -> PackedPictures | None:
        """Positions of pictures inside tar or parquet files; None if they are files of `picture_folder`, or unknown."""
        if "packed" not in self._images:
            return None
        from coder_core.data.captioned.positions import (
            open_packed,  # Arrow is needed from here on, and only here
        )

        place = f"{self.path / 'images.json'} key packed"
        return open_packed(
            self._images["packed"], self.array(tables.PICTURE_POSITIONS), self._images["names"], place
        )

    @property
    def picture_folder(self) -> str:
        """Folder of the pictures; "" when unknown."""
        return str(self._images["folder"])


def open_analysis(run_folder: Path, split: str, *, verify: bool = False) -> Analysis:
    """Open the analysis of a split.

    Every byte is compared with the manifest the first time a process opens it, and with `verify` every time.

    Raises:
        InputError: not there, cut, damaged, of a newer version, or not what the manifest says; the file is named.
    """
    folder = tables.split_folder(run_folder, split)
    if not atomic.locate(folder).is_dir():
        fix = f"python -m coder_core.evaluate {run_folder} --split {split}"
        raise InputError.at(folder, "is not there", "the analysis of the split", fix)
    return _read_steadily(folder, lambda: Analysis(folder, verify=verify))


def check_metrics(folder: Path) -> None:
    """Check that the metrics in the manifest of an analysis belong to the arrays beside it.

    The ranks, from which they follow, are compared with their sha256, and all other files with their sizes.

    Raises:
        InputError: names the files.
    """

    def check() -> None:
        stored = sealed.SealedFolder(folder)
        stored.check(digest=False)
        stored.check(["image_ranks.npy", "text_ranks.npy"], remember=True)

    _read_steadily(folder, check)


def _read_steadily(folder: Path, read: Callable[[], Result]) -> Result:
    """The result of `read`, which is tried again when the folder was replaced meanwhile."""
    while True:
        opened = atomic.identity(folder)
        try:
            return read()
        except InputError:
            if atomic.identity(folder) == opened:
                raise


def _are_strings(values: Any, count: int) -> bool:
    return (
        isinstance(values, list) and len(values) == count and all(isinstance(value, str) for value in values)
    )


def check_manifest(manifest: Mapping[str, Any], place: str) -> None:
    """Check the keys of an analysis that a listing reads, and the types of their values.

    Raises:
        InputError: names what is missing, or another value than was written.
    """
    missing = [key for key in _KINDS if key not in manifest]
    if missing:
        raise InputError.at(place, f"lacks {', '.join(missing)}", "the manifest of an analysis")
    check_values(manifest, {**_KINDS, "source": str}, place)
    check_values(
        manifest["metrics"], dict.fromkeys(manifest["metrics"], NUMBER), f"{place} key metrics", least=-1e9
    )
    for name in (*manifest["arrays"], *manifest["documents"]):
        if not tables.PART_NAME.fullmatch(str(name)):
            raise InputError.at(place, f"names the table {name!r:.80}", "lower-case letters, digits and '_'")


def _check_version(manifest: Mapping[str, Any], place: str) -> None:
    if manifest.get("version") not in tables.VERSIONS:
        fix = "evaluate the run again, or use the version that wrote it"
        expected = f"version {' or '.join(map(str, tables.VERSIONS))}"
        raise InputError.at(place, f"has version {manifest.get('version')!r:.80}", expected, fix)


def stored_sources(analysis: Analysis) -> list[Source]:
    """The scores that an analysis was ranked by: its matrix, or the mixture of its embeddings."""
    if analysis.scores is not None:
        return [ScoreMatrix(analysis.scores)]
    if (concepts := analysis.concepts) is None:
        return mixture(analysis.image_embeddings, analysis.text_embeddings)
    second = concepts.image_embeddings, concepts.text_embeddings
    return mixture(analysis.image_embeddings, analysis.text_embeddings, second, concepts.beta)
