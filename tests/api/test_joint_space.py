"""The joint space in numbers, against every pair looked at one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coder_core.api import joint_space, open_run
from coder_core.api.joint_space import LayoutSettings, draw_points, principal_layout, stored_layout
from coder_core.api.sampling import draw_points_sample
from coder_core.evaluation import separation
from coder_core.runs.derived.compute import make_layouts
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("geometry")
    for name, noise in (("a", 1.0), ("b", 2.0)):
        write_run(base, name, images=14, noise=noise, pictures=False)
    return base


def test_gap_and_means_agree_with_loops(root: Path) -> None:
    run = open_run(root / "a")
    v, w = (np.asarray(x, dtype=np.float64) for x in run.embeddings("dev"))
    owner = run.image_of_text("dev")
    own, other = [], []
    for i in range(len(v)):
        for j in range(len(w)):
            (own if owner[j] == i else other).append(float(v[i] @ w[j]))
    found = joint_space.modality_gap(run, "dev")
    assert found.gap == pytest.approx(np.linalg.norm(v.mean(0) - w.mean(0)), abs=1e-6)
    assert found.positive == pytest.approx(np.mean(own), abs=1e-6)
    assert found.negative == pytest.approx(np.mean(other), abs=1e-6)
    assert found.mean_distance == pytest.approx(np.mean(own) - np.mean(other), abs=1e-6)


def test_distributions_count_every_pair_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(root / "a")
    whole = joint_space.distributions(run, "dev")
    assert whole.positive.sum() == 70
    assert whole.negative.sum() == 14 * 70 - 70
    assert (whole.images, whole.of_images) == (14, 14)
    centres = (whole.edges[:-1] + whole.edges[1:]) / 2
    mean = (centres * whole.negative).sum() / whole.negative.sum()
    assert mean == pytest.approx(joint_space.modality_gap(run, "dev").negative, abs=0.01)
    monkeypatch.setattr(separation, "TILE_ELEMENTS", 71)
    tiled = joint_space.distributions(run, "dev")
    np.testing.assert_array_equal(tiled.negative, whole.negative)
    part = joint_space.distributions(run, "dev", pairs=5 * 70)
    assert (part.images, part.positive.sum(), part.negative.sum()) == (5, 25, 5 * 70 - 25)


def test_every_sample_with_what_is_known_about_it(root: Path) -> None:
    run = open_run(root / "a")
    table = joint_space.samples(run, "dev")
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    assert table["modality"].tolist() == ["image"] * 14 + ["caption"] * 70
    np.testing.assert_array_equal(table["image"], np.concatenate([np.arange(14), owner]))
    scores = v @ w.T
    np.testing.assert_allclose(table["similarity"][14:], scores[owner, np.arange(70)], atol=1e-6)
    best = [scores[i, owner == i].max() for i in range(14)]
    np.testing.assert_allclose(table["similarity"][:14], best, atol=1e-6)
    np.testing.assert_array_equal(table["rank"][14:], run.ranks("dev")["t2i"] + 1)
    assert table["hubness"][:14].sum() == 70 * 10  # every caption lists ten images
    assert table["hubness"][14:].sum() == 14 * 10
    assert table["text"][0] == "scene 0, told in way 0"
    np.testing.assert_array_equal(
        table["diversity"][14:], run.diversity("dev", epsilon=run.loss.epsilon)["diversity"]
    )


def test_a_stored_map_is_missing_then_there_then_damaged(root: Path) -> None:
    a, b = open_run(root / "a"), open_run(root / "b")
    settings = LayoutSettings("pca")
    assert stored_layout(b, "dev", settings, a).state == "missing"
    stored = make_layouts([a.path, b.path], "dev", settings)[1][0]
    found = stored_layout(b, "dev", settings, a)
    assert (found.state, found.name) == ("there", stored.name)
    assert found.value is not None
    at_once = principal_layout(b, "dev", principal_layout(a, "dev"))
    np.testing.assert_allclose(at_once.plane, found.value.plane, atol=1e-5)
    file = stored.path / "plane.npy"
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(bytes(content))
    damaged = stored_layout(b, "dev", settings, a)
    assert damaged.state == "damaged"
    assert "plane.npy" in damaged.fault


def test_points_are_drawn_at_random_and_in_proportion() -> None:
    drawn = draw_points(1_000, 5_000, 600)
    assert len(drawn) == 600
    assert (drawn < 1_000).sum() == 100
    np.testing.assert_array_equal(draw_points(3, 4, 600), np.arange(7))


def test_a_sample_of_a_large_split_reads_as_the_whole_of_its_rows(root: Path) -> None:
    run = open_run(root / "a")
    owner = run.image_of_text("dev")
    sample = draw_points_sample(14, owner, points=36, scores=100)
    assert sample is not None
    assert (len(sample.images), len(sample.texts)) == (6, 30)
    whole, part = joint_space.samples(run, "dev"), joint_space.samples(run, "dev", sample=sample)
    rows = np.concatenate([sample.images, 14 + sample.texts])
    for column in ("modality", "number", "image", "text", "rank", "similarity", "words"):
        assert part[column].tolist() == whole[column].to_numpy()[rows].tolist(), column
    best = np.asarray(run.analysis("dev").text_best)[sample.texts]
    assert part["hubness"][:6].tolist() == [int((best == image).sum()) for image in sample.images]
    v, w = (np.asarray(x, dtype=np.float64) for x in run.embeddings("dev"))
    v, w = v[sample.images], w[sample.texts]
    assert joint_space.modality_gap(run, "dev", sample=sample).gap == pytest.approx(
        np.linalg.norm(v.mean(0) - w.mean(0)), abs=1e-6
    )
    counted = joint_space.distributions(run, "dev", sample=sample)
    assert (counted.positive.sum(), counted.negative.sum()) == (30, 6 * 30 - 30)
    assert principal_layout(run, "dev", sample=sample).plane.shape == (36, 2)
    assert draw_points_sample(14, owner, scores=14 * 70) is None
