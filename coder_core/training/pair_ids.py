"""Ids of the train pairs: pairs with an equal id are not negatives of each other (one image, one group, equal texts)."""

import numpy as np

from coder_core.config.schema import Config
from coder_core.console.faults import Fault
from coder_core.data.split import Split
from coder_core.evaluation.relevance import text_numbers
from coder_core.runs.analysis.widened import equal_text_count


def pair_ids(
    train: Split, as_read: Split, image_groups: np.ndarray | None, config: Config
) -> tuple[np.ndarray | None, list[Fault]]:
    """Return the ids of the m train pairs, and notes on the choice.

    The ids are (m,) int64, or (m, 2) if equal texts match: the group of the image, and the number of the text; None if
    pairs are negatives of each other unless they have the same image.

    Args:
        train: the split after reviews.
        as_read: the split before them. Its equal texts are counted: pairs that reviews add repeat a text by intention.
        image_groups: (n,) int64, equal for images that show the same thing; None without groups.
    """
    by_image = np.arange(train.n_images) if image_groups is None else image_groups
    groups = by_image[train.image_of_text]
    shared = equal_text_count(as_read.captions, as_read.image_of_text)
    if shared == 0:
        return (None if image_groups is None else groups), []

    choice = config.data.equal_texts
    share = f"{shared:,} of {as_read.n_texts:,} captions have a text that another image has too"
    if config.objective.same_image_negatives or choice == "label":
        fact = f"{share}; these pairs are negatives of each other"
        note = Fault("--equal-texts label", fact, fix="--equal-texts match leaves them out", severity="note")
        return (None if image_groups is None else groups), [note]
    fact = f"{share}; these pairs are not negatives of each other"
    fix = "--equal-texts label makes them negatives"
    note = Fault("--equal-texts match", fact, fix=fix, severity="note")
    return np.stack([groups, text_numbers(train.captions)], 1), [note]
