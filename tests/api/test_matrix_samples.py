"""Samples of a matrix and their order."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.api import InputError, Run, open_run
from coder_core.api.similarity import samples as view
from tests.support.run_folders import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_run(tmp_path_factory.mktemp("view") / "runs", "demo", images=30, noise=2.0))


def test_a_seed_draws_the_same_pairs_again(run: Run) -> None:
    one, same, other = (view.choose_samples(run, "dev", "seed", size=20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.texts, same.texts)
    assert one.texts.tolist() != other.texts.tolist()
    assert len(set(one.texts.tolist())) == 20
    np.testing.assert_array_equal(one.images, run.image_of_text("dev")[one.texts])
    assert "20 of 150 pairs" in one.about
    assert len(view.choose_samples(run, "dev", "seed", size=9_999).texts) == 150


@pytest.mark.parametrize(
    ("chosen", "texts"),
    [
        ("3, 7", [3, 7]),
        ("0-3", [0, 1, 2, 3]),
        ("5 – 6; 2", [5, 6, 2]),
        ("1,1,2", [1, 2]),
        ("29, scene", range(145, 150)),
    ],
)
def test_a_selection_by_number_or_by_words(run: Run, chosen: str, texts: list[int]) -> None:
    assert view.choose_samples(run, "dev", "chosen", size=64, chosen=chosen).texts.tolist() == list(texts)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("", "gives no pair;"),
        ("7", "gives 1 pair;"),
        ("149-150", "caption 150: is not in the split"),
        ("5-3", "neither a number"),
        ("1-2-3", "neither a number"),
        ("zebra", "gives no pair;"),
        ("9" * 50, "neither a number"),
    ],
)
def test_a_selection_that_gives_nothing_says_so(run: Run, chosen: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        view.choose_samples(run, "dev", "chosen", chosen=chosen)


def test_a_pair_alone_is_refused(run: Run) -> None:
    with pytest.raises(InputError, match="a pair alone has no negatives"):
        view.choose_samples(run, "dev", "seed", size=1)


def test_the_hardest_come_with_the_images_that_beat_them(run: Run) -> None:
    batch = view.choose_samples(run, "dev", "hardest", size=20)
    v, w = run.embeddings("dev")
    scores = w @ v.T
    owner = run.image_of_text("dev")
    own = scores[np.arange(len(owner)), owner].copy()
    scores[np.arange(len(owner)), owner] = -np.inf
    gap = scores.max(1) - own
    worst = int(gap.argmax())
    assert batch.texts[0] == worst
    assert scores[worst].argmax() in batch.images
    assert len(set(batch.texts.tolist())) == len(batch.texts) == 20


def test_a_whole_split_is_sampled_when_it_is_too_large(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = view.choose_samples(run, "dev", "split")
    assert (len(batch.images), len(batch.texts), batch.paired) == (30, 150, False)
    monkeypatch.setattr(view, "SCORES_AT_MOST", 500)
    batch = view.choose_samples(run, "dev", "split", seed=3)
    assert len(batch.images) * len(batch.texts) <= 500
    assert f"{len(batch.images)} of 30 images, drawn at random" in batch.about
    np.testing.assert_array_equal(np.unique(run.image_of_text("dev")[batch.texts]), batch.images)


@pytest.mark.parametrize("source", ["seed", "hardest", "chosen", "split"])
def test_a_slice_gives_its_own_pairs_alone(run: Run, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    within = np.array([3, 10, 11, 14, 75, 149])
    owner = run.image_of_text("dev")
    words = {"chosen": "scene"} if source == "chosen" else {}
    batch = view.choose_samples(run, "dev", source, size=5, within=within, **words)  # type: ignore[arg-type]
    assert set(batch.texts.tolist()) <= set(within.tolist())
    assert len(batch.texts) == (6 if source == "split" else 5)
    assert set(batch.images.tolist()) == set(owner[batch.texts].tolist())
    assert "the slice" in batch.about
    if source == "split":
        assert batch.about == "all 4 images and all 6 captions of the slice"
        monkeypatch.setattr(view, "SCORES_AT_MOST", 12)
        some = view.choose_samples(run, "dev", "split", within=within)
        assert some.texts.tolist() == [text for text in within if owner[text] in some.images]
        assert (
            f"2 of 4 images of the slice, drawn at random with seed 0, and their {len(some.texts)}"
            in some.about
        )
    if source == "hardest":
        v, w = run.embeddings("dev")
        scores = w[within] @ v.T
        own = scores[np.arange(6), owner[within]].copy()
        scores[np.arange(6), owner[within]] = -np.inf
        assert batch.texts[0] == within[(scores.max(1) - own).argmax()]
    if source == "chosen":
        batch = view.choose_samples(run, "dev", source, chosen="0-3", within=within[:1])
        assert batch.texts.tolist() == [0, 1, 2, 3]
        assert batch.about == "4 of the 4 pairs chosen by number, 1 of them in the slice"
    else:
        for alone, said in (
            (within[:0], "has no pair"),
            (within[:1], "has 1 pair"),
            (within[1:4], "of a single image"),
        ):
            with pytest.raises(InputError, match=f"the slice: .*{said}"):
                view.choose_samples(run, "dev", source, within=alone)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["seed", "split"])
@pytest.mark.parametrize("by", ["drawn", "diversity", "cluster"])
@pytest.mark.parametrize("anchors", ["image", "text"])
def test_an_order_keeps_every_sample(run: Run, source: str, by: str, anchors: str) -> None:
    batch = view.choose_samples(run, "dev", source, size=25)  # type: ignore[arg-type]
    count = len(batch.images if anchors == "image" else batch.texts)
    diversity = np.random.default_rng(0).permutation(count) / count
    ordered = view.order_samples(run, "dev", batch, by, diversity, anchors)  # type: ignore[arg-type]
    for before, after in ((batch.images, ordered.images), (batch.texts, ordered.texts)):
        np.testing.assert_array_equal(np.sort(before), np.sort(after))
    if ordered.paired:
        np.testing.assert_array_equal(ordered.images, run.image_of_text("dev")[ordered.texts])
    if by == "diversity":
        before, after = (batch.images, ordered.images) if anchors == "image" else (batch.texts, ordered.texts)
        if source == "split":
            assert after.tolist() == before[np.argsort(diversity)].tolist()
        else:
            assert ordered.texts.tolist() == batch.texts[np.argsort(diversity)].tolist()


def test_alike_vectors_become_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tight groups, shuffled: each stands together, by the tree and by the plane."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(3), 10))
    vectors = np.eye(8)[group] + 0.02 * rng.normal(size=(30, 8))
    for limit in (2_000, 10):
        monkeypatch.setattr(view, "TREE_AT_MOST", limit)
        ordered = group[view._alike(vectors)]
        changes = int((np.diff(ordered) != 0).sum()) + int(ordered[0] != ordered[-1])
        assert changes <= 3  # a circle of three groups
