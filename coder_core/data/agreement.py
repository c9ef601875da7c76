"""What splits of one data set must have in common, and what they must not share."""

from __future__ import annotations

from collections.abc import Sequence

from coder_core.console.faults import Fault
from coder_core.data.dataset import Split
from coder_core.data.lines import shown


def compare_splits(splits: Sequence[Split]) -> list[Fault]:
    """Faults between splits; the first one, train, is the measure.

    Another feature size is an error, because one model reads them all. The same picture in train and in another split
    is a warning: what is measured there was seen in training.
    """
    if not splits:
        return []
    train, *others = splits
    faults = []
    for split in others:
        place = f"{split.name} and {train.name}"
        if split.feature_size != train.feature_size:
            found = f"{split.feature_size} and {train.feature_size} numbers a region"
            fix = "extract the features of all splits with the same program"
            faults.append(Fault(place, found, "the same feature size in every split", fix))
        if split.regions != train.regions:
            found = f"{split.regions} and {train.regions} regions an image; one model reads both"
            faults.append(Fault(place, found, severity="note"))
        shared = sorted(_names(split) & _names(train))
        if shared and train.name == "train" and split.name != "train":
            found = f"{len(shared):,} images are in both; the first: {', '.join(map(shown, shared[:10]))}"
            fix = "remove them from one of the two"
            faults.append(Fault(place, found, "different images", fix, severity="warning"))
    return faults


def _names(split: Split) -> set[str]:
    """The names of a split's images, unless they only count its rows."""
    names = split.image_names or []
    return set() if names == [str(row) for row in range(len(names))] else set(names)
