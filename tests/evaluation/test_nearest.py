"""What an index proposes instead of all products: at least 99 of 100 of the nearest, with their own scores."""

import numpy as np
import pytest
import torch

from coder_core.api import data_quality
from coder_core.api.sampling import whole_split
from coder_core.evaluation import nearest
from coder_core.evaluation.best_candidates import best_lists, nearly_best_lists
from coder_core.evaluation.hub_correction import hub_biases
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, mixture
from tests.support.run_folders import unit

COUNT = 3_000
LEAST = 0.99


@pytest.fixture(scope="module")
def embeddings():
    """Images and captions in groups of a hundred, each modality in a part of the space of its own, as those of CLIP are."""
    random = np.random.default_rng(3)
    centres = random.standard_normal((COUNT // 100, 32))
    images = centres[random.integers(len(centres), size=COUNT)] + 0.7 * random.standard_normal((COUNT, 32))
    texts = images + 0.7 * random.standard_normal((COUNT, 32))
    return [unit(rows + 0.5 * random.standard_normal(32)).astype(np.float32) for rows in (images, texts)]


@pytest.fixture
def by_index(monkeypatch):
    """Return a function after which comparing all pairs is too much, and a query is compared with a quarter."""

    def use():
        monkeypatch.setattr(nearest, "COMPARED_PAIRS", COUNT)
        monkeypatch.setattr(nearest, "COMPARED", COUNT // 4)

    return use


def share_found(found, exact):
    return np.mean([len({*a} & {*b}) / len(b) for a, b in zip(found.tolist(), exact.tolist(), strict=True)])


@pytest.mark.parametrize("by_image", [True, False])
def test_lists_by_an_index_have_almost_all_of_the_best_with_their_exact_scores(
    embeddings, by_index, by_image
):
    images, texts = embeddings
    scores = check_scores(mixture(images, texts, (images[:, :8], texts[:, :8]), 0.9))
    labels = Relevance.of_labels(np.arange(COUNT), COUNT)
    relation = labels.i2t if by_image else labels.t2i
    asking = torch.arange(0, COUNT, 5)
    exact, exact_scores = best_lists(scores, relation, 60, by_image=by_image, asking=asking)
    by_index()
    found, found_scores = nearly_best_lists(scores, relation, 60, by_image=by_image)(asking)
    assert share_found(found, exact) >= LEAST
    assert share_found(found[:, :10], exact[:, :10]) >= LEAST
    same = (found == exact).all(1)
    assert same.mean() > 0.5
    np.testing.assert_array_equal(found_scores[same], exact_scores[same])
    assert (np.diff(found_scores, axis=1) <= 0).all()


def test_hub_biases_and_suspicion_by_an_index_are_almost_those_of_all_pairs(embeddings, by_index):
    images, texts = embeddings
    pair = EmbeddingPair(images, texts)
    part = whole_split(images, texts, np.arange(COUNT))
    exact = hub_biases([pair], (1, 16, 128))
    suspicious = data_quality.suspicion(part, [])[0]
    by_index()
    found = hub_biases([pair], (1, 16, 128))
    assert (found <= exact + 1e-6).all()
    assert (np.abs(found - exact)[:, :2] < 1e-6).mean() >= LEAST
    assert np.abs(found - exact).max() < 0.02
    again = data_quality.suspicion(part, [])[0]
    worst, worst_again = (np.argsort(-values)[: COUNT // 20] for values in (suspicious, again))
    assert np.isin(worst_again, worst).mean() >= LEAST
    assert (np.abs(again - suspicious) < 1e-4).mean() >= LEAST


def test_an_index_of_few_rows_is_exact_and_says_what_it_lacks():
    rows = unit(np.random.default_rng(0).standard_normal((50, 4))).astype(np.float32)
    products, numbers = nearest.NearestRows(rows).search(rows[:3], 60)
    np.testing.assert_array_equal(numbers[:, :50], np.argsort(-(rows[:3] @ rows.T), axis=1))
    assert (numbers[:, 50:] == -1).all()
    assert np.isneginf(products[:, 50:]).all()
