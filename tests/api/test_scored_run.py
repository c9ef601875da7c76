"""A run whose analysis holds scores: everything that needs scores alone tells what the embeddings behind them tell."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api import Loss, compare, margins, open_run
from coder_core.api.joint_space import modality_gap, score_distributions, score_separation
from coder_core.api.retrieval.results import occurrences
from coder_core.api.run import Run
from coder_core.api.similarity import (
    hardest_in_cell,
    matrix_sides,
    open_pair,
    ordered,
    scaled_matrix,
    spread_over,
)
from coder_core.api.similarity.samples import choose_samples
from coder_core.console.faults import InputError
from coder_core.evaluation import EmbeddingPair, ScoreMatrix, rank, score_tiles
from coder_core.evaluation.recall import metrics_from_ranks
from coder_core.files.sealed import write_sealed
from coder_core.runs.analysis.write import write_analysis

CHOICES = [
    {"candidates": "split"},
    {"candidates": "batch", "batch_size": 8},
    {"candidates": "bank", "bank_size": 20},
]


def written(root: Path, name: str, *, scored: bool) -> Run:
    """24 images with two captions each; one image has none."""
    random = np.random.default_rng(3)
    v, w = (random.normal(size=(count, 6)) for count in (24, 48))
    owner = random.permutation(np.repeat(np.arange(24), 2))
    owner[owner == 5] = 6
    w += 0.8 * v[owner]
    v, w = ((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32) for rows in (v, w))
    scores = v @ w.T
    source = ScoreMatrix(scores) if scored else EmbeddingPair(v, w)
    ranks = rank(score_tiles([source], owner))
    folder = write_sealed(root / name, {"config.toml": 'name = "x"\n'})
    own = {"scores": scores} if scored else {"image_embeddings": v, "text_embeddings": w}
    write_analysis(
        folder,
        "dev",
        **own,
        image_of_text=owner,
        captions=[f"caption {k}" for k in range(48)],
        image_names=[f"{k}.png" for k in range(24)],
        metrics=metrics_from_ranks(ranks),
        fingerprint="abc",
        image_ranks=ranks.image_ranks,
        text_ranks=ranks.text_ranks,
        image_best=ranks.image_best,
        text_best=ranks.text_best,
    )
    return open_run(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """By scores, and by the embeddings that made them."""
    root = tmp_path_factory.mktemp("runs")
    return written(root, "scored", scored=True), written(root, "plain", scored=False)


def close(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected, check_exact=False, atol=1e-5, rtol=1e-5)


def test_the_two_are_read_alike(runs: tuple[Run, Run]) -> None:
    scored, plain = runs
    assert scored.metrics("dev") == plain.metrics("dev")
    assert [scored.count("dev", kind) for kind in ("image", "text")] == [24, 48]  # type: ignore[arg-type]
    assert scored.first_captions("dev").tolist() == plain.first_captions("dev").tolist()
    np.testing.assert_allclose(
        scored.similarity([1, 5], [0, 3, 4], split="dev"),
        plain.similarity([1, 5], [0, 3, 4], split="dev"),
        atol=1e-6,
    )
    assert set(compare(scored, plain, "dev")["outcome"]) <= {"both right", "both wrong"}
    for direction in ("i2t", "t2i"):
        close(margins(scored, "dev", direction), margins(plain, "dev", direction))  # type: ignore[arg-type]
        assert occurrences(scored, "dev", direction).equals(occurrences(plain, "dev", direction))  # type: ignore[arg-type]


@pytest.mark.parametrize("modality", ["image", "text"])
def test_search_finds_the_same(runs: tuple[Run, Run], modality: str) -> None:
    for query in (0, 7):
        found, expected = (run.search(query, split="dev", modality=modality, top=5) for run in runs)  # type: ignore[arg-type]
        close(found, expected)


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("function", ["std", "entropy"])
@pytest.mark.parametrize("choice", CHOICES)
def test_diversity_is_the_same(
    runs: tuple[Run, Run], modality: str, function: str, choice: dict[str, object]
) -> None:
    how = {"modality": modality, "function": function, **choice}
    found, expected = (run.diversity("dev", **how) for run in runs)  # type: ignore[arg-type]
    close(found, expected)
    one, other = (run.anchor(3, split="dev", **how) for run in runs)  # type: ignore[arg-type]
    for name in ("similarities", "positives", "plain", "scaled", "diversity", "spread"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-5, err_msg=name)


def test_a_sample_of_a_large_split_is_the_same(runs: tuple[Run, Run]) -> None:
    sample = runs[0].sample("dev", scores=200)
    assert sample is not None
    found, expected = (run.diversity("dev", sample=sample) for run in runs)
    close(found, expected)


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("source", ["seed", "hardest", "split"])
def test_matrices_are_the_same(runs: tuple[Run, Run], direction: str, source: str) -> None:
    loss = Loss()
    batches = [choose_samples(run, "dev", source, size=16) for run in runs]  # type: ignore[arg-type]
    assert batches[0].texts.tolist() == batches[1].texts.tolist()
    sides = [matrix_sides(run, "dev", batch, direction) for run, batch in zip(runs, batches, strict=True)]  # type: ignore[arg-type]
    np.testing.assert_allclose(*(spread_over(s, loss) for s in sides), atol=1e-6)
    found, expected = (
        scaled_matrix(run, "dev", batch, direction, loss, cells=8)
        for run, batch in zip(runs, batches, strict=True)
    )  # type: ignore[arg-type, misc]
    for name in ("similarity", "exponent", "change", "share"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-4, err_msg=name)
    cells = [hardest_in_cell(s, found, 1, 2) for s in sides]
    assert cells[0] == cells[1]
    paired = batches[0].paired
    pairs = [asdict(open_pair(s, found.spread, found.loss, *cells[0], paired=paired)) for s in sides]
    assert {k: v for k, v in pairs[0].items() if k != "loss"} == pytest.approx(
        {k: v for k, v in pairs[1].items() if k != "loss"}, rel=1e-5, abs=1e-4, nan_ok=True
    )


@pytest.mark.parametrize("source", ["seed", "split"])
@pytest.mark.parametrize("by", ["diversity", "cluster"])
def test_every_order_is_of_the_same_samples(runs: tuple[Run, Run], source: str, by: str) -> None:
    batch = choose_samples(runs[0], "dev", source, size=16)  # type: ignore[arg-type]
    found = ordered(runs[0], "dev", batch, by, "t2i", Loss())  # type: ignore[arg-type]
    assert sorted(found.texts) == sorted(batch.texts)
    assert found.texts.tolist() != batch.texts.tolist()


def test_md_and_the_distributions_are_the_same(runs: tuple[Run, Run]) -> None:
    found, expected = (score_separation(run, "dev").mean_distance for run in runs)
    assert found == pytest.approx(expected, abs=1e-6)
    counted, known = (score_distributions(run, "dev") for run in runs)
    assert abs(counted.positive - known.positive).sum() <= 2


def test_what_needs_embeddings_says_so(runs: tuple[Run, Run]) -> None:
    for asked in (
        lambda: modality_gap(runs[0], "dev"),
        lambda: runs[0].embeddings("dev"),
        lambda: runs[0].part("dev"),
    ):
        with pytest.raises(InputError, match="scores pair by pair: there is not one embedding of a sample"):
            asked()
    assert not runs[0].reads_pictures("dev")
    with pytest.raises(InputError, match="too many regions in split 'dev'"):
        runs[0].search("a red star", split="dev")
