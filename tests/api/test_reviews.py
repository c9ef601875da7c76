"""Recall by reviewed labels over all queries and over those of a slice."""

import numpy as np
import pytest

from coder_core.api.reviews import ReviewedSplit, reviewed_recall
from coder_core.data.reviews import Reviews


@pytest.mark.parametrize("within", [None, np.array([3, 4, 5, 6, 60])])
def test_recall_counts_the_captions_of_a_slice_and_their_images(run, within):
    table = reviewed_recall(run, "dev", ReviewedSplit.of(run, "dev"), Reviews(), within)
    rows = table[table["queries"] == "all"].set_index("direction")
    ranks = run.ranks("dev")
    captions = np.arange(150) if within is None else within
    asked = {"i2t": np.unique(run.image_of_text("dev")[captions]), "t2i": captions}
    for direction, queries in asked.items():
        expected = 100 * np.mean(ranks[direction][queries] < 5)
        assert rows.loc[direction, "count"] == len(queries)
        assert rows.loc[direction, ["labels_5", "reviewed_5"]].tolist() == pytest.approx([expected] * 2)
