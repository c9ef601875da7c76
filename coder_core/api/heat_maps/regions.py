"""Region features of a run's images, and where the regions lie in the picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL.Image import Image

from coder_core.api.pictures import has_pictures, sample_picture
from coder_core.api.sides import Array
from coder_core.console.faults import Fault, InputError
from coder_core.data.dataset import read_split
from coder_core.data.features import FeatureRows, open_features
from coder_core.data.split import Split
from coder_core.demo.features import region_boxes
from coder_core.demo.making import features_of, makes_features
from coder_core.runs.analysis.tables import DOCUMENT_REGIONS

if TYPE_CHECKING:
    from coder_core.api.run import Run

IMS, BOXES = "_ims.npy", "_boxes.npy"
NO_FILE = "There is no file of boxes beside these features, so it is not known where the regions lie in the picture."


@dataclass(frozen=True)
class Regions:
    """The regions of one picture.

    Args:
        features: (R, F) float32. boxes: (R, 4) left, top, right, bottom as shares of the picture's sides, or None.
        unknown: why there are no boxes; "" where there are.
    """

    features: Array
    boxes: Array | None = None
    unknown: str = ""


@dataclass(frozen=True)
class FeatureFiles:
    """The features of a split, and the boxes that lie beside them."""

    split: Split

    @cached_property
    def _features(self) -> FeatureRows:
        return FeatureRows(self.split.features)

    @cached_property
    def _boxes(self) -> FeatureRows | str:
        """Rows of boxes, or why there are none."""
        features = Path(self.split.source.get("features", ""))
        file = features.with_name(features.name.removesuffix(IMS) + BOXES)
        if not features.name.endswith(IMS) or not file.exists():
            return NO_FILE
        try:
            rows = FeatureRows(open_features(file, []).map())
        except InputError as error:
            return str(error)
        last = self._row(self.split.n_images - 1)
        if rows.regions != self.split.regions or rows.size != 4 or last >= rows.images:
            return f"{file.name} has the shape {rows.features.shape}, which does not fit these features."
        return rows

    def _row(self, image: int) -> int:
        start, _, stride = self.split.rows or (0, 0, 1)
        return start + image * stride

    def of(self, image: int) -> Regions:
        """The regions of an image of the split."""
        features = self._features.of_images(image, image + 1)[0].astype(np.float32)
        if isinstance(self._boxes, str):
            return Regions(features, None, self._boxes)
        row = self._row(image)
        boxes = self._boxes.of_images(row, row + 1)[0].astype(np.float32)
        inside = np.isfinite(boxes).all() and boxes.min() > -0.01 and boxes.max() < 1.01
        if not inside or not (boxes[:, :2] < boxes[:, 2:]).all():
            return Regions(features, None, "The boxes of this image are no shares of the picture's sides.")
        return Regions(features, boxes.clip(0, 1))


def read_feature_files(run: Run, split: str) -> FeatureFiles:
    """The features that a run was evaluated on, where its data still lies where the run says.

    Raises:
        InputError: it does not, or it holds other captions now.
    """
    folder = str(run.config.get("data", {}).get("data", ""))
    place = f"the data of run {run.name}"
    if not folder or not Path(folder).exists():
        fix = "start the program in the same folder, or put the data back"
        raise InputError(Fault(place, f"is not at its place, {folder!r:.200}", "its region features", fix))
    data = read_split(folder, split, check_values=False)
    if data.captions != list(run.captions(split)):
        raise InputError(
            Fault(place, f"holds other captions in {split} now", "the captions of the run", "evaluate it")
        )
    return FeatureFiles(data)


def picture_regions(run: Run, split: str, picture: Image) -> Regions:
    """The regions of any upright RGB picture, for a run whose features are made from pixels.

    Raises:
        InputError: they come from files.
    """
    if DOCUMENT_REGIONS in run.analysis(split).manifest["documents"]:
        tower = run.region_tower(split)
        return Regions(tower.encode_picture(picture), tower.boxes_of(picture))
    return Regions(features_of(run.analysis(split).picture_folder, picture), region_boxes())


def image_regions(run: Run, split: str, image: int) -> Regions:
    """The regions of an image of a split: made from the picture for the demo, else read from the run's data, else made
    by the tower that the run notes.

    Raises:
        InputError: none of these is possible.
    """
    analysis = run.analysis(split)
    if makes_features(analysis.picture_folder):
        return picture_regions(run, split, sample_picture(run, split, image))
    try:
        return run.feature_files(split).of(image)
    except InputError:
        if DOCUMENT_REGIONS not in analysis.manifest["documents"] or not has_pictures(run, split):
            raise
    return picture_regions(run, split, sample_picture(run, split, image))
