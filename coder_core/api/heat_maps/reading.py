"""A run, a text and a picture -> which regions each word reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from PIL.Image import Image

from coder_core.api.heat_maps.maps import HeatMap, cosines, interaction_attention
from coder_core.api.heat_maps.regions import Regions, image_regions, picture_regions
from coder_core.api.pictures import sample_picture
from coder_core.api.sides import Array
from coder_core.console.faults import Fault, InputError
from coder_core.data.words import tokenise
from coder_core.runs.analysis.tables import DOCUMENT_REGIONS, IMAGE_PART_LENGTHS, IMAGE_PARTS

if TYPE_CHECKING:
    from coder_core.api.run import Run

Way = Literal["cosine", "attention", "tower"]
WAYS: tuple[Way, ...] = get_args(Way)
WHOLE_CAPTION = "every word"  # the one row of a tower's own attention, which does not depend on the text
NO_GRID = "These towers do not say where their features lie in the picture."
PARTS_ONLY = "The run's data is not at its place, so it is not known where the regions lie in the picture."


def heat_map_ways(run: Run, split: str) -> tuple[Way, ...]:
    """The ways in which a run can tell what words read, the best first, without loading a model; () where it cannot.

    "cosine": of each word with each region; "attention": of the interaction scorer; "tower": the attention with which
    a pretrained tower reads the patches of a picture.
    """
    if run.noted_towers is not None:
        return ("cosine", "tower") if "model" in run.noted_towers else ("cosine",)
    if run.summary.imported or not run.summary.has_best or _pools_inside(run):
        return ()
    return (
        ("attention", "cosine") if run.config.get("model", {}).get("scorer") == "interaction" else ("cosine",)
    )


def load_encoders(run: Run, split: str, *, pictures: bool = False) -> None:
    """Load what encodes a run's new words, and with `pictures` its new pictures, so that the next answers are fast.

    Raises:
        InputError: the run has no model, or its towers are not on this machine.
    """
    _ = run.model if run.noted_towers is None else run.towers
    if pictures and DOCUMENT_REGIONS in run.analysis(split).manifest["documents"]:
        run.region_tower(split)


def heat_map(run: Run, split: str, text: str, image: int | Image, way: Way) -> HeatMap:
    """Heat map of a text's words over an image of a split, or over a new upright RGB picture.

    Words and regions are compared in the joint space before they are pooled. Words of pretrained towers are embedded
    alone, in the run's prompt: such towers were trained on whole texts, so what lies before their pooling has no
    meaning in the joint space.

    Args:
        way: one of `heat_map_ways`.

    Raises:
        InputError: the run cannot do this, or lacks its regions, its picture or its towers.
    """
    if way not in heat_map_ways(run, split):
        raise InputError(Fault(f"run {run.name}", _lacking(run, way)))
    if run.noted_towers is not None:
        return _of_towers(run, split, text, image, way)
    words, features = run.model.word_features(text)
    regions = _regions(run, split, image)
    values = _compare(run, features, regions.features, way)
    named = [row for row, word in enumerate(words) if word]
    return HeatMap([words[row] for row in named], values[named], regions.boxes, regions.unknown)


def _pools_inside(run: Run) -> bool:
    model = run.config.get("model", {})
    return "tower" in (model.get("image_pooling"), model.get("text_pooling"))


def _lacking(run: Run, way: Way) -> str:
    if heat_map_ways(run, run.splits[0]):
        return f"has no map of the kind {way!r}"
    if _pools_inside(run):
        return "pools inside its towers, and keeps no features of single words and regions"
    model = "imported embeddings" if run.summary.imported else "no saved model"
    return f"holds {model}, and neither words nor regions to compare"


def _compare(run: Run, words: Array, regions: Array, way: Way) -> Array:
    if way == "attention":
        return interaction_attention(words, regions, float(run.model.config.model.interaction_sharpness))
    return cosines(words, regions)


def _regions(run: Run, split: str, image: int | Image) -> Regions:
    """Regions in the joint space; those that are zero in the data are left out of the model and stay zero."""
    if run.has_image_tower:
        picture = image if isinstance(image, Image) else sample_picture(run, split, image)
        features, boxes = run.model.patch_features(picture)
        return Regions(features, boxes, "" if boxes is not None else NO_GRID)
    if isinstance(image, Image):
        regions = picture_regions(run, split, image)
    else:
        try:
            regions = image_regions(run, split, image)
        except InputError:
            analysis = run.analysis(split)
            if IMAGE_PARTS not in analysis.arrays:
                raise
            parts = analysis.array(IMAGE_PARTS)[image][: int(analysis.array(IMAGE_PART_LENGTHS)[image])]
            return Regions(parts.astype(np.float32), None, PARTS_ONLY)
    exist = (regions.features != 0).any(1)
    encoded = run.model.region_features(regions.features[exist])
    features = np.zeros((len(exist), encoded.shape[1]), np.float32)
    features[exist] = encoded
    return Regions(features, regions.boxes, regions.unknown)


def _of_towers(run: Run, split: str, text: str, image: int | Image, way: Way) -> HeatMap:
    from coder_core.model.towers.patches import encode_patches  # torch is needed from here on, and only here

    picture = image if isinstance(image, Image) else sample_picture(run, split, image)
    patches = encode_patches(run.towers, picture)
    unknown = "" if patches.boxes is not None else NO_GRID
    if way == "tower" and patches.attention is not None:
        return HeatMap([WHOLE_CAPTION], patches.attention[None], patches.boxes, unknown)
    words = tokenise(text)
    if not words:
        raise InputError(Fault("the text", "has no word", fix="ask with words"))
    return HeatMap(
        words, cosines(run.towers.encode_texts(words)[0], patches.features), patches.boxes, unknown
    )
