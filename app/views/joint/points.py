"""The points of a map, and what is known about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast, get_args

import numpy as np
import pandas as pd

from app import questions
from app.ask import Modality, Run, RunSummary, ask, joint_space, opened_run
from app.choice import Choice
from app.components import own_columns, words
from app.components.samples import OWN

AREA = "area"  # parameters of the address
FOCUS = "focus"
FIND = "find"
SHARED = ("modality", "number", "image", "text", "words", "gain")  # the same in all runs; a gain compares two
QUANTITIES: tuple[joint_space.Quantity, ...] = get_args(joint_space.Quantity)
COLUMNS = ("modality", "rank", "gain", "diversity", "similarity", "hubness", "words", "cluster")
Planes = Sequence[np.ndarray]


@dataclass(frozen=True)
class Shown:
    """The points of a map: all images or captions of a split, or both, images first. `planes`: (N, 2) of every run."""

    choice: Choice
    planes: Planes
    modalities: joint_space.Modalities

    @cached_property
    def of_split(self) -> tuple[int, int]:
        """Numbers of images and captions of the split."""
        return self.choice.ask(Run.count, "image"), self.choice.ask(Run.count, "text")

    @property
    def first(self) -> int:
        """Number of the first point among all points of the split."""
        return self.of_split[0] if self.modalities == "captions" else 0

    @property
    def images(self) -> int:
        return 0 if self.modalities == "captions" else self.of_split[0]

    @property
    def captions(self) -> int:
        return 0 if self.modalities == "images" else self.of_split[1]

    def __len__(self) -> int:
        return self.images + self.captions

    @property
    def both(self) -> bool:
        return bool(self.images and self.captions)

    def numbers(self, points: np.ndarray) -> np.ndarray:
        """Return the numbers of points in their modality."""
        return np.where(points < self.images, points, points - self.images)

    def owners(self, points: np.ndarray) -> np.ndarray:
        """Return the images of points: of a caption, the one it belongs to."""
        owner = self.choice.ask(Run.image_of_text)
        owners = self.numbers(points)
        caption = points >= self.images
        owners[caption] = owner[owners[caption]]
        return owners

    def texts(self, points: np.ndarray) -> list[str]:
        """Return the texts of points: of an image, its first caption."""
        captions = self.choice.ask(Run.captions)
        rows = self.numbers(points)
        image = points < self.images
        rows[image] = self.choice.ask(Run.first_captions)[rows[image]]
        return [captions[row] if row >= 0 else "" for row in rows.tolist()]

    def point(self, of_split: int | None) -> int | None:
        """Return the point with this number among all points of the split; None if it is not on the map."""
        if of_split is None or not 0 <= of_split - self.first < len(self):
            return None
        return of_split - self.first

    def counted(self, points: np.ndarray) -> list[str]:
        """Describe how many images and captions points are."""
        images = int((points < self.images).sum())
        parts = ((images, self.images, "image"), (len(points) - images, self.captions, "caption"))
        return [words.count(number, name) for number, of_map, name in parts if of_map]

    @cached_property
    def columns(self) -> list[str]:
        """List the columns that colour points: ours, and the user's."""
        names: list[str] = [*QUANTITIES]
        if len(self.choice.runs) == 2:
            names.append("gain")
        if self.both:
            names.append("modality")
        if all(self.clusters(run) is not None for run in self.choice.runs):
            names.append("cluster")
        return [*(name for name in COLUMNS if name in names), *self.own]

    @cached_property
    def own(self) -> dict[str, str]:
        """Return the names of the user's columns and their titles: "column TITLE" beside a column of that name."""
        modality: Modality = "text" if self.captions else "image"
        titles = own_columns.titles(self.choice.last, self.choice.split, modality)
        taken = ("modality", "number", "image", "text", *COLUMNS)
        return {f"{OWN}{title}" if title in taken else title: title for title in titles}

    def clusters(self, run: RunSummary) -> np.ndarray | None:
        """Return the cluster of every point; None for a run without clusters."""
        labels = questions.cluster_labels(opened_run(run), self.choice.split)
        return None if labels is None else self._on_map(labels)

    def values(self, run: RunSummary, column: str) -> pd.Series:
        """Return the values of every point in a column."""
        if column in QUANTITIES:
            name = cast(joint_space.Quantity, column)
            return pd.Series(self._on_map(ask(joint_space.quantity, run, self.choice.split, name)))
        if column == "gain":
            first, last = (self.values(of, "rank") for of in self.choice.runs)
            return first - last
        if column == "cluster":
            return pd.Series(self.clusters(run))
        if column == "modality":
            return pd.Series(
                np.repeat(np.array(["image", "caption"], dtype=object), [self.images, self.captions])
            )
        images = np.arange(self.images)
        captions = np.arange(self.captions)
        return own_columns.of_points(self.choice.last, self.choice.split, self.own[column], images, captions)

    def _on_map(self, values: np.ndarray) -> np.ndarray:
        return values[self.first : self.first + len(self)]
