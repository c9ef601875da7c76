"""Samples of large splits, banks, and anchors opened in either."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.api import Run, diversity, open_run
from coder_core.api.sampling import draw_sample
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_run(tmp_path_factory.mktemp("lab"), "b", noise=1.5, images=30, pictures=False))


def test_a_split_within_the_bound_is_looked_at_whole() -> None:
    owner = np.repeat(np.arange(30), 5)
    assert draw_sample(30, owner, scores=30 * 150) is None
    sample = draw_sample(30, owner, scores=30 * 150 - 1)
    assert sample is not None
    assert len(sample.images) * len(sample.texts) <= 30 * 150 - 1


def test_a_sample_holds_all_captions_of_its_images_and_no_others() -> None:
    rng = np.random.default_rng(0)
    owner = rng.integers(0, 1000, 4000)
    sample = draw_sample(1000, owner, scores=40_000, seed=3)
    assert sample is not None
    assert (sample.of_images, sample.of_texts) == (1000, 4000)
    np.testing.assert_array_equal(sample.texts, np.flatnonzero(np.isin(owner, sample.images)))
    assert 80 < len(sample.images) <= 100
    assert not np.array_equal(sample.images, np.arange(len(sample.images)))  # not the first ones
    again = draw_sample(1000, owner, scores=40_000, seed=3)
    assert again is not None
    np.testing.assert_array_equal(again.images, sample.images)


@pytest.mark.parametrize("candidates", ["split", "batch", "bank"])
@pytest.mark.parametrize("modality", ["image", "text"])
def test_a_sampled_table_is_the_table_of_the_cut_out_split(run: Run, modality: str, candidates: str) -> None:
    """Rows keep their numbers in the split; the spread is that of the sample's negatives alone."""
    sample = run.sample("dev", scores=600)
    assert sample is not None
    settings = {"modality": modality, "candidates": candidates, "batch_size": 6, "bank_size": 20}
    table = run.diversity("dev", sample=sample, **settings)  # type: ignore[arg-type]
    rows = sample.images if modality == "image" else sample.texts
    np.testing.assert_array_equal(table["anchor"], rows)
    whole = run.diversity("dev", modality=modality)  # type: ignore[arg-type]
    np.testing.assert_array_equal(table["rank"], whole["rank"].to_numpy()[rows])
    np.testing.assert_array_equal(table["image"], whole["image"].to_numpy()[rows])
    for place in (0, len(rows) - 1):
        anchor = run.anchor(int(rows[place]), split="dev", sample=sample, **settings)  # type: ignore[arg-type]
        assert anchor.spread == table["spread"][place] == pytest.approx(anchor.similarities.std(), abs=1e-6)
        assert anchor.diversity == pytest.approx(table["diversity"][place], abs=1e-12)
        assert np.isin(anchor.candidates, sample.texts if modality == "image" else sample.images).all()


@pytest.mark.parametrize("candidates", ["split", "batch", "bank"])
@pytest.mark.parametrize("function", ["std", "entropy"])
def test_an_anchor_outside_the_sample_is_compared_with_the_sample(
    run: Run, candidates: str, function: str
) -> None:
    sample = run.sample("dev", scores=600)
    assert sample is not None
    number = int(np.setdiff1d(np.arange(150), sample.texts)[0])
    settings = {
        "candidates": candidates,
        "function": function,
        "batch_size": 6,
        "bank_size": 20,
        "temperature": 0.1,
    }
    anchor = run.anchor(number, split="dev", sample=sample, **settings)  # type: ignore[arg-type]
    assert np.isin(anchor.candidates, sample.images).all()
    if function == "std":
        assert anchor.spread == pytest.approx(anchor.similarities.std(), abs=1e-6)
    else:
        p = np.exp(anchor.similarities / 0.1)
        p /= p.sum()
        assert anchor.spread == pytest.approx(-(p * np.log2(p)).sum(), abs=1e-4)
    assert 0.5 < anchor.diversity <= 1
    assert len(anchor.positives) == 1


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("size", [1, 17, 10_000])
def test_a_bank_is_a_random_part_of_the_pairs(run: Run, modality: str, size: int) -> None:
    """Loops over the pairs in the bank; one of an anchor's own image is no negative of it."""
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    pairs = diversity.draw_bank(len(w), size=size, seed=4)
    assert len(set(pairs.tolist())) == min(size, len(w))
    found = run.spread("dev", modality=modality, candidates="bank", bank_size=size, seed=4)  # type: ignore[arg-type]
    for number in (0, 13):
        image = number if modality == "image" else owner[number]
        kept = [p for p in pairs.tolist() if owner[p] != image]
        scores = [
            float(v[number] @ w[p]) if modality == "image" else float(w[number] @ v[owner[p]]) for p in kept
        ]
        assert found[number] == pytest.approx(np.std(scores) if scores else 0.0, abs=1e-6)
    with pytest.raises(ValueError, match="at least 1 pair"):
        diversity.draw_bank(3, size=0, seed=0)


def test_an_anchor_is_read_with_the_loss_it_is_given(run: Run) -> None:
    from dataclasses import replace

    plain = run.anchor(7, split="dev")
    other = run.anchor(7, split="dev", loss=replace(plain.loss, temperature=0.05, gamma=0.1, epsilon=0.4))
    table = run.diversity("dev", epsilon=0.4)
    assert other.diversity == pytest.approx(table["diversity"][7])
    assert other.temperature == pytest.approx(0.05 * other.diversity)
    exponent = np.exp((other.similarities - 0.1) / 0.05)
    np.testing.assert_allclose(other.plain, exponent / (1 + exponent.sum()), rtol=1e-5)
