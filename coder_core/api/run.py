"""One run, opened: its stored contents, and answers to new texts and pictures by its model or its towers.

Torch is loaded when the first new query is encoded.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL.Image import Image

from coder_core.api.listing import RunSummary, summarise
from coder_core.api.sides import Array, Direction, Modality
from coder_core.api.stored_run import StoredRun, check_number
from coder_core.console.faults import InputError
from coder_core.demo.making import features_of, makes_features
from coder_core.runs.analysis import tables

LONGEST_QUERY = 500  # characters of a free text


class Run(StoredRun):
    """A run folder, read lazily; large arrays of an analysis are mapped from a copy. Any method raises InputError if
    the part of the run it needs is missing or damaged."""

    def __init__(self, summary: RunSummary) -> None:
        super().__init__(summary)
        self._region_towers: dict[str, Any] = {}

    def search(
        self, query: str | int | np.integer | Array, *, split: str, modality: Modality = "text", top: int = 10
    ) -> pd.DataFrame:
        """Find the best candidates of the other modality, best first; among equal scores matches come last, as in `ranks`.
        Return place (from 1), candidate, score, match (False for a query outside the split, whose matches are unknown).
        InputError: a number that is not in the split; a text of more than 500 characters, or without a word that the
        run knows; a text for a run that cannot embed it.

        Args:
            query: a free text or a saved query (both search images), the number of a sample of `modality`, or one row
                of `encode_text` or `encode_picture`, an embedding of `modality`.
        """
        if isinstance(query, str):
            scores = self._score_text(query, split)
            match = np.zeros(len(scores), dtype=bool)
        elif isinstance(query, int | np.integer) and self.lists(split) is not None:
            return self._listed(int(query), split, modality, top)
        elif isinstance(query, int | np.integer):
            s = self.sides(split, modality)
            check_number(int(query), len(s.anchors), modality)
            scores = s.row(int(query))
            direction: Direction = "i2t" if modality == "image" else "t2i"
            match = self.matches(split, direction, np.array(query), np.arange(len(scores)))
        else:
            v, w = self.scoring(split)
            scores = (v if modality == "text" else w) @ query
            match = np.zeros(len(scores), dtype=bool)

        top = min(top, len(scores))
        best = np.flatnonzero(scores >= np.partition(scores, -top)[-top])
        best = best[np.lexsort((match[best], -scores[best]))[:top]]
        frame = pd.DataFrame({"place": np.arange(1, top + 1), "candidate": best})
        return frame.assign(score=scores[best], match=match[best])

    def _listed(self, query: int, split: str, modality: Modality, top: int) -> pd.DataFrame:
        """Return the first candidates of a query in another system's list, as `search` does."""
        check_number(query, self.count(split, modality), modality)
        direction: Direction = "i2t" if modality == "image" else "t2i"
        lists = (self.lists(split) or {})[direction]
        candidates, scores = (column[:top] for column in lists.of_query(query))
        match = self.matches(split, direction, np.array(query), candidates)
        frame = pd.DataFrame({"place": np.arange(1, len(candidates) + 1), "candidate": candidates})
        return frame.assign(score=scores, match=match)

    def _score_text(self, text: str, split: str) -> Array:
        """Return (n,) scores of a free text or a saved query with every image."""
        if text in (saved := self.saved_queries(split)):
            embedding = np.asarray(self.analysis(split).array(tables.QUERIES)[saved.index(text)])
            return np.asarray(self.scoring(split)[0] @ embedding)
        if len(text) > LONGEST_QUERY:
            fact = f"has {len(text):,} characters"
            expected = f"at most {LONGEST_QUERY}"
            raise InputError.at("the text query", fact, expected, "enter a shorter sentence")
        if self.scores(split) is not None:
            parts, lengths = self.image_parts(split)
            self._check_words(text)
            return np.asarray(self.model.score_texts([text], parts, lengths)[0])
        v = self.scoring(split)[0]
        self._check_words(text)
        return np.asarray(v @ np.asarray(self.encode_text([text])[0]))

    def encode_text(self, captions: list[str]) -> Array:
        """Encode free texts as float32 unit rows like those of `scoring`; load the best checkpoint or towers once."""
        if self.noted_towers is not None:
            return np.asarray(self.towers.encode_texts(captions)[0])
        return np.asarray(self.model.encode_text(captions, scoring=True), dtype=np.float32)

    def saved_queries(self, split: str) -> list[str]:
        """Return the texts besides the captions whose embeddings were imported too; [] for most runs."""
        return self.analysis(split).queries

    def unknown_words(self, text: str) -> list[str]:
        """List the words of a free text that are not in the vocabulary of the run's model; [] for pretrained towers,
        which split words into pieces."""
        return [] if self.noted_towers is not None else list(self.model.reader.known_and_unknown(text)[1])

    def _check_words(self, text: str) -> None:
        if self.noted_towers is not None:
            return
        known, unknown = self.model.reader.known_and_unknown(text)
        if not known:
            names = f" ({', '.join(unknown[:10])})" if unknown else ""
            fact = f"has no words in the vocabulary of run {self.name}{names}"
            raise InputError.at("the text query", fact, fix="use words from its training captions")

    def image_parts(self, split: str) -> tuple[Array, Array]:
        """Return (n, L, D) regions of every image and (n,) their numbers, which a run that scores pair by pair stores.
        InputError: there were too many to store."""
        analysis = self.analysis(split)
        if tables.IMAGE_PARTS not in analysis.arrays:
            fact = f"has too many regions in split {split!r} to store with its scores, so a new text cannot be scored"
            raise InputError.at(f"run {self.name}", fact, fix="use a sample of the split as the query")
        return analysis.array(tables.IMAGE_PARTS), analysis.array(tables.IMAGE_PART_LENGTHS)

    def reads_pictures(self, split: str) -> bool:
        """True if a new picture can be encoded as one embedding: by the run's towers, or by its model from features
        that a picture tower, or the code of the demo data, computes from pixels."""
        if self.noted_towers is not None:
            return True
        if self.scores(split) is not None:
            return False
        if self.has_image_tower or self.has_region_tower(split):
            return True
        return not self.summary.imported and makes_features(self.analysis(split).picture_folder)

    def encode_picture(self, picture: Image, *, split: str) -> Array:
        """Encode a new picture as a float32 unit row like those of `scoring`; InputError as for `encode_pictures`."""
        return np.asarray(self.encode_pictures([picture], split=split)[0])

    def encode_pictures(self, pictures: Sequence[Image], *, split: str) -> Array:
        """Encode k new pictures at once as float32 unit rows like those of `scoring`. InputError: this run's features come
        from files; see `reads_pictures`."""
        if self.noted_towers is not None:
            prepared = [self.towers.prepare(picture) for picture in pictures]
            return np.asarray(self.towers.encode_pictures(prepared))
        if self.has_image_tower:
            return np.asarray(self.model.encode_pictures(pictures))
        if self.has_region_tower(split):
            regions = [self.region_tower(split).encode_picture(picture) for picture in pictures]
        else:
            folder = self.analysis(split).picture_folder
            regions = [features_of(folder, picture) for picture in pictures]
        return np.asarray(self.model.encode_images(np.stack(regions), scoring=True), dtype=np.float32)

    @property
    def has_image_tower(self) -> bool:
        """True if the run's model encodes pictures itself, because it was trained on an image tower."""
        return bool(self.config.get("towers", {}).get("image_tower"))

    def has_region_tower(self, split: str) -> bool:
        """True if a picture tower, which the analysis describes, made the features of a split."""
        return tables.DOCUMENT_REGIONS in self.analysis(split).manifest["documents"]

    @cached_property
    def noted_towers(self) -> Mapping[str, Any] | None:
        """Description of the pretrained towers that embedded the run; None for any other run."""
        analysis = self.analysis(self.splits[0]) if self.summary.imported and self.splits else None
        if analysis is None or tables.DOCUMENT_TOWERS not in analysis.manifest["documents"]:
            return None
        return analysis.document(tables.DOCUMENT_TOWERS)

    @cached_property
    def towers(self) -> Any:
        """The pretrained towers that embedded the run, loaded once."""
        from coder_core.runs.towers import load_towers  # imports torch

        return load_towers(self.noted_towers or {}, self.name)

    def region_tower(self, split: str) -> Any:
        """Load, once, the picture tower that made the features of a split."""
        from coder_core.runs.towers import load_region_tower  # as above

        if split not in self._region_towers:
            description = self.analysis(split).document(tables.DOCUMENT_REGIONS)
            self._region_towers[split] = load_region_tower(description, self.name)
        return self._region_towers[split]

    @cached_property
    def model(self) -> Any:
        """The run's best model, loaded once. InputError: it has none."""
        if self.summary.imported:
            fact = "has imported embeddings and no model, so it cannot embed new text"
            fix = "use a sample of the split or a saved query (`embed import --queries`) as the query instead"
            raise InputError.at(f"run {self.name}", fact, fix=fix)
        from coder_core.runs.load import load_model  # as above

        return load_model(self.path)


def open_run(path: str | Path) -> Run:
    """Open a run folder. InputError: the folder is missing or damaged; the message names the file."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError.at(folder, "does not exist", fix="give a run folder, such as checkpoints/NAME")
    summary = summarise(folder)
    if summary.fault:
        raise InputError.at(f"run {summary.name}", summary.fault)
    return Run(summary)
