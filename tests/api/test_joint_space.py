"""The joint space in numbers, against every pair looked at one by one."""

import numpy as np
import pytest

from coder_core.api import joint_space, open_run
from coder_core.api.joint_space import LayoutSettings, principal_layout, stored_layout
from coder_core.api.sampling import draw_sample
from coder_core.runs.derived.compute import make_layouts
from tests.support.run_folders import flip, write_run


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    base = tmp_path_factory.mktemp("geometry")
    for name, noise in (("a", 1.0), ("b", 2.0)):
        write_run(base, name, images=14, noise=noise, pictures=False)
    return base


@pytest.fixture
def a(root):
    return open_run(root / "a")


def test_gap_and_distributions_agree_with_loops(a):
    v, w = (np.asarray(x, dtype=np.float64) for x in a.embeddings("dev"))
    gap = np.linalg.norm(v.mean(0) - w.mean(0))
    assert joint_space.modality_gap(a, "dev") == pytest.approx(gap, abs=1e-6)
    whole = joint_space.score_distributions(a, "dev")
    counts = whole.positive.sum(), whole.negative.sum(), whole.images, whole.of_images
    assert counts == (70, 14 * 70 - 70, 14, 14)


def test_every_sample_with_what_is_known_about_it(a):
    table, owner = joint_space.samples(a, "dev"), a.image_of_text("dev")
    v, w = a.embeddings("dev")
    scores = (v @ w.T)[owner, np.arange(70)]
    best = [scores[owner == i].max() for i in range(14)]
    np.testing.assert_allclose(table["similarity"], np.concatenate([best, scores]), atol=1e-6)
    assert table["modality"].tolist() == ["image"] * 14 + ["caption"] * 70
    np.testing.assert_array_equal(table["image"], np.concatenate([np.arange(14), owner]))
    np.testing.assert_array_equal(table["rank"][14:], a.ranks("dev")["t2i"] + 1)
    # every caption lists ten images, and every image ten captions
    assert [table["hubness"][:14].sum(), table["hubness"][14:].sum()] == [70 * 10, 14 * 10]
    assert table["text"][0] == "scene 0, told in way 0"
    diversity = a.diversity("dev", epsilon=a.loss.epsilon)["diversity"]
    np.testing.assert_array_equal(table["diversity"][14:], diversity)


def test_a_stored_map_is_missing_then_there_then_damaged(a, root):
    b, settings = open_run(root / "b"), LayoutSettings("pca")
    assert stored_layout(b, "dev", settings, a).state == "missing"
    folder = make_layouts([a.path, b.path], "dev", settings)[1][0]
    stored = stored_layout(b, "dev", settings, a)
    assert (stored.state, stored.name) == ("there", folder.name)
    at_once = principal_layout(b, "dev", principal_layout(a, "dev"))
    np.testing.assert_allclose(at_once.plane, stored.value.plane, atol=1e-5)
    flip(folder.path / "plane.npy")
    assert "plane.npy" in stored_layout(b, "dev", settings, a).fault


def test_a_sample_of_a_large_split_reads_as_the_whole_of_its_rows(a):
    owner = a.image_of_text("dev")
    sample = draw_sample(14, owner, points=36, scores=100)
    assert (len(sample.images), len(sample.texts)) == (6, 30)
    whole, part = joint_space.samples(a, "dev"), joint_space.samples(a, "dev", sample=sample)
    rows = np.concatenate([sample.images, 14 + sample.texts])
    for column in ("modality", "number", "image", "text", "rank", "similarity", "words"):
        assert part[column].tolist() == whole[column].to_numpy()[rows].tolist(), column
    best = a.best("dev", "t2i")[sample.texts]
    assert part["hubness"][:6].tolist() == [int((best == image).sum()) for image in sample.images]
    v, w = (np.asarray(x, dtype=np.float64) for x in a.embeddings("dev"))
    gap = np.linalg.norm(v[sample.images].mean(0) - w[sample.texts].mean(0))
    assert joint_space.modality_gap(a, "dev", sample=sample) == pytest.approx(gap, abs=1e-6)
    assert principal_layout(a, "dev", sample=sample).plane.shape == (36, 2)
    assert draw_sample(14, owner, scores=14 * 70) is None
