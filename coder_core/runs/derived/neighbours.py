"""Semantic neighbours of the train captions, searched once per data set, text space and N, then cached.

The folder's name is a fingerprint of these three, so runs with the same data, space and N share the search. An
interrupted search leaves nothing behind.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress, named, silent
from coder_core.data.split import captions_checksum
from coder_core.files import sealed
from coder_core.files.atomic import cache_folder
from coder_core.geometry.captions import EXACT_BELOW, caption_neighbours
from coder_core.geometry.text_space import ARRAYS, NAMES, TextSpace, TfidfSpace, fit_tfidf
from coder_core.model.sentence_space import sentence_space
from coder_core.model.towers.folders import model_fingerprint

VERSION = 2  # of the method that makes spaces and neighbours
NEIGHBOURS = "neighbours"
NEIGHBOURS_KEY = "neighbours_fingerprint"  # in the table [about] of a run
MODEL_KEY = "text_space_fingerprint"


@dataclass(frozen=True)
class Neighbourhood:
    """The neighbours of a split's captions and the space they were searched in."""

    neighbours: np.ndarray  # (m, N) int32, −1 if a caption has fewer
    space: TextSpace  # fitted on the train captions
    faults: list[Fault]  # warnings

    def about(self, config: Config) -> dict[str, str]:
        """Return the fingerprints stored with a run: sha256 (hex) of the neighbours, and of a model's folder."""
        digest = hashlib.sha256(np.ascontiguousarray(self.neighbours).tobytes()).hexdigest()
        fingerprints = {NEIGHBOURS_KEY: digest}
        if config.weighting.text_space:
            fingerprints[MODEL_KEY] = model_fingerprint(Path(config.weighting.text_space))
        return fingerprints


def train_neighbourhood(
    config: Config,
    captions: Sequence[str],
    image_of_text: np.ndarray,
    *,
    space: TextSpace | None = None,
    progress: Progress = silent,
) -> Neighbourhood:
    """Read the neighbours of the m train captions from the cache, or search them; `space`: of a continued run."""
    count = config.weighting.neighbours
    folder = cache_folder() / "neighbours" / _key(config, captions, image_of_text)
    cached = _read(folder, config)
    if cached is None:
        space = space or _make_space(config, captions, progress)
        cached = split_neighbours(space, captions, image_of_text, count, progress=progress), space
        files = {f"{NEIGHBOURS}.npy": cached[0], **space.to_files()}
        sealed.write_sealed(folder, files, about={"text_space": space.name}, replace=True)
    return Neighbourhood(cached[0], space or cached[1], _shortfall(cached[0], count))


def split_neighbours(
    space: TextSpace,
    captions: Sequence[str],
    image_of_text: np.ndarray,
    count: int,
    *,
    progress: Progress = silent,
) -> np.ndarray:
    """Search the (m, N) int32 neighbours among the captions of one split."""
    vectors = space.encode(captions, named(progress, "placing captions in the text space"))
    wrong = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(wrong):
        reason = f"gives an embedding with NaN or Inf for caption {wrong[0] + 1} of {len(captions):,}"
        raise InputError.at("--text-space", reason, "finite vectors", "use another model")
    watch = named(progress, "finding semantic neighbours")
    return caption_neighbours(vectors, image_of_text, count, progress=watch)


def same_neighbours(neighbourhood: Neighbourhood, config: Config, about: Mapping[str, Any]) -> list[Fault]:
    """Return a warning if a continued run's neighbours differ from those in `about`; InputError for another model."""
    now = neighbourhood.about(config)
    if now.get(MODEL_KEY) != about.get(MODEL_KEY):
        where = f"--text-space {config.weighting.text_space}"
        fix = "give the folder the run was started with"
        raise InputError.at(where, "is not the model that the run began with", fix=fix)
    if now[NEIGHBOURS_KEY] == about.get(NEIGHBOURS_KEY):
        return []
    text = "were searched again and differ from those that the run began with"
    fix = "the run continues, but its numbers will differ in the last digits from an uninterrupted run's"
    return [Fault("semantic neighbours", text, fix=fix, severity="warning")]


def run_text_space(folder: Path, config: Config) -> TextSpace:
    """Open the space in which a run's neighbours were searched: its own files, or the model in its configuration."""
    if config.weighting.text_space:
        return sentence_space(config.weighting.text_space)
    files = sealed.SealedFolder(folder)
    return TfidfSpace.from_files(files.read(NAMES), files.read(ARRAYS), str(files.path))


def _make_space(config: Config, captions: Sequence[str], progress: Progress) -> TextSpace:
    if config.weighting.text_space:
        return sentence_space(config.weighting.text_space)
    progress(0, 1, "fitting the text space")
    space = fit_tfidf(captions, config.weighting.text_space_size)
    progress(1, 1, "fitting the text space")
    return space


def _key(config: Config, captions: Sequence[str], image_of_text: np.ndarray) -> str:
    weighting = config.weighting
    if weighting.text_space:
        made_by = model_fingerprint(sentence_space(weighting.text_space).folder)
    else:
        made_by = f"tf-idf {weighting.text_space_size} scikit-learn {version('scikit-learn')}"
    parts = [VERSION, made_by, weighting.neighbours, len(captions) < EXACT_BELOW]
    return captions_checksum(captions, image_of_text, json.dumps(parts).encode())[:32]


def _read(folder: Path, config: Config) -> tuple[np.ndarray, TextSpace] | None:
    """Read the cache; None if it is empty or damaged."""
    try:
        files = sealed.SealedFolder(folder)
        files.check()
        return np.array(files.array(NEIGHBOURS)), run_text_space(folder, config)
    except (InputError, KeyError):
        return None  # searched again and replaced


def _shortfall(neighbours: np.ndarray, count: int) -> list[Fault]:
    """Return a warning if captions have fewer neighbours than requested."""
    counts = (neighbours >= 0).sum(1)
    short = int((counts < count).sum())
    if not short:
        return []
    text = f"is {count}, but {short:,} of {len(counts):,} captions have fewer neighbours in other images (fewest: {counts.min()})"
    fix = "they use the neighbours they have; captions without any get the average weight"
    return [Fault("--neighbours", text, fix=fix, severity="warning")]
