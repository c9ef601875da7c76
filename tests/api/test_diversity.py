"""The api's NumPy diversity against the objectives' torch diversity and against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coder_core.api import diversity as maths
from coder_core.api import sides as api_sides
from coder_core.api.sampling import part_of
from coder_core.objectives import diversity as objectives
from coder_core.ops.diversity_scaling import squash
from tests.support.run_folders import synthetic


def uneven(images: int = 23, seed: int = 3) -> tuple[np.ndarray, ...]:
    """Embeddings with one to six captions an image, in no order."""
    v, w, _ = synthetic(images, noise=1.0, seed=seed)
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.full(rng.integers(1, 7), image) for image in range(images)])
    owner = rng.permutation(owner)
    return v, w[: len(owner)], owner


def scores_and_negatives(
    v: np.ndarray, w: np.ndarray, owner: np.ndarray, modality: str
) -> tuple[torch.Tensor, ...]:
    scores = torch.from_numpy((v @ w.T).astype(np.float64))
    negatives = torch.from_numpy(np.arange(len(v))[:, None] != owner[None, :])
    return (scores, negatives) if modality == "image" else (scores.T, negatives.T)


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 1.0])
def test_std_over_a_split_is_the_objective(modality: api_sides.Modality, epsilon: float) -> None:
    v, w, owner = uneven()
    spread = maths.std_over_split(api_sides.sides(v, w, owner, modality))
    found = maths.normalise(squash(spread, epsilon))
    expected = objectives.diversity_std(*scores_and_negatives(v, w, owner, modality), epsilon=epsilon)
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-7)
    assert found.max() == 1.0
    assert found.min() > 0.5


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("temperature", [0.02, 1.0])
def test_entropy_over_a_split_is_the_objective(modality: api_sides.Modality, temperature: float) -> None:
    v, w, owner = uneven()
    spread = maths.entropy_over_split(api_sides.sides(v, w, owner, modality), temperature)
    expected = objectives.entropy(*scores_and_negatives(v, w, owner, modality), temperature=temperature)
    np.testing.assert_allclose(spread, expected.numpy(), atol=2e-5)


@pytest.mark.parametrize("measure", ["std", "entropy"])
def test_tiles_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch, measure: str) -> None:
    v, w, owner = uneven()
    s = api_sides.sides(v, w, owner, "text")
    whole = maths.std_over_split(s) if measure == "std" else maths.entropy_over_split(s, 0.1)
    monkeypatch.setattr(maths, "TILE_ELEMENTS", 70)
    cut = maths.std_over_split(s) if measure == "std" else maths.entropy_over_split(s, 0.1)
    np.testing.assert_allclose(cut, whole, atol=1e-5)


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("size", [2, 7, 128])
def test_batches_are_the_objective_batch_by_batch(modality: api_sides.Modality, size: int) -> None:
    v, w, owner = uneven()
    part = part_of(v, w, owner, None)
    settings = maths.DiversitySettings(modality, candidates="batch", batch_size=size, seed=5)
    draw = maths.draw_batches(part, settings)
    assert draw is not None
    spread = maths.spread_in_batches(part, draw, settings)
    raw = squash(spread, 0.1)
    assert (owner[draw.pair_text] == draw.pair_image).all()
    for anchor in range(len(spread)):
        pairs = draw.batches[draw.batch_of[anchor]]
        assert anchor in pairs
        mine, others = (
            (v, w[draw.pair_text[pairs]]) if modality == "image" else (w, v[draw.pair_image[pairs]])
        )
        negative = draw.pair_image[pairs] != draw.pair_image[anchor]
        values = (others @ mine[anchor])[negative]
        assert spread[anchor] == pytest.approx(values.std() if len(values) else 0.0, abs=1e-6)
    normalised = maths.normalise(raw, draw.batch_of)
    for batch in range(len(draw.batches)):
        assert normalised[draw.batch_of == batch].max() == 1.0


def test_a_draw_is_repeatable_and_every_batch_is_full() -> None:
    part = part_of(*uneven(), None)
    settings = [maths.DiversitySettings(candidates="batch", batch_size=10, seed=seed) for seed in (1, 1, 2)]
    one, two, other = (maths.draw_batches(part, choice) for choice in settings)
    assert one is not None
    assert two is not None
    assert other is not None
    np.testing.assert_array_equal(one.batches, two.batches)
    assert not np.array_equal(one.batches, other.batches)
    assert one.batches.shape[1] == 10
    assert all(len(set(batch.tolist())) == 10 for batch in one.batches)


def test_an_anchor_that_sees_all_negatives_alike_has_the_smallest_diversity() -> None:
    """raw(SD = 0) is exactly 1, and no warning is raised on the way."""
    assert squash(np.array([0.0]), 0.1)[0] == 1.0
    v, w, owner = synthetic(40, noise=1.0)
    spread = maths.std_over_split(api_sides.sides(v, w, owner, "text"))
    vague = np.arange(len(w)) % 5 == 4
    assert spread[vague].max() < spread[~vague].min()


def test_impossible_values_are_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be > 0, got 0"):
        squash(np.ones(3), 0)
    with pytest.raises(ValueError, match="at least 2"):
        maths.draw_batches(
            part_of(*uneven(), None), maths.DiversitySettings(candidates="batch", batch_size=1)
        )
