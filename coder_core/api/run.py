"""One run, opened: what it has stored, and answers to new texts and pictures by its model or its towers.

Torch is loaded when the first new query is encoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL.Image import Image

from coder_core.api.heat_maps.regions import FeatureFiles, read_feature_files
from coder_core.api.listing import RunSummary, summarise
from coder_core.api.retrieval.look_alike import PICTURES_READ, LookAlike, TinyPictures, read_tiny_pictures
from coder_core.api.sides import Array, Modality
from coder_core.api.stored_run import StoredRun, check_number
from coder_core.console.faults import Fault, InputError
from coder_core.demo.making import features_of, makes_features
from coder_core.runs.analysis.tables import (
    DOCUMENT_REGIONS,
    DOCUMENT_TOWERS,
    IMAGE_PART_LENGTHS,
    IMAGE_PARTS,
    QUERIES,
)

LONGEST_QUERY = 500  # characters of a free text


class Run(StoredRun):
    """A run folder, read lazily; large arrays of an analysis are mapped from a copy.

    Raises:
        InputError: from any method, when the part of the run it needs is missing or damaged.
    """

    def __init__(self, summary: RunSummary) -> None:
        super().__init__(summary)
        self._tiny_pictures: dict[tuple[str, int], TinyPictures] = {}
        self._region_towers: dict[str, Any] = {}
        self._feature_files: dict[str, FeatureFiles] = {}

    def search(
        self, query: str | int | Array, *, split: str, modality: Modality = "text", top: int = 10
    ) -> pd.DataFrame:
        """The best candidates of the other modality, best first.

        Args:
            query: a free text or a saved query (both search images), the number of a sample of `modality`, or one row
                of `encode_text` or `encode_picture`, an embedding of `modality`.

        Returns:
            place (from 1), candidate, score, match (False for what is not of the split: nothing is known about it).

        Raises:
            InputError: a number that is not in the split; a text of more than 500 characters, or of which the run knows
                no word; a text for a run that cannot embed it.
        """
        if isinstance(query, str) and query in (saved := self.saved_queries(split)):
            query = np.asarray(self.analysis(split).array(QUERIES)[saved.index(query)])
            modality = "text"
        if isinstance(query, str) and len(query) > LONGEST_QUERY:
            fact = f"has {len(query):,} characters"
            raise InputError(
                Fault("the text query", fact, f"at most {LONGEST_QUERY}", "ask with a shorter sentence")
            )
        if isinstance(query, str) and self.scores(split) is not None:
            scores = self._score_text(query, split)
            match = np.zeros(len(scores), dtype=bool)
        elif not isinstance(query, int):
            v, w = self.scoring(split)
            embedding = self._embed_query(query) if isinstance(query, str) else query
            scores = (v if modality == "text" or isinstance(query, str) else w) @ embedding
            match = np.zeros(len(scores), dtype=bool)
        else:
            s = self.sides(split, modality)
            check_number(query, len(s.anchors), modality)
            scores, match = s.row(query), s.candidate_images == s.anchor_images[query]
        top = min(top, len(scores))
        best = np.argpartition(-scores, top - 1)[:top]
        best = best[np.argsort(-scores[best], kind="stable")]
        frame = pd.DataFrame({"place": np.arange(1, top + 1), "candidate": best})
        return frame.assign(score=scores[best], match=match[best])

    def encode_text(self, captions: list[str]) -> Array:
        """Free texts as float32 unit rows like those of `scoring`; loads the run's best checkpoint, or towers, once."""
        if self.noted_towers is not None:
            return np.asarray(self.towers.encode_texts(captions)[0])
        return np.asarray(self.model.encode_text(captions, scoring=True), dtype=np.float32)

    def saved_queries(self, split: str) -> list[str]:
        """Texts that are no captions and whose embeddings were imported beside; [] for most runs."""
        return self.analysis(split).queries

    def unknown_words(self, text: str) -> list[str]:
        """The words of a free text that the run's model cannot tell apart, because training never saw them; pretrained
        towers split words into pieces and know them all."""
        if self.noted_towers is not None:
            return []
        unknown: list[str] = self.model.known_and_unknown(text)[1]
        return unknown

    def _embed_query(self, text: str) -> Array:
        self._check_words(text)
        return np.asarray(self.encode_text([text])[0])

    def _check_words(self, text: str) -> None:
        if self.noted_towers is not None:
            return
        known, unknown = self.model.known_and_unknown(text)
        if not known:
            shown = f" ({', '.join(unknown[:10])})" if unknown else ""
            fix = "ask with words of the captions it was trained with"
            raise InputError(
                Fault("the text query", f"has no word that run {self.name} knows{shown}", fix=fix)
            )

    def _score_text(self, text: str, split: str) -> Array:
        """(n,) scores of a free text with every image, of a model that scores pair by pair."""
        analysis = self.analysis(split)
        if IMAGE_PARTS not in analysis.arrays:
            fact = f"has too many regions in split {split!r} to keep beside its scores, so a new text cannot be scored"
            raise InputError(Fault(f"run {self.name}", fact, fix="ask with a sample of the split instead"))
        self._check_words(text)
        parts, lengths = analysis.array(IMAGE_PARTS), analysis.array(IMAGE_PART_LENGTHS)
        return np.asarray(self.model.score_texts([text], parts, lengths)[0])

    def reads_pictures(self, split: str) -> bool:
        """True if a new picture can be encoded: by the run's towers, or because its features are made from pixels, by a
        picture tower or as those of the demo data are, and scores follow from one embedding of it."""
        if self.noted_towers is not None:
            return True
        if self.scores(split) is not None:
            return False
        if self.has_image_tower or DOCUMENT_REGIONS in self.analysis(split).manifest["documents"]:
            return True
        return not self.summary.imported and makes_features(self.analysis(split).picture_folder)

    def encode_picture(self, picture: Image, *, split: str) -> Array:
        """A new picture as a float32 unit row like those of `scoring`.

        Raises:
            InputError: this run's features come from files; see `reads_pictures`.
        """
        if self.noted_towers is not None:
            return np.asarray(self.towers.encode_pictures([self.towers.prepare(picture)])[0])
        if self.has_image_tower:
            return np.asarray(self.model.encode_picture(picture))
        if DOCUMENT_REGIONS in self.analysis(split).manifest["documents"]:
            regions = self.region_tower(split).encode_picture(picture)
        else:
            regions = features_of(self.analysis(split).picture_folder, picture)
        return np.asarray(self.model.encode_images(regions[None], scoring=True)[0], dtype=np.float32)

    def look_alike(self, picture: Image, *, split: str, at_most: int = PICTURES_READ) -> LookAlike:
        """The image of the split whose picture looks most like this one, among `at_most` drawn at random.

        Raises:
            InputError: none of the split's pictures can be read.
        """
        if (split, at_most) not in self._tiny_pictures:
            self._tiny_pictures[split, at_most] = read_tiny_pictures(self, split, at_most)
        return self._tiny_pictures[split, at_most].nearest(picture)

    @property
    def has_image_tower(self) -> bool:
        """True if the run's model reads pictures itself: it was trained on an image tower."""
        return bool(self.summary.config.get("towers", {}).get("image_tower"))

    @cached_property
    def noted_towers(self) -> Mapping[str, Any] | None:
        """Description of the pretrained towers that embedded the run; None for any other run."""
        analysis = self.analysis(self.splits[0]) if self.summary.imported and self.splits else None
        if analysis is None or DOCUMENT_TOWERS not in analysis.manifest["documents"]:
            return None
        document: Mapping[str, Any] = analysis.document(DOCUMENT_TOWERS)
        return document

    @cached_property
    def towers(self) -> Any:
        """The pretrained towers that embedded the run, loaded once."""
        from coder_core.runs.towers import load_towers  # torch is needed from here on, and only here

        return load_towers(self.noted_towers or {}, self.name)

    def feature_files(self, split: str) -> FeatureFiles:
        """The region features of a split where the run says its data lies, opened once; errors of
        `read_feature_files`."""
        if split not in self._feature_files:
            self._feature_files[split] = read_feature_files(self, split)
        return self._feature_files[split]

    def region_tower(self, split: str) -> Any:
        """The picture tower that made the features of a split, loaded once."""
        from coder_core.runs.towers import load_region_tower  # as above

        if split not in self._region_towers:
            about = self.analysis(split).document(DOCUMENT_REGIONS)
            self._region_towers[split] = load_region_tower(about, self.name)
        return self._region_towers[split]

    @cached_property
    def model(self) -> Any:
        """The run's best model, loaded once.

        Raises:
            InputError: it has none.
        """
        if self.summary.imported:
            fact = "holds imported embeddings and no model, so it cannot embed new words"
            fix = "ask with a sample of the split or a saved query (`embed import --queries`) instead"
            raise InputError(Fault(f"run {self.name}", fact, fix=fix))
        from coder_core.runs.load import load_model  # torch is needed from here on, and only here

        return load_model(self.path)


def open_run(path: str | Path) -> Run:
    """Open a run folder.

    Raises:
        InputError: the folder is missing or damaged; the file is named.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(
            Fault(str(folder), "there is no such run", fix="`list_runs(folder)` names those there are")
        )
    summary = summarise(folder)
    if summary.fault:
        raise InputError(Fault(f"run {summary.name}", summary.fault))
    return Run(summary)
