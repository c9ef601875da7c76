"""Heat maps: the weights of a picture's regions for each word of a text. Words are (T, D), regions (L, D), maps (T, L).

From top to bottom: the formulas; a run, a text and a picture -> a heat map; the regions of a run's images.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL.Image import Image

from coder_core.api.run import Run
from coder_core.api.sides import Array
from coder_core.console.faults import InputError
from coder_core.data.content.duplicates import content_words
from coder_core.data.dataset import read_split
from coder_core.data.features import FeatureRows, open_features
from coder_core.data.split import Split
from coder_core.data.words import tokenise
from coder_core.demo.features import region_boxes
from coder_core.demo.making import features_of, makes_features
from coder_core.files.sealed import SealedFolder
from coder_core.geometry.text_space import unit_rows
from coder_core.runs.analysis.tables import IMAGE_PARTS

Way = Literal["cosine", "masking", "attention", "tower"]
WHOLE_CAPTION = "every word"  # the one row of a tower's own attention, which does not depend on the text
WITH_PATCHES = ("clip", "siglip")  # types of models, see `coder_core.model.towers.regions.joint_patches`
NO_GRID = "These towers do not record which part of the picture each of their features describes."
PARTS_ONLY = "The run's data was moved or deleted, so it is unknown where the regions are in the picture."
NO_FILE = "There is no boxes file next to these features, so it is unknown where the regions are."
IMS = "_ims.npy"
BOXES = "_boxes.npy"


@dataclass(frozen=True)
class HeatMap:
    """Weights of a picture's regions for each word."""

    words: list[str]  # T words
    values: Array  # (T, L) float32; NaN for a region that is missing in the data
    # (L, 4) left, top, right, bottom of every region as shares of the picture's sides, or None
    boxes: Array | None = None
    unknown: str = ""  # why there are no boxes; "" if there are

    def strongest(self) -> Array:
        """Return (T,) the region with the largest weight for each word."""
        return np.asarray(np.nan_to_num(self.values, nan=-np.inf).argmax(1))

    def first_content_word(self) -> int:
        """Return the first word that is not an article, preposition, pronoun or auxiliary; 0 if there is none."""
        return next((row for row, word in enumerate(self.words) if content_words(word)), 0)


class Laid(NamedTuple):
    """Regions laid over a picture: cells between the edges of all boxes."""

    values: Array  # (rows, columns), the mean of the regions that cover a cell; NaN where none does
    x: Array  # (columns + 1,) edges as shares of the picture's width
    y: Array  # (rows + 1,) of its height


def cosines(words: Array, regions: Array) -> Array:
    """Return (T, L) s_lk = t_l · v_k / (‖t_l‖ ‖v_k‖), the cosine of word l and region k; NaN for a region of zeros,
    which is missing. Lee et al. 2018 (SCAN), section 3.1."""
    values = np.where(regions.any(1), unit_rows(words) @ unit_rows(regions).T, np.nan)
    return np.asarray(values, dtype=np.float32)


def interaction_attention(words: Array, regions: Array, sharpness: float) -> Array:
    """Return (T, L) α_lk = softmax_k(λ · [s_lk]₊ / ‖[s_·k]₊‖), the attention of word l to the regions; λ: `sharpness`.

    Diao et al. 2024 (Deep Boosting Learning), eq. 1, as `scoring.interaction` computes it: the norm is over the words
    of the caption. A word's weights sum to 1.
    """
    s = np.maximum(cosines(words, regions), 0)
    exponents = sharpness * s / np.maximum(np.linalg.norm(s, axis=0, keepdims=True), 1e-12)
    weights = np.exp(exponents - np.nanmax(exponents, axis=1, keepdims=True))
    return np.asarray(weights / np.nansum(weights, axis=1, keepdims=True), dtype=np.float32)


def lay_over(values: Array, boxes: Array) -> Laid:
    """Lay values of regions (L,), NaN to leave one out, over a picture by their boxes (L, 4); take the mean where
    several overlap."""
    x, y = (np.unique(np.round(boxes[:, sides], 5)) for sides in ((0, 2), (1, 3)))
    left, top, right, bottom = np.round(boxes, 5).T
    across = (left[:, None] <= x[:-1]) & (x[1:] <= right[:, None])  # (L, columns)
    down = (top[:, None] <= y[:-1]) & (y[1:] <= bottom[:, None])  # (L, rows)
    finite = np.isfinite(values)
    covers = down[finite].T.astype(np.float64), across[finite].astype(np.float64)
    count = covers[0] @ covers[1]
    total = (covers[0] * values[finite]) @ covers[1]
    return Laid(np.where(count > 0, total / np.maximum(count, 1), np.nan), x, y)


def heat_map_ways(run: Run, split: str) -> tuple[Way, ...]:
    """List the kinds of heat maps that a run can show, best first, without loading a model; () if it can show none.

    "cosine": of each word with each region; "masking": what words and cells of the picture do to the score, of
    `masked_maps.mask_map`; "attention": of the interaction scorer; "tower": a pretrained tower's own attention to the
    patches of a picture.
    """
    if run.noted_towers is not None:
        return ("cosine", "masking", "tower") if "model" in run.noted_towers else ("cosine", "masking")
    if run.summary.imported or not run.summary.has_best:
        return ()
    masking: tuple[Way, ...] = ("masking",) if run.reads_pictures(split) else ()
    if _pools(run, "image"):
        return ("cosine", *masking, "tower") if _has_patches(run) else masking
    interaction = run.config.get("model", {}).get("scorer") == "interaction"
    return ("attention", "cosine") if interaction else ("cosine", *masking)


def load_encoders(run: Run, split: str, *, pictures: bool = False) -> None:
    """Load the models that encode new words for a run and, with `pictures`, new pictures, so that later calls are fast.
    InputError: the run has no model, or its towers are not on this machine."""
    _ = run.model if run.noted_towers is None else run.towers
    if pictures and run.has_region_tower(split):
        run.region_tower(split)


def heat_map(run: Run, split: str, text: str, image: int | Image, way: Way) -> HeatMap:
    """Compute the heat map of a text's words over an image of a split, or over a new upright RGB picture.

    Words and regions are compared in the joint space before they are pooled. Words of towers that pool by themselves
    are embedded alone, those of pretrained towers in the run's prompt: such towers were trained on whole texts, so
    their features before the pooling have no meaning in the joint space. InputError: the run cannot do this, or lacks
    its regions, its picture or its towers. `way`: one of `heat_map_ways`, except "masking".
    """
    if way not in heat_map_ways(run, split) or way == "masking":
        raise InputError.at(f"run {run.name}", _lacking(run, way))
    if run.noted_towers is not None:
        return _of_towers(run, split, text, image, way)

    regions = _encoded_regions(run, split, image)
    if way == "tower":
        assert regions.attention is not None
        return HeatMap([WHOLE_CAPTION], regions.attention[None], regions.boxes, regions.unknown)
    if _pools(run, "text"):
        words = text_words(text)
        features = run.model.encode_text(words)
    else:
        words, features = run.model.word_features(text)

    if way == "attention":
        sharpness = float(run.model.config.model.interaction_sharpness)
        values = interaction_attention(features, regions.features, sharpness)
    else:
        values = cosines(features, regions.features)

    named = [row for row, word in enumerate(words) if word]
    return HeatMap([words[row] for row in named], values[named], regions.boxes, regions.unknown)


def text_words(text: str) -> list[str]:
    """Split a text into words. InputError: it has none."""
    words = tokenise(text)
    if not words:
        raise InputError.at("the text", "contains no words", fix="enter at least one word")
    return words


def _pools(run: Run, side: Literal["image", "text"]) -> bool:
    """True if a tower of the run's model pools by itself."""
    return bool(run.config.get("model", {}).get(f"{side}_pooling") == "tower")


def _has_patches(run: Run) -> bool:
    """True if the image tower, which pools by itself, is a model whose patches have a place in its joint space."""
    towers = SealedFolder(run.path).document("towers")
    image = towers.get("image") if isinstance(towers, dict) else None
    return isinstance(image, dict) and str(image.get("type")) in WITH_PATCHES


def _lacking(run: Run, way: Way) -> str:
    if "cosine" in heat_map_ways(run, run.splits[0]):
        return f"has no map of the kind {way!r}"
    if _pools(run, "image"):
        return "pools inside its image tower, which does not return features of single regions"
    model = "imported embeddings" if run.summary.imported else "no saved model"
    return f"has {model}, and no words and regions to compare"


def _of_towers(run: Run, split: str, text: str, image: int | Image, way: Way) -> HeatMap:
    from coder_core.model.towers.regions import encode_patches  # imports torch

    picture = image if isinstance(image, Image) else run.open_picture(split, image)
    patches = encode_patches(run.towers, picture)
    unknown = "" if patches.boxes is not None else NO_GRID
    if way == "tower" and patches.attention is not None:
        return HeatMap([WHOLE_CAPTION], patches.attention[None], patches.boxes, unknown)
    words = text_words(text)
    values = cosines(run.towers.encode_texts(words)[0], patches.features)
    return HeatMap(words, values, patches.boxes, unknown)


@dataclass(frozen=True)
class Regions:
    """The regions of one picture; boxes and unknown as in `HeatMap`."""

    features: Array  # (R, F) float32
    boxes: Array | None = None
    unknown: str = ""
    attention: Array | None = None  # (R,) of a tower that pools by itself


def _encoded_regions(run: Run, split: str, image: int | Image) -> Regions:
    """Return regions in the joint space; those that are zero in the data are not encoded and stay zero."""
    if run.has_image_tower:
        picture = image if isinstance(image, Image) else run.open_picture(split, image)
        patches = run.model.patches(picture)
        unknown = "" if patches.boxes is not None else NO_GRID
        return Regions(patches.features, patches.boxes, unknown, patches.attention)

    if isinstance(image, Image):
        regions = _picture_regions(run, split, image)
    else:
        try:
            regions = _image_regions(run, split, image)
        except InputError:
            if IMAGE_PARTS not in run.analysis(split).arrays:
                raise
            parts, lengths = run.image_parts(split)
            return Regions(parts[image][: int(lengths[image])].astype(np.float32), None, PARTS_ONLY)

    exist = (regions.features != 0).any(1)
    encoded = run.model.region_features(regions.features[exist])
    features = np.zeros((len(exist), encoded.shape[1]), np.float32)
    features[exist] = encoded
    return Regions(features, regions.boxes, regions.unknown)


def _picture_regions(run: Run, split: str, picture: Image) -> Regions:
    """Return the regions of any upright RGB picture. InputError: the run's features come from files, not pixels."""
    if run.has_region_tower(split):
        tower = run.region_tower(split)
        return Regions(tower.encode_picture(picture), tower.boxes_of(picture))
    return Regions(features_of(run.analysis(split).picture_folder, picture), region_boxes())


def _image_regions(run: Run, split: str, image: int) -> Regions:
    """Return the regions of an image of a split: computed from the picture for the demo, else read from the run's data,
    else computed by the tower that the analysis names. InputError: none of these is possible."""
    if not makes_features(run.analysis(split).picture_folder):
        try:
            return _stored_regions(run, split, image)
        except InputError:
            if not run.has_region_tower(split) or not run.has_pictures(split):
                raise
    return _picture_regions(run, split, run.open_picture(split, image))


def _stored_regions(run: Run, split: str, image: int) -> Regions:
    """Return the regions of an image in the run's data; errors of `_feature_files`."""
    features_file, boxes_file, first, stride = _feature_files(run, split)
    features = features_file.of_images([image])[0].astype(np.float32)
    if isinstance(boxes_file, str):
        return Regions(features, None, boxes_file)
    boxes = boxes_file.of_images([first + image * stride])[0].astype(np.float32)
    are_shares = np.isfinite(boxes).all() and boxes.min() > -0.01 and boxes.max() < 1.01
    if not are_shares or not (boxes[:, :2] < boxes[:, 2:]).all():
        return Regions(features, None, "The boxes of this image are not shares of the picture's sides.")
    return Regions(features, boxes.clip(0, 1))


@lru_cache(maxsize=8)
def _feature_files(run: Run, split: str) -> tuple[FeatureRows, FeatureRows | str, int, int]:
    """Open the features that a run was evaluated on, once. Return them; the boxes beside them, or why there are none;
    and, for the boxes, the row of the first image and the number of rows from one image to the next. InputError: the
    data is not in the folder that the run names, or its captions have changed."""
    folder = str(run.config.get("data", {}).get("data", ""))
    where = f"the data of run {run.name}"
    if not folder or not Path(folder).exists():
        fix = "start the program in the folder where the run was trained, or restore the data"
        raise InputError.at(where, f"was moved or deleted: {folder!r:.200}", "its region features", fix)
    data = read_split(folder, split, check_values=False)
    if data.captions != list(run.captions(split)):
        fact = f"now has different captions in {split}"
        raise InputError.at(where, fact, "the captions of the run", "evaluate the run again")
    first, _, stride = data.rows or (0, 0, 1)
    boxes = _boxes_beside(data, first + (data.n_images - 1) * stride)
    return FeatureRows(data.features), boxes, first, stride


def _boxes_beside(data: Split, last: int) -> FeatureRows | str:
    """Return the boxes beside the features of a split, at least up to row `last`; or why there are none."""
    features = Path(data.source.get("features", ""))
    file = features.with_name(features.name.removesuffix(IMS) + BOXES)
    if not features.name.endswith(IMS) or not file.exists():
        return NO_FILE
    try:
        rows = FeatureRows(open_features(file, []).map())
    except InputError as error:
        return str(error)
    if rows.regions != data.regions or rows.size != 4 or last >= rows.images:
        return f"{file.name} has the shape {rows.features.shape}, which does not fit these features."
    return rows
