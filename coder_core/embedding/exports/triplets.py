"""Export training data with a run's hard negatives: every pair with k of them, in both directions.

Negatives are drawn at random (seeded) from a window of ranks among the candidates of other images. Candidates that
certainly or probably match are left out: those of the same group or text, near-duplicates, pairs that people judged to
match, and pairs with similar captions (as in `coder_core.api.retrieval.likely_matches`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from coder_core.api import open_run
from coder_core.api.data_quality import split_of_run
from coder_core.api.retrieval.results import LIKELY, captions_by_image
from coder_core.console.faults import InputError
from coder_core.console.output import Progress, named
from coder_core.data.content.report import Finding, check_content
from coder_core.data.reviews import JudgedSplit, Reviews, judge_split
from coder_core.evaluation.best_candidates import best_lists, nearly_best_lists
from coder_core.evaluation.nearest import too_many
from coder_core.evaluation.relevance import Relation, Relevance
from coder_core.evaluation.scores import Scores, check_scores
from coder_core.evaluation.sources import slices
from coder_core.files.atomic import appearing
from coder_core.geometry.captions import caption_space, largest_cosine
from coder_core.runs.analysis.read import Analysis

Lists = Callable[[torch.Tensor], tuple[np.ndarray, np.ndarray]]
Form = Literal["parquet", "jsonl", "open_clip"]
FITTED = 50_000  # captions that the space of likely matches is fitted to
QUERIES = 4_096  # mined at once
ELEMENTS = 4_194_304  # numbers gathered at once to compare captions: 16 MiB
# Columns by form: anchor, positive and negatives of text→image, then of image→text
COLUMNS = {"anchor": "anchor", "positive": "positive", "negative": "negative"}
OPEN_CLIP = {
    "t2i": {"anchor": "title", "positive": "filepath", "negative": "negative_filepath"},
    "i2t": {"anchor": "filepath", "positive": "title", "negative": "negative_title"},
}
FILES = {"t2i": "text_to_image", "i2t": "image_to_text"}


@dataclass(frozen=True)
class Mining:
    """Settings for the choice of negatives."""

    negatives: int = 5  # per pair
    # first and last rank among the candidates of other images; 1 is the hardest
    ranks: tuple[int, int] = (1, 50)
    margin: float | None = None  # least difference of the positive's score and a negative's; None: any
    seed: int = 0


@dataclass(frozen=True)
class ReviewedPairs:
    """Pairs of a run's split, and people's verdicts on them."""

    run: Path
    split: str
    reviews: Reviews
    device: str = "cpu"  # of the products behind the lists, which are the same on every device


@dataclass(frozen=True)
class TripletFiles:
    """Files to write: their folder and form."""

    folder: Path
    form: Form


class Matches:
    """Candidates that may match an image or caption although they are not labelled; `counts`: reason → their number."""

    def __init__(self, analysis: Analysis, judged: JudgedSplit, groups: Sequence[np.ndarray]) -> None:
        self._owner = np.asarray(analysis.image_of_text)
        n = analysis.n_images
        self._captions_of = captions_by_image(self._owner, n)
        self._pictures, self._texts = groups
        self._reviewed = judged.matches @ np.array([n, 1])
        self._images = n

        sample = np.random.default_rng(0).permutation(analysis.n_texts)[:FITTED]
        captions = analysis.captions
        space = caption_space([captions[row] for row in np.sort(sample)])
        self._vectors = None if space is None else space.encode(captions)

        self._image_groups = analysis.image_groups
        self.counts = {"near-duplicates": 0, "reviewed matches": 0, "likely matches": 0}
        if analysis.image_groups is not None:
            self.counts = {"same group": 0} | self.counts

    def mask(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """Return (P,) bool, True where the image and the caption of a pair may belong together, and count these."""
        own = self._captions_of[images]
        grouped = np.zeros(len(images), bool)
        if self._image_groups is not None:
            grouped = self._image_groups[images] == self._image_groups[self._owner[texts]]

        alike = self._pictures[images] == self._pictures[self._owner[texts]]
        alike |= ((self._texts[own] == self._texts[texts, None]) & (own >= 0)).any(1)
        alike &= ~grouped
        known = alike | grouped
        reviewed = ~known & np.isin(texts * self._images + images, self._reviewed)
        likely = np.zeros(len(images), bool)
        rest = np.flatnonzero(~known & ~reviewed)
        if self._vectors is not None:
            for part in slices(len(rest), ELEMENTS // (own.shape[1] * self._vectors.shape[1])):
                rows = rest[part]
                likely[rows] = largest_cosine(self._vectors, own[rows], texts[rows, None]) >= LIKELY

        reasons = {"same group": grouped, "near-duplicates": alike}
        reasons |= {"reviewed matches": reviewed, "likely matches": likely}
        for reason in self.counts:
            self.counts[reason] += int(reasons[reason].sum())

        return np.asarray(known | reviewed | likely)


def write_triplets(
    source: ReviewedPairs, files: TripletFiles, mining: Mining, progress: Progress
) -> dict[str, Any]:
    """Write text_to_image, image_to_text, and triplets.json with settings and counts, which are returned. InputError:
    the split has no analysis, its pictures are inside tar or parquet files, or the folder exists.

    Every row is a labelled pair that nobody judged wrong; pairs with too few negatives are left out.

    - parquet, jsonl: anchor, positive, negative_1 … as sentence-transformers reads them; images are paths of files.
    - open_clip: tab-separated, with the columns filepath and title that its `--dataset-type csv` reads, and negatives
      (negative_filepath_1 …, negative_title_1 …) for your own training loops.
    """
    split = source.split
    opened = open_run(source.run)
    analysis = opened.analysis(split)
    if analysis.packed_pictures is not None:
        fix = "unpack the pictures, and import or embed the folder"
        raise InputError.at(
            source.run, "has its pictures in archives", "picture files that rows can refer to", fix
        )
    names = list(analysis.image_names)
    owner = np.asarray(analysis.image_of_text)
    looking = named(progress, "looking for duplicates")
    content = check_content([split_of_run(opened, split)], device=source.device, progress=looking)
    groups = [
        _groups(content.duplicate_pictures, len(names)),
        _groups(content.duplicate_captions, len(owner)),
    ]
    judged = judge_split(source.reviews.verdicts, names, analysis.captions, owner, len(names))
    matches = Matches(analysis, judged, groups)
    pairs = np.flatnonzero(judged.labels != "wrong-caption")
    miner = Miner(check_scores(analysis.sources, source.device), owner, pairs, matches, mining)

    folder = analysis.picture_folder
    pictures = [str(Path(folder) / name) if folder else name for name in names]
    with appearing(files.folder) as unfinished:
        rows = {}
        for way, anchors, answers in (
            ("t2i", analysis.captions, pictures),
            ("i2t", pictures, analysis.captions),
        ):
            written = 0
            with ExitStack() as stack:
                columns = _columns(way, files.form, mining.negatives)
                write = _writer(unfinished / FILES[way], files.form, columns, stack)
                for block in miner.blocks(way == "i2t", named(progress, FILES[way])):
                    anchor = [anchors[row] for row in block[:, 0].tolist()]
                    others = [[answers[row] for row in column] for column in block[:, 1:].T.tolist()]
                    write([anchor, *others])
                    written += len(block)
            rows[FILES[way]] = {"written": written, "too few negatives": len(pairs) - written}
        report = {
            "run": opened.name,
            "split": split,
            "mining": asdict(mining),
            "rows": rows,
            "picture files": bool(folder),  # otherwise the tables have names of images
            "left out as negatives": matches.counts,
            "judged wrong": len(owner) - len(pairs),
            "by an index": miner.by_index,
        }
        (unfinished / "triplets.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return report


def _columns(way: str, form: Form, negatives: int) -> list[str]:
    """Return the titles of a table's columns: anchor, positive and negatives."""
    titles = OPEN_CLIP[way] if form == "open_clip" else COLUMNS
    numbered = [f"{titles['negative']}_{k}" for k in range(1, negatives + 1)]
    return [titles["anchor"], titles["positive"], *numbered]


def _groups(findings: Sequence[Finding], count: int) -> np.ndarray:
    """Return the (count,) int64 group of every row; near-duplicates have the same one."""
    groups = np.arange(count)
    for finding in findings:
        rows = [row for _, row in finding.samples]
        groups[rows] = rows[0]
    return groups


@dataclass(frozen=True)
class Miner:
    """Draws the negatives of the labelled pairs of a split."""

    scores: Scores
    owner: np.ndarray  # (m,) int64, the image of every caption
    pairs: np.ndarray  # captions of the pairs to write
    matches: Matches
    mining: Mining

    def blocks(self, by_image: bool, progress: Progress) -> Iterator[np.ndarray]:
        """Yield blocks of (rows, 2 + k) int64: anchor, positive and its negatives, hardest first."""
        owner = self.owner
        pairs = self.pairs
        device = self.scores.device
        images = torch.from_numpy(owner).to(device)
        own = self.scores.pairs(images, torch.arange(len(owner), device=device)).cpu().numpy()

        labels = Relevance.of_labels(owner, self.scores.shape[0])
        relation = labels.i2t if by_image else labels.t2i
        most = int(np.bincount(owner).max()) if by_image else 1

        anchors, positives = (owner[pairs], pairs) if by_image else (pairs, owner[pairs])
        order = np.argsort(anchors, kind="stable")
        queries = np.unique(anchors)

        random = np.random.default_rng((self.mining.seed, by_image))
        (first, last) = self.mining.ranks
        k = self.mining.negatives
        lists = self._lists(relation, last + most, by_image=by_image)
        for part in slices(len(queries), QUERIES):
            some = queries[part]
            best, of_best = lists(torch.from_numpy(some))
            foreign = owner[best] != some[:, None] if by_image else best != owner[some][:, None]
            foreign &= best >= 0
            rank = np.cumsum(foreign, 1)
            usable = foreign & (rank >= first) & (rank <= last)

            query, column = np.nonzero(usable)
            asked = some[query]
            found = best[query, column].astype(np.int64)
            known = self.matches.mask(asked, found) if by_image else self.matches.mask(found, asked)
            usable[query, column] = ~known

            bounds = np.searchsorted(anchors[order], (some[0], some[-1] + 1))
            rows = order[bounds[0] : bounds[1]]
            query = np.searchsorted(some, anchors[rows])
            usable = usable[query]
            if self.mining.margin is not None:
                usable &= of_best[query] <= own[pairs[rows], None] - np.float32(self.mining.margin)

            keys = np.where(usable, random.random(usable.shape), np.inf)
            complete = usable.sum(1) >= k
            if complete.any():
                drawn = np.sort(np.argpartition(keys[complete], k - 1, axis=1)[:, :k], axis=1)
                negatives = best[query[complete, None], drawn]
                yield np.column_stack([anchors[rows[complete]], positives[rows[complete]], negatives])
            progress(part.stop, len(queries))

    @property
    def by_index(self) -> bool:
        """True if an index proposes the candidates, because comparing all pairs would take hours."""
        return self.scores.of_embeddings and too_many(*self.scores.shape)

    def _lists(self, relation: Relation, length: int, *, by_image: bool) -> Lists:
        """Return a function of some queries that finds their best candidates, or most of these, and their exact scores."""
        if self.by_index:
            return nearly_best_lists(self.scores, relation, length, by_image=by_image)
        return lambda asking: best_lists(self.scores, relation, length, by_image=by_image, asking=asking)


def _writer(file: Path, form: Form, columns: list[str], stack: ExitStack) -> Any:
    """Open a file, closed by `stack`; return a function that writes columns of strings."""
    if form == "parquet":
        schema = pa.schema([(name, pa.string()) for name in columns])
        table = stack.enter_context(pq.ParquetWriter(file.with_suffix(".parquet"), schema))
        return lambda values: table.write_table(pa.table([pa.array(v, pa.string()) for v in values], schema))
    ending = ".jsonl" if form == "jsonl" else ".tsv"
    text = stack.enter_context(file.with_suffix(ending).open("w", encoding="utf-8", newline=""))
    if form == "open_clip":
        sheet = csv.writer(text, delimiter="\t", lineterminator="\n")
        sheet.writerow(columns)
        return lambda values: sheet.writerows(_rows(values))
    return lambda values: text.writelines(
        json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in _rows(values)
    )


def _rows(columns: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Turn columns of strings into rows."""
    return zip(*columns, strict=True)
