"""Ranks from a matrix of scores: equal to those of the embeddings that made it, ties and blocks included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.evaluation import matrix
from coder_core.evaluation.choices import DIRECTIONS, accuracies
from coder_core.evaluation.ranking import Ranks, checked, ensemble_ranks, ranks
from coder_core.evaluation.recall import ensemble_metrics, five_fold, pairings
from coder_core.evaluation.scores import MatrixSource
from coder_core.evaluation.separation import distributions
from coder_core.evaluation.sources import Source
from tests.evaluation.test_ranking import embeddings
from tests.reference.ranking import score


@pytest.fixture(params=[1, 200, 1 << 24])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_SCORES", request.param)


def exact(images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    return np.array([[score(image, text) for text in texts] for image in images], np.float32)


def same(found: Ranks, expected: Ranks) -> None:
    for name in ("image_ranks", "text_ranks", "image_ties", "text_ties", "image_best", "text_best"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_a_matrix_ranks_as_the_embeddings_that_made_it(ties: str) -> None:
    """Duplicated captions and images tie exactly; one image has no caption."""
    images, texts, owner = embeddings(20, 60, 33, 2)
    random = np.random.default_rng(2)
    images[random.integers(0, 20, 10)] = images[random.integers(0, 20, 10)]
    texts[random.integers(0, 60, 40)] = texts[random.integers(0, 60, 40)]
    owner[owner == 7] = 8
    found = ensemble_ranks([MatrixSource(exact(images, texts))], owner, ties=ties)  # type: ignore[arg-type]
    same(found, ranks(images, texts, owner, ties=ties))  # type: ignore[arg-type]
    assert found.image_ranks[7] == -1
    assert found.image_ties.sum() > 0


def test_ties_count_against_the_right_answer_by_hand() -> None:
    """All scores equal: every foreign candidate stands above; among equals the own one is listed last."""
    found = ensemble_ranks([MatrixSource(np.zeros((3, 3), np.float32))], np.arange(3))
    assert found.image_ranks.tolist() == found.text_ranks.tolist() == [2, 2, 2]
    assert found.image_best.tolist() == [[1, 2, 0], [0, 2, 1], [0, 1, 2]]


@pytest.mark.usefixtures("_blocks")
def test_a_matrix_and_embeddings_are_averaged(tmp_path: Path) -> None:
    """One run of each kind; the matrix is a memory map."""
    images, texts, owner = embeddings(12, 30, 9, 0)
    other = np.random.default_rng(1).normal(size=(12, 30)).astype(np.float32)
    np.save(tmp_path / "scores.npy", other)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    found = ensemble_ranks([Source(images, texts, 0.25), MatrixSource(mapped, 0.75)], owner)
    same(found, ensemble_ranks([MatrixSource(0.25 * images @ texts.T + 0.75 * other)], owner))


def test_five_folds_of_a_matrix_are_those_of_its_embeddings() -> None:
    images, texts, _ = embeddings(10, 30, 9, 3)
    owner = np.repeat(np.arange(10), 3)
    kinds = [Source(images, texts)], [MatrixSource(exact(images, texts))]
    found = [five_fold(kind, owner, folds=5, size=2) for kind in kinds]
    assert found[1] == pytest.approx(found[0])
    assert ensemble_metrics(kinds[1], owner) == pytest.approx(ensemble_metrics(kinds[0], owner))


def test_everything_else_that_evaluation_tells_is_told_of_a_matrix() -> None:
    """c-way accuracy, MD and the distributions; a matrix and embeddings mixed as well."""
    images, texts, owner = embeddings(12, 40, 9, 3)
    matrix = exact(images, texts)
    kinds = (
        [Source(images, texts)], [MatrixSource(matrix)], [MatrixSource(matrix, 0.5), Source(images, texts, 0.5)],
    )  # fmt: skip
    plain, *others = (checked(kind, owner) for kind in kinds)
    for other in others:
        for way in DIRECTIONS:
            found, expected = (accuracies(one, [2, 5], way, repeats=3) for one in (other, plain))
            assert {c: one.mean for c, one in found.items()} == {c: one.mean for c, one in expected.items()}
        counted, known = (distributions(pairings(one), owner) for one in (other, plain))
        assert abs(counted.positive - known.positive).sum() <= 2  # rounding at the edge of a bin
        assert counted.negative.sum() == known.negative.sum() == 12 * 40 - 40


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_has_no_rank(bad: float) -> None:
    scores = np.zeros((4, 8), np.float32)
    scores[2, 5] = bad
    with pytest.raises(InputError, match="scores of image 2"):
        ensemble_ranks([MatrixSource(scores)], np.repeat(np.arange(4), 2))


def test_matrices_of_other_samples_are_refused() -> None:
    with pytest.raises(InputError, match=r"source 1: scores \(3, 5\) images and captions; expected 3 × 6"):
        ensemble_ranks([MatrixSource(np.zeros((3, 6))), MatrixSource(np.zeros((3, 5)))], np.zeros(6, int))
