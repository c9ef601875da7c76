"""Hubs, margins, changes of diversity: against loops over the whole matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api import (
    InputError,
    Run,
    diversity_changes,
    found_by,
    hubness,
    margins,
    occurrences,
    open_run,
    rank_correlation,
)
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_run(tmp_path_factory.mktemp("lab"), "b", noise=2.0, images=30, pictures=False))


def scores_of(run: Run, direction: str) -> tuple[np.ndarray, np.ndarray]:
    """(Q, C) scores and whether each candidate is a true match."""
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    match = np.arange(len(v))[:, None] == owner[None, :]
    return (w @ v.T, match.T) if direction == "t2i" else (v @ w.T, match)


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_occurrences_are_counted_one_by_one(run: Run, direction: str, k: int) -> None:
    scores, match = scores_of(run, direction)
    count, right = np.zeros(scores.shape[1], int), np.zeros(scores.shape[1], int)
    for query in range(len(scores)):
        for candidate in np.argsort(-scores[query])[:k]:
            count[candidate] += 1
            right[candidate] += match[query, candidate]
    found = occurrences(run, "dev", direction, k=k)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found["count"], count)
    np.testing.assert_array_equal(found["right"], right)
    np.testing.assert_array_equal(found["wrong"], count - right)
    largest = int(count.argmax())
    queries = found_by(run, "dev", direction, largest, k=k)  # type: ignore[arg-type]
    expected = {q: int(np.argsort(-scores[q]).tolist().index(largest)) + 1 for q in range(len(scores))}
    assert dict(zip(queries["query"], queries["place"], strict=True)) == {
        q: p for q, p in expected.items() if p <= k
    }
    assert queries["match"].tolist() == match[queries["query"], largest].tolist()
    assert queries["place"].is_monotonic_increasing
    even = hubness(count, k)
    assert even.mean == pytest.approx(len(scores) * k / scores.shape[1])
    assert even.never == pytest.approx(100 * (count == 0).mean())


def test_hubness_by_hand() -> None:
    """Three candidates found 0, 0, 3 times: mean 1, deviations −1, −1, 2, second moment 2, third 2, 2 / 2^1.5."""
    found = hubness(np.array([0, 0, 3]), 1)
    assert found.skewness == pytest.approx(2 / 2**1.5)
    assert found.never == pytest.approx(200 / 3)
    assert hubness(np.array([2, 2]), 1).skewness == 0.0
    assert hubness(np.zeros(0), 1).mean == 0.0


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_margins_are_those_of_the_whole_matrix(run: Run, direction: str) -> None:
    scores, match = scores_of(run, direction)
    found = margins(run, "dev", direction)  # type: ignore[arg-type]
    assert found["query"].tolist() == list(range(len(scores)))
    own, wrong = np.where(match, scores, -9), np.where(match, -9, scores)
    np.testing.assert_array_equal(found["match"], own.argmax(1))
    np.testing.assert_array_equal(found["wrong"], wrong.argmax(1))
    np.testing.assert_allclose(found["margin"], own.max(1) - wrong.max(1), atol=1e-6)
    assert ((found["margin"] < 0) == (found["rank"] > 1)).all()
    sample = run.sample("dev", scores=600)
    assert sample is not None
    part = margins(run, "dev", direction, sample=sample)  # type: ignore[arg-type]
    rows = sample.texts if direction == "t2i" else sample.images
    pd.testing.assert_frame_equal(part, found.iloc[rows].reset_index(drop=True))


def test_margins_where_ten_true_matches_come_first(tmp_path: Path) -> None:
    """Twelve captions of one image, and one of another: the ten best of the first image are all its own."""
    from coder_core.runs.analysis.write import write_analysis

    folder = write_run(tmp_path, "many", images=12, pictures=False)
    v = np.eye(3, dtype=np.float32)[:2]
    w = np.stack([np.array([1.0, 0.001 * i, 0.0]) for i in range(12)] + [np.array([0.3, 1.0, 0.0])]).astype(
        np.float32
    )
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    owner = np.array([0] * 12 + [1])
    write_analysis(
        folder,
        "dev",
        image_embeddings=v,
        text_embeddings=w,
        image_of_text=owner,
        captions=["x"] * 13,
        image_names=["a", "b"],
        metrics={},
        fingerprint="0" * 64,
        image_ranks=np.array([0, 0]),
        text_ranks=np.zeros(13, int),
        image_best=np.argsort(-(v @ w.T), 1)[:, :10],
        text_best=np.argsort(-(w @ v.T), 1)[:, :2],
    )
    found = margins(open_run(folder), "dev", "i2t")
    assert found["wrong"].tolist() == [12, 11]
    np.testing.assert_allclose(found["margin"][0], 1.0 - w[12, 0], atol=1e-6)


def test_changes_of_diversity_by_hand() -> None:
    """Anchor 0 goes from the most to the least diverse of three."""
    tables = [
        pd.DataFrame({"anchor": [0, 1, 2], "image": [0, 0, 1], "diversity": values, "spread": values})
        for values in ([1.0, 0.8, 0.9], [0.6, 0.8, 1.0])
    ]
    found = diversity_changes(*tables)
    assert found["place_a"].tolist() == [100.0, 0.0, 50.0]
    assert found["place_b"].tolist() == [0.0, 50.0, 100.0]
    assert found["change"].tolist() == [-100.0, 50.0, 50.0]
    with pytest.raises(InputError, match="same anchors"):
        diversity_changes(tables[0], tables[1].iloc[:2])


def test_rank_correlation_by_hand() -> None:
    """1 − 6·Σd²/(n(n² − 1)) without ties; a missing value leaves its pair out."""
    assert rank_correlation(np.array([1.0, 2, 3, 4]), np.array([10.0, 30, 20, 40])) == pytest.approx(
        1 - 6 * 2 / 60
    )
    assert rank_correlation(np.array([1.0, 2, np.nan]), np.array([5.0, 1, 9])) == pytest.approx(-1)
    assert np.isnan(rank_correlation(np.ones(4), np.arange(4)))
