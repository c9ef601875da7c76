"""Mismatched pairs: a slow reference of the score, exchanged captions, one caption per image, pair scores, samples."""

import shutil
import tomllib

import numpy as np
import pytest
import tomli_w

from coder_core.api import data_quality, open_run
from coder_core.api.sampling import draw_sample, whole_split
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.content.report import Finding
from tests.support.precomp_folders import assert_refused, write_split
from tests.support.run_folders import reseal, synthetic, write_embeddings, write_halves, write_run

THINGS = ("dog", "car", "boat", "tree", "house", "girl", "horse", "ball", "bridge", "train")


def slow_scores(v, w, owner, spaces):
    """Return the scores of all pairs and of random pairs, computed step by step."""
    s = v @ w.T
    texts = np.arange(len(w))
    random = (owner + np.random.default_rng(0).integers(1, len(v), len(w))) % len(v)

    def level(values):
        return float(np.sort(values)[-data_quality.NEIGHBOURS :].mean()) if len(values) else 0.0

    def standardised(values):
        matching = np.array(values[0])
        centre = np.nanmedian(matching)
        width = 1.4826 * np.nanmedian(np.abs(matching - centre))
        return np.array([np.nan_to_num((np.array(some) - centre) / width) for some in values])

    def beside(i, j):
        return (level(s[i, owner != i]) + level(np.delete(s[:, j], owner[j]))) / 2 - s[i, j]

    def unlike(space, i, j):
        others = [k for k in np.flatnonzero(owner == i) if k != j]
        if not others:
            return np.nan
        return -sum(weights[k] * (space[j] @ space[k]) for k in others) / sum(weights[k] for k in others)

    total = standardised([[beside(images[j], j) for j in texts] for images in (owner, random)])
    better = np.array([100 * np.mean(total[1] < score) for score in total[0]])
    weights = np.maximum(1 - data_quality.error_probability(better), data_quality.LEAST_WEIGHT)
    for space in spaces:
        total += standardised([[unlike(space, images[j], j) for j in texts] for images in (owner, random)])
    return total


@pytest.mark.parametrize("per_image", [1, 3])
def test_suspicion_matches_a_slow_reference(per_image):
    v, w, owner = synthetic(14, noise=1.0, per_image=per_image)
    keep = np.arange(len(w)) != 1  # one image has one caption fewer than the others
    w = w[keep]
    owner = owner[keep]
    space = np.random.default_rng(1).normal(size=(len(w), 6)).astype(np.float32)
    spaces = [w, space] if per_image > 1 else []
    own, random = data_quality.suspicion(whole_split(v, w, owner), spaces)
    np.testing.assert_allclose([own, random], slow_scores(v, w, owner, spaces), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    """Run in which every ninth caption, with its embedding, belongs to another image; and a mask of these captions."""
    captions = [f"a {THINGS[i % 10]} near a {THINGS[i // 4]} in way {k}" for i in range(40) for k in range(5)]
    runs = tmp_path_factory.mktemp("exchanged") / "runs"
    folder = write_run(runs, "demo", images=40, noise=0.8, captions=captions, pictures=False)
    run = open_run(folder)
    wrong = np.arange(200) % 9 == 0
    owner = run.image_of_text("dev").copy()
    owner[wrong] = np.roll(owner[wrong], 7)
    write_embeddings(folder, *map(np.array, run.embeddings("dev")), owner, captions=captions)
    return folder, wrong


def test_exchanged_captions_are_listed_first(exchanged):
    from sklearn.metrics import roc_auc_score  # for few tests

    folder, wrong = exchanged
    run = open_run(folder)
    owner = run.image_of_text("dev")
    table = data_quality.mismatches(run, "dev")
    assert (np.diff(table["score"]) <= 0).all()
    assert roc_auc_score(wrong[table["caption"]], table["score"].to_numpy()) > 0.95
    assert np.array_equal(table["image"], owner[table["caption"]])
    for level, low, high in zip(data_quality.LEVELS, (0.8, 0, 0), (1, 1, 0.05), strict=True):
        assert low <= wrong[table["caption"][table["level"] == level]].mean() <= high
    sample = draw_sample(40, owner, scores=2_000)
    part = data_quality.mismatches(run, "dev", sample=sample)
    assert sorted(part["caption"]) == sample.texts.tolist()
    assert set(part["image"]) <= set(sample.images.tolist())


def changed(folder, to, **values):
    """Copy a run with other values for keys of [data], [training] or [about] in its configuration; open the copy."""
    shutil.copytree(folder, to)
    document = tomllib.loads((to / "config.toml").read_text())
    for key, value in values.items():
        document[next((name for name in ("data", "training") if key in document[name]), "about")][key] = value
    (to / "config.toml").write_text(tomli_w.dumps(document))
    (to / "status.json").unlink()  # it belongs to the old configuration
    reseal(to)
    return open_run(to)


def test_each_half_scores_only_images_it_did_not_train_on(tmp_path):
    from sklearn.metrics import roc_auc_score  # for few tests

    folders, wrong = write_halves(tmp_path / "runs")
    first, second = map(open_run, folders)
    table = data_quality.cross_fitted(first, second)
    assert sorted(table["caption"]) == list(range(300))
    assert np.array_equal(table["image"], first.image_of_text("train")[table["caption"]])
    for run, unseen in zip((first, second), data_quality.unseen_images(first, second), strict=True):
        assert set(table["image"][table["scorer"] == run.name]) == set(unseen)
        assert len(unseen) == 30
    assert roc_auc_score(wrong[table["caption"]], table["score"].to_numpy()) > 0.95
    alone = data_quality.mismatches(first, "train")
    assert roc_auc_score(wrong[alone["caption"]], alone["score"].to_numpy()) < 0.9  # its own half looks right
    assert (np.diff(table["score"]) <= 0).all()
    assert data_quality.cross_fitted(second, first)["score"].tolist() == table["score"].tolist()
    sample = draw_sample(60, first.image_of_text("train"), scores=3_000)
    assert sorted(data_quality.cross_fitted(first, second, sample=sample)["caption"]) == sample.texts.tolist()


def test_runs_that_are_not_halves_of_one_train_split_cannot_judge_it(tmp_path):
    (half, other), _ = write_halves(tmp_path / "runs", images=8)
    first = open_run(half)
    runs = tmp_path / "others"
    without = changed(other, runs / "without")
    shutil.rmtree(without.path / "analysis")
    unlike = changed(other, runs / "captions", train_captions_sha256="1" * 64)
    also = changed(half, runs / "also", train_captions_sha256="1" * 64)
    reviewed = changed(other, runs / "reviews", reviews="x", reviews_sha256="1")
    for one, second, fact in (
        (first, first, r"\(half: --train-part 0.5 --seed 5; half: --train-part 0.5 --seed 5\)"),
        (first, changed(other, runs / "seed", seed=6), "seed: --train-part 0.5 --other-part --seed 6"),
        (first, changed(other, runs / "share", train_part=0.4), "share: --train-part 0.4 --other-part"),
        (first, changed(other, runs / "whole", train_part=1.0), "whole: all images"),
        (first, changed(other, runs / "features", train_features_sha256="1"), "half: .* different features"),
        (first, reviewed, "half: .* different reviews than run reviews"),
        (first, unlike, "half: .* different captions than run captions"),
        (also, unlike, "also: .* a different train split"),
        (first, open_run(without.path), "without: .*coder-lab evaluate|Python -m"),
    ):
        assert_refused(fact, data_quality.cross_fitted, one, second)


def test_one_image_gives_no_suspicion_and_vague_captions_have_few_content_words(exchanged):
    score, random = data_quality.suspicion(whole_split(*synthetic(1, noise=1.0, per_image=1)), [])
    assert (score.tolist(), random.tolist()) == ([0.0], [])
    run = open_run(exchanged[0])
    v, w = run.embeddings("dev")
    none = np.empty((40, 0), np.float32), np.empty((200, 0), np.float32)
    of_scores = data_quality.suspicion(whole_split(*none, run.image_of_text("dev"), v @ w.T), [])[0]
    expected = data_quality.suspicion(run.part("dev"), [])[0]
    np.testing.assert_allclose(of_scores, expected, rtol=1e-3, atol=1e-3)
    captions = ["There is something in this picture .", "A dog .", "two red balls on the grass", ""]
    table = data_quality.caption_table(captions)
    assert table[["content", "words"]].to_numpy().tolist() == [[0, 6], [1, 2], [4, 6], [0, 0]]


def test_other_splits_are_read_only_if_they_match_the_run(tmp_path, monkeypatch):
    data = tmp_path / "demo-data"
    data.mkdir()
    monkeypatch.setenv("CODER_DEMO", str(data))
    run = open_run(write_run(tmp_path / "runs", "demo", images=4))
    for split, captions in (("train", [f"train {i}" for i in range(20)]), ("dev", run.captions("dev"))):
        np.save(data / f"{split}_ims.npy", np.ones((4, 2, 3), np.float32))
        (data / f"{split}_caps.txt").write_text("".join(f"{caption}\n" for caption in captions))
    assert [split.name for split in data_quality.splits_of_run(run)] == ["train", "dev"]
    shutil.move(data / "train_caps.txt", tmp_path / "elsewhere.txt")
    (data / "train_caps.txt").symlink_to(tmp_path / "elsewhere.txt")
    [split] = data_quality.splits_of_run(run)  # a link leads out of the data
    assert split.name == "dev"
    (data / "train_caps.txt").unlink()
    shutil.move(tmp_path / "elsewhere.txt", data / "train_caps.txt")
    (data / "dev_caps.txt").write_text("".join(f"other {i}\n" for i in range(20)))
    [dev] = data_quality.splits_of_run(run)  # the folder now has other data
    assert dev.captions == run.captions("dev")


def test_error_probability_is_calibrated_on_a_known_mixture():
    random = np.random.default_rng(0)
    wrong = np.arange(20_000) < 8_000
    share = np.where(wrong, random.uniform(0, 100, 20_000), np.minimum(random.exponential(4, 20_000), 100))
    probability = data_quality.error_probability(share)
    assert (np.diff(probability[np.argsort(share)]) >= 0).all()
    assert abs(probability.mean() - 0.4) < 0.01
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.9), (0.9, 1.1)):
        within = (probability >= low) & (probability < high)
        assert abs(wrong[within].mean() - probability[within].mean()) < 0.05
    assert data_quality.error_probability(np.zeros(10)).tolist() == [0.0] * 10
    rare = np.repeat([0.0, 80.0], [29_994, 6])  # right pairs that look like random ones
    assert not data_quality.error_probability(rare).any()
    assert data_quality.error_probability(np.repeat([0.0, 80.0], [29_940, 60]))[-1] == 1


def test_shares_of_random_pairs_and_robust_deviations_by_hand():
    better = data_quality.random_ones_better(np.array([0.0, 2.0, 2.5, 9.0]), np.array([3.0, 1.0, 2.0, 4.0]))
    assert better.tolist() == [0, 25, 50, 100]
    assert data_quality.random_ones_better(np.array([1.0]), np.zeros(0)).tolist() == [0]
    matching = np.array([1.0, 2.0, 3.0, 4.0, 100.0, np.nan])  # the median is 3, the median deviation 1
    values = data_quality.standardised(np.array([3.0, 1.5174, np.nan]), matching)
    assert values == pytest.approx([0, -1, 0])
    mostly_equal = np.array([2.0, 2.0, 2.0, 6.0])  # so the standard deviation counts, √3
    assert data_quality.standardised(np.array([2 + 3**0.5]), mostly_equal) == pytest.approx([1])
    assert data_quality.standardised(np.array([2.0]), np.full(3, 2.0)).tolist() == [0]
    assert data_quality.standardised(np.array([5.0]), np.array([np.nan])).tolist() == [0]


def test_the_certainly_wrong_captions_of_an_image_count_with_the_least_weight():
    space = np.eye(3)[[0, 0, 1, 2]]
    weights = np.array([1.0, 0.01, 1.0, 1.0])
    owner = np.array([0, 0, 0, 1])
    unlike = data_quality._unlike_the_others(space, weights, owner, owner, 2)
    assert unlike == pytest.approx([-0.01 / 1.01, -1 / 2, 0, np.nan], nan_ok=True)
    alone = data_quality._unlike_the_others(space[:2], weights[:2], owner[:2], owner[:2], 1)
    assert alone == pytest.approx([-1, -1])  # the other one has a weight of 0.01
    elsewhere = data_quality._unlike_the_others(space, weights, owner, np.array([1, 1, 1, 0]), 2)
    assert elsewhere == pytest.approx([0, 0, 0, 0])


def found(*samples, what="", likeness=1.0):
    return Finding(tuple(samples), what, likeness)


def test_findings_are_listed_by_their_first_sample_and_exported_by_every_sample():
    files = data_quality.GuardedFiles(None, ["a.jpg", "b.jpg"])
    dev = CaptionedSplit("dev", ["a.jpg", "b.jpg"], ["x", "y", "z"], np.array([1, 0, 1]), files, np.arange(2))
    train = CaptionedSplit("train", ["c.jpg"], ["x"], np.array([0]), files, np.arange(1))
    pictures = [found(("dev", 1), ("train", 0), likeness=0.5), found(("train", 0), what="tiny")]
    table = data_quality.finding_table(pictures, [dev, train], captions=False)
    assert table.to_numpy().tolist() == [
        ["b.jpg", "", 2, "dev, train", 50],
        ["c.jpg", "tiny", 1, "train", 100],
    ]
    rows = data_quality.sample_rows(pictures, [dev, train], captions=False)
    assert list(rows.columns) == ["group", "split", "image id", "file", "caption", "what", "likeness"]
    assert rows.to_numpy().tolist() == [
        [0, "dev", 1, "b.jpg", "x | z", "", 0.5],
        [0, "train", 0, "c.jpg", "x", "", 0.5],
        [1, "train", 0, "c.jpg", "x", "tiny", 1.0],
    ]
    texts = [found(("dev", 0), ("train", 0))]
    assert data_quality.finding_table(texts, [dev, train], captions=True)["first"].tolist() == ["x"]
    rows = data_quality.sample_rows(texts, [dev, train], captions=True)
    assert rows[["caption id", "file", "caption"]].to_numpy().tolist() == [
        [0, "b.jpg", "x"],
        [0, "c.jpg", "x"],
    ]
    assert data_quality.split_thumbnail(dev, 0, 32) is None


def test_data_that_cannot_be_read_has_no_splits(tmp_path):
    assert data_quality.data_splits("") == []
    assert data_quality.data_splits(str(tmp_path / "none")) == []
    write_split(tmp_path / "data", "train")
    write_split(tmp_path / "data", "dev")
    splits = data_quality.data_splits(str(tmp_path / "data"))
    assert {split.name: len(split.captions) for split in splits} == {"train": 8, "dev": 8}
    assert splits[0].image_names == [f"image {row}" for row in range(4)]
    (tmp_path / "data" / "dev_caps.txt").unlink()
    assert [split.name for split in data_quality.data_splits(str(tmp_path / "data"))] in ([], ["train"])
