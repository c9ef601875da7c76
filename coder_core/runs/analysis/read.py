"""Read `analysis/<split>/`: checked, read-only arrays, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.plain_files import NUMBER, check_values
from coder_core.data.columns import SampleColumns
from coder_core.data.lines import LONGEST_CAPTION_CHARACTERS
from coder_core.data.qrels import Way
from coder_core.evaluation.lists import NO_CANDIDATE, Lists
from coder_core.evaluation.metrics import UNLISTED
from coder_core.evaluation.relevance import Queries, Relevance, relevance_of_judgements
from coder_core.evaluation.sources import ScoreMatrix, Source, mixture
from coder_core.files import atomic, sealed
from coder_core.files.sealed import MANIFEST
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.columns import read_columns
from coder_core.runs.analysis.concepts import CONCEPTS, ConceptTables, read_concept_tables
from coder_core.runs.folder import check_run

if TYPE_CHECKING:
    from coder_core.data.captioned.positions import PackedPictures

Result = TypeVar("Result")
_FIX = "evaluate the run again"
CENTROIDS = "cluster_centroids"
_ROWS_AT_ONCE = 1024
LISTED_BYTES = 1 << 22  # of ranks that a listing verifies: half a million; opening an analysis verifies all
_ROWS = {  # sample with one row → arrays whose rows are counted
    "image": ("scores", "image_embeddings", "image_ranks", "image_best"),
    "caption": ("text_embeddings", "image_of_text", "text_ranks", "text_best"),
}
_LIST_SCORES = ("image_list_scores", "text_list_scores")
_KINDS = {"kind": str, "split": str, "fingerprint": str, "metrics": dict, "arrays": dict, "documents": list}


class Analysis(sealed.SealedFolder):
    """One split of one run; arrays are read-only, large ones mapped.

    Attributes:
        kind, fingerprint: what made the embeddings, and the fingerprint of their save.
        metrics: the dictionary of `retrieval_metrics`.
        arrays: the names of the tables.
        n_images, n_texts: n and m.
        image_of_text: (m,) int64 the image each caption belongs to.
        caption_ids: (m,) int64, numbers of the captions in their data set; None if unknown.
        image_groups: (n,) int64, equal for images that show the same thing; None without groups.
        ranked_queries: the queries that are ranked; None: all.
        image_ranks: (n,) int64, 0 is first, −1 for an image without captions, or that is not ranked, `UNLISTED` if another
            system's list contains none of them.
        text_ranks: (m,) int64, 0 is first, −1 for a caption that is not ranked, `UNLISTED` likewise.
        image_best: (n, k) int32 the best captions of every image, best first; −1 for an image that is not ranked, and after
            the end of another system's list.
        text_best: (m, k) int32 the best images of every caption, best first; likewise.
        scores: (n, m) float32 of a model that scores pair by pair; None if scores come from embeddings.
    """

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        super().__init__(path)
        manifest = self.manifest
        where = str(self.path / MANIFEST)
        if type(manifest.get("version")) is not int or manifest["version"] not in tables.VERSIONS:
            fix = "evaluate the run again, or use the version that wrote it"
            expected = f"version {' or '.join(map(str, tables.VERSIONS))}"
            raise InputError.at(where, f"has version {manifest.get('version')!r:.80}", expected, fix)

        check_manifest(manifest, where)
        self.check(remember=not verify)
        self._arrays = {name: super(Analysis, self).array(name) for name in manifest["arrays"]}
        tables.check_tables(self._arrays, tables.required_tables(manifest["version"]), str(self.path))
        _check_contents(self._arrays, str(self.path))
        self._lists = _lists(self._arrays) if manifest["version"] == tables.VERSION_LISTED else None

        self.kind = str(manifest["kind"])
        self.split = str(manifest["split"])
        self.fingerprint = str(manifest["fingerprint"])
        self.metrics: dict[str, float] = dict(manifest["metrics"])
        self.arrays = list(self._arrays)

        self.image_of_text = self._arrays["image_of_text"]
        self.caption_ids = self._arrays.get(tables.CAPTION_IDS)
        self.image_groups = self._arrays.get(tables.IMAGE_GROUPS)
        self.image_ranks = self._arrays["image_ranks"]
        self.text_ranks = self._arrays["text_ranks"]
        self.ranked_queries = _ranked_queries(self._arrays, str(self.path))
        self.image_best = self._arrays["image_best"]
        self.text_best = self._arrays["text_best"]
        self.scores = self.array(tables.SCORES) if manifest["version"] == tables.VERSION_SCORED else None

        self.n_images = len(self.image_ranks)
        self.n_texts = len(self.image_of_text)

    def array(self, name: str) -> np.ndarray:
        """Return a table by name (InputError: it does not exist)."""
        if name not in self._arrays:
            raise InputError.at(self.path, f"has no {name}.npy", f"one of {', '.join(self._arrays)}")
        return self._arrays[name]

    @property
    def image_embeddings(self) -> np.ndarray:
        """(n, D) float32 unit rows; InputError if there are only scores."""
        return self._embeddings("image_embeddings")

    @property
    def text_embeddings(self) -> np.ndarray:
        """(m, D) float32 unit rows; InputError if there are only scores."""
        return self._embeddings("text_embeddings")

    def _embeddings(self, name: str) -> np.ndarray:
        if self.without_embeddings:
            fact = f"{self.without_embeddings}: its samples have no embeddings"
            raise InputError.at(self.path, fact, "a run with one embedding of every image and caption")
        return self.array(name)

    @property
    def without_embeddings(self) -> str:
        """Why the samples have no embeddings, in words; "" if they have."""
        if self._lists is not None:
            return "has only the lists of another system"
        return "" if self.scores is None else "scores pair by pair"

    @property
    def lists(self) -> dict[Way, Lists] | None:
        """The lists of another system; None for runs of embeddings and of scores."""
        return self._lists

    @cached_property
    def concepts(self) -> ConceptTables | None:
        """Tables of the concept branch; None if the model had none."""
        if self.manifest["version"] != tables.VERSION_MIXED:
            return None
        document = self.document(CONCEPTS)
        beta = self.manifest.get("beta")
        return read_concept_tables(self._arrays, document, beta, str(self.path))

    @cached_property
    def columns(self) -> SampleColumns:
        """The user's columns of images and captions; InputError: a file is not what this program writes."""
        return read_columns(self, self.n_images, self.n_texts)

    @cached_property
    def judged(self) -> Relevance | None:
        """The judgments of a search log, which decide what is right there; None for other splits, whose labels do."""
        if tables.JUDGEMENTS not in self._arrays:
            return None
        return relevance_of_judgements(self._arrays[tables.JUDGEMENTS], self.n_images, self.n_texts)

    @property
    def relevance(self) -> Relevance:
        """Which results are right: by the judgments of a search log, or by the labels."""
        return self.judged or Relevance.of_labels(np.asarray(self.image_of_text), self.n_images)

    @cached_property
    def search_log(self) -> dict[str, Any] | None:
        """Ids of the queries of a search log ("query_ids") and id, text and reason of those that are not counted
        ("others"); None for other splits. InputError: the document is not what this program writes."""
        if tables.JUDGEMENTS not in self._arrays:
            return None
        document = self.document(tables.DOCUMENT_SEARCH_LOG)
        is_sound = isinstance(document, dict) and _are_strings(document.get("query_ids"), self.n_texts)
        others = document.get("others") if is_sound else None
        if not isinstance(others, list) or not all(_are_strings(other, 3) for other in others):
            expected = f"ids of {self.n_texts} queries, and the others"
            raise InputError.at(
                self.path / f"{tables.DOCUMENT_SEARCH_LOG}.json", "is not a search log", expected
            )
        return cast(dict[str, Any], document)

    @property
    def image_hits(self) -> np.ndarray:
        """(n, k) bool, True where one of an image's best captions is its own."""
        own = self.image_of_text[self.image_best] == np.arange(self.n_images)[:, None]
        return np.asarray(own & (self.image_best != NO_CANDIDATE))

    @property
    def sources(self) -> list[Source]:
        """Scores by which the split was ranked: its matrix, or the mixture of its embeddings. InputError: it has only
        lists."""
        if self.scores is not None:
            return [ScoreMatrix(self.scores)]
        if (concepts := self.concepts) is None:
            return mixture(self.image_embeddings, self.text_embeddings)
        second = concepts.image_embeddings, concepts.text_embeddings
        return mixture(self.image_embeddings, self.text_embeddings, second, concepts.beta)

    @cached_property
    def captions(self) -> list[str]:
        """The m captions, cut at the length that training reads."""
        longest = LONGEST_CAPTION_CHARACTERS
        captions = self._strings("captions", self.n_texts)
        return [text if len(text) <= longest else f"{text[: longest - 1]}…" for text in captions]

    @cached_property
    def queries(self) -> list[str]:
        """The q texts of the imported `query_embeddings`; [] without."""
        count = len(self._arrays.get(tables.QUERIES, ()))
        return self._strings(tables.DOCUMENT_QUERIES, count) if count else []

    def _strings(self, name: str, count: int) -> list[str]:
        strings = self.document(name)
        if not _are_strings(strings, count):
            raise InputError.at(self.path / f"{name}.json", f"is not a list of {name}", f"{count} texts")
        return cast(list[str], strings)

    @cached_property
    def _images(self) -> dict[str, Any]:
        images = self.document("images")
        is_sound = isinstance(images, dict) and isinstance(images.get("folder"), str)
        if not is_sound or not _are_strings(images.get("names"), self.n_images):
            expected = f"names of {self.n_images} pictures and their folder"
            raise InputError.at(self.path / "images.json", "is not a list of pictures", expected)
        return cast(dict[str, Any], images)

    @property
    def image_names(self) -> list[str]:
        """n relative picture paths, or ids. Before opening one, check that it stays inside `picture_folder`."""
        return list(self._images["names"])

    @cached_property
    def packed_pictures(self) -> PackedPictures | None:
        """Positions of pictures inside tar or parquet files; None if they are files of `picture_folder`, or unknown."""
        if "packed" not in self._images:
            return None
        from coder_core.data.captioned.positions import open_packed  # imports Arrow

        positions = self.array(tables.PICTURE_POSITIONS)
        where = f"{self.path / 'images.json'} key packed"
        return open_packed(self._images["packed"], positions, self._images["names"], where)

    @property
    def picture_folder(self) -> str:
        """Folder of the pictures; "" if unknown."""
        return str(self._images["folder"])


def _lists(arrays: Mapping[str, np.ndarray]) -> dict[Way, Lists]:
    """Return the lists of both directions."""
    images = len(arrays["image_lists"])
    texts = len(arrays["text_lists"])
    i2t = Lists(arrays["image_lists"], arrays["image_list_scores"], texts)
    t2i = Lists(arrays["text_lists"], arrays["text_list_scores"], images)
    return {"i2t": i2t, "t2i": t2i}


def open_analysis(run_folder: Path, split: str, *, verify: bool = False) -> Analysis:
    """Open the analysis of a split. Every byte is compared with the manifest the first time a process opens it, and
    with `verify` every time. InputError: a file is missing, cut, damaged, of another version or not as in the manifest;
    the file is named."""
    folder = tables.split_folder(run_folder, split)
    if not atomic.locate(folder).is_dir():
        check_run(run_folder)
        fix = how_to_add(run_folder, split)
        others = tables.list_splits(run_folder)
        raise InputError.at(folder, "does not exist", f"one of {', '.join(others)}" if others else "", fix)
    return _read_steadily(folder, lambda: Analysis(folder, verify=verify))


def how_to_add(run_folder: Path, split: str) -> str:
    """Return the command that adds a split to a run: for embeddings alone, the one that added its other splits."""
    unranked = atomic.folder_names(Path(run_folder) / tables.UNRANKED)
    for other in [] if split in unranked else tables.list_splits(run_folder):
        with suppress(InputError):
            analysis = open_analysis(run_folder, other)
            if analysis.kind == tables.KIND_IMPORTED:
                has_towers = tables.DOCUMENT_TOWERS in analysis.manifest["documents"]
                source = "pictures DATA" if has_towers else "import"
                return f"coder-lab embed {source} … --split {split} --name {Path(run_folder).name}"
    return f"coder-lab evaluate {run_folder} --split {split}"


def check_metrics(folder: Path) -> None:
    """Check that the metrics in the manifest of an analysis belong to the arrays beside it. The ranks, from which
    metrics are computed, are compared with their sha256 if that takes no time (`LISTED_BYTES`), and all other files
    with their sizes. InputError: names the files."""

    def check() -> None:
        stored = sealed.SealedFolder(folder)
        stored.check(digest=False)
        files = stored.manifest["files"]
        ranks = ("image_ranks.npy", "text_ranks.npy")
        large = [name for name in ranks if name in files and files[name]["bytes"] > LISTED_BYTES]
        stored.check([name for name in ranks if name not in large], remember=True)

    _read_steadily(folder, check)


def _read_steadily(folder: Path, read: Callable[[], Result]) -> Result:
    """Return the result of `read`; call it again after an InputError if the folder was replaced meanwhile."""
    while True:
        opened = atomic.identity(folder)
        try:
            return read()
        except InputError:
            if atomic.identity(folder) == opened:
                raise


def _are_strings(values: Any, count: int) -> bool:
    return isinstance(values, list) and [type(value) for value in values] == [str] * count


def check_manifest(manifest: Mapping[str, Any], place: str) -> None:
    """Check the keys of an analysis's manifest that a listing reads, and the types of their values."""
    missing = [key for key in _KINDS if key not in manifest]
    if missing:
        raise InputError.at(place, f"lacks {', '.join(missing)}", "the manifest of an analysis")
    check_values(manifest, {**_KINDS, "source": str}, place)
    metrics = manifest["metrics"]
    check_values(metrics, dict.fromkeys(metrics, NUMBER), f"{place} key metrics", least=-1e9)
    for name in (*manifest["arrays"], *manifest["documents"]):
        if not tables.PART_NAME.fullmatch(str(name)):
            raise InputError.at(place, f"names the table {name!r:.80}", "lower-case letters, digits and '_'")
    arrays = manifest["arrays"]
    for rows_of, per_sample in _ROWS.items():
        shapes = {name: arrays[name]["shape"] for name in per_sample if name in arrays}
        if len({tuple(shape[:1]) for shape in shapes.values()}) > 1:
            facts = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise InputError.at(f"{place} key arrays", f"has shapes {facts}", f"one row per {rows_of}", _FIX)


def _check_judgements(judgements: np.ndarray, images: int, texts: int, file: str) -> None:
    """Check that judgments name captions and images of the split. InputError: names the first other row."""
    caption, image, _ = judgements.T
    wrong = (caption < 0) | (caption >= texts) | (image < -1) | (image >= images)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        fact = f"contains caption {caption[row]} and image {image[row]}"
        expected = f"captions 0 to {texts - 1} and images -1 to {images - 1}"
        raise InputError.at(f"{file} row {row}", fact, expected, _FIX)


def _ranked_queries(arrays: Mapping[str, np.ndarray], place: str) -> Queries | None:
    """Return the queries that are ranked; None: all. InputError: one of the tables is missing, or does not list exactly
    the queries that have results."""
    names = tables.RANKED_QUERIES
    given = [name in arrays for name in names]
    if not any(given):
        return None
    if not all(given):
        missing = names[given.index(False)]
        raise InputError.at(f"{place}/{missing}.npy", "is missing", "the queries that are ranked", _FIX)
    for name, best in zip(names, ("image_best", "text_best"), strict=True):
        listed = (np.asarray(arrays[best]) >= 0).any(1)
        if not np.array_equal(arrays[name], np.flatnonzero(listed)):
            raise InputError.at(f"{place}/{name}.npy", f"does not list the rows of {best}.npy", fix=_FIX)
    return Queries(*(np.asarray(arrays[name]) for name in names))


def _check_contents(arrays: Mapping[str, np.ndarray], place: str) -> None:
    """Check that ranks and numbers of samples are in range, and that embeddings and scores are finite. InputError:
    names the first file and row with another value."""
    images = len(arrays["image_ranks"])
    texts = len(arrays["image_of_text"])
    lowest = -1 if "text_queries" in arrays else 0
    ranges: dict[str, tuple[float, float]] = {
        "image_of_text": (0, images),
        "image_ranks": (-1, texts),
        "text_ranks": (lowest, images),
    }
    ranges |= {"image_best": (lowest, texts), "text_best": (lowest, images)}
    ranges |= {"image_queries": (0, images), "text_queries": (0, texts)}
    if tables.LISTS[0] in arrays:
        ranges |= {"image_ranks": (-1, UNLISTED + 1), "text_ranks": (-1, UNLISTED + 1)}
        ranges |= dict.fromkeys(("image_best", "image_lists"), (NO_CANDIDATE, texts))
        ranges |= dict.fromkeys(("text_best", "text_lists"), (NO_CANDIDATE, images))
    if CENTROIDS in arrays:
        ranges["cluster_pair_labels"] = (0, len(arrays[CENTROIDS]))
    if tables.JUDGEMENTS in arrays:
        _check_judgements(arrays[tables.JUDGEMENTS], images, texts, f"{place}/{tables.JUDGEMENTS}.npy")

    finite = {name for name in tables.TABLES if name == tables.SCORES or name.endswith("embeddings")}
    ranges |= dict.fromkeys(_LIST_SCORES, (-np.inf, np.inf))
    for name in sorted(arrays.keys() & (finite | ranges.keys())):
        low, stop = ranges.get(name, (0, 0))
        for start in range(0, len(arrays[name]), _ROWS_AT_ONCE):
            part = arrays[name][start : start + _ROWS_AT_ONCE]
            wrong = ~np.isfinite(part) if name in finite else ~((part >= low) & (part < stop))
            if wrong.any():
                row = start + int(np.argwhere(wrong)[0, 0])
                where = f"{place}/{name}.npy row {row}"
                counts = name not in finite and name not in _LIST_SCORES
                expected = f"{low} to {stop - 1}" if counts else "finite numbers"
                raise InputError.at(where, f"contains {part[wrong][0]}", expected, _FIX)
