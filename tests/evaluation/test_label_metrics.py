"""MRR and nDCG@10 with the labels as grades (`coder_core.evaluation.metrics`), by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from coder_core.evaluation.metrics import label_metrics

# Image 0 lists its two captions first and third, image 1 its only one third; image 2 has no caption.
RANKS = SimpleNamespace(
    image_ranks=np.array([0, 2, -1]),
    text_ranks=np.array([0, 1, 3]),
    image_hits=np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]]),
)
OWNER = np.array([0, 0, 1])


def test_images_without_captions_count_in_no_mean_and_first_ranks_do():
    actual = label_metrics(RANKS, OWNER)
    of_images = (1.5 / (1 + 1 / np.log2(3)), 0.5)
    of_captions = (1, 1 / np.log2(3), 1 / np.log2(5))
    expected = {"i2t_mrr": (1, 1 / 3), "t2i_mrr": (1, 1 / 2, 1 / 4)}
    expected |= {"i2t_ndcg10": of_images, "t2i_ndcg10": of_captions}
    assert actual == pytest.approx({name: 100 * np.mean(values) for name, values in expected.items()})


def test_metrics_of_some_captions_are_those_of_their_images():
    actual = label_metrics(RANKS, OWNER, np.array([2]))
    assert (actual["i2t_mrr"], actual["t2i_mrr"]) == pytest.approx((100 / 3, 25))
