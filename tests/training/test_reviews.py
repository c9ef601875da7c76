"""--reviews: pairs left out, weighted and added by verdicts; an empty file changes no bit; a run keeps its reviews."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.data.dataset import read_split
from coder_core.data.reviews import CLEANING, Review, append_review, image_keys
from coder_core.runs.load import read_config
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import Inputs, make_objective, prepare
from coder_core.training.reviewed import UsedReviews, apply_reviews, named_reviews
from tests.support.steps import compute_losses
from tests.support.tiny_runs import STILL, assert_same_run, changed, events, printed, quiet, tiny_config
from tests.support.trained_runs import stop_during


@pytest.fixture(scope="module")
def train(data):
    return read_split(data, "train")


def judge(train, *verdicts):
    """Return verdicts, given as (caption row, image row, verdict), by content: (image key, caption) → verdict."""
    keys = image_keys(train.image_names, train.captions, train.image_of_text, train.n_images)
    return {(keys[image], train.captions[caption]): verdict for caption, image, verdict in verdicts}


def written(path, verdicts):
    path.touch()
    for (image, caption), verdict in verdicts.items():
        append_review(path, Review(image, caption, verdict, "anna"))
    return path


@pytest.fixture(scope="module")
def reviews(train, tmp_path_factory):
    """Caption 0 is wrong and belongs to image 3, caption 4 is vague, caption 6 also matches image 9."""
    rows = (0, 0, "wrong-caption"), (0, 3, "also-matches"), (4, 2, "too-vague"), (6, 9, "also-matches")
    return written(tmp_path_factory.mktemp("reviews") / "reviews.jsonl", judge(train, *rows))


def reviewed(data, file, **values):
    return tiny_config(data, reviews=str(file), **values)


def prepared(config):
    return prepare(config, Inputs(reviews=named_reviews(config)))


def test_an_empty_review_file_changes_no_bit(data, tmp_path):
    empty = written(tmp_path / "empty.jsonl", {})
    plain = start_run(tiny_config(data, epochs=1), tmp_path / "plain", quiet())
    assert_same_run(start_run(reviewed(data, empty, epochs=1), tmp_path / "reviewed", quiet()), plain)
    assert events(plain), "the histories, which are equal too, hold the losses"


def test_reviews_drop_weight_and_add_pairs_and_shared_captions_are_not_negatives(train, data, reviews):
    config = reviewed(data, reviews)
    result = apply_reviews(train, named_reviews(config), config.data)
    assert result.split.captions == [*train.captions[1:], train.captions[0], train.captions[6]]
    assert result.split.image_of_text.tolist() == [*train.image_of_text[1:].tolist(), 3, 9]
    assert np.flatnonzero(result.weights != 1).tolist() == [3], "caption 4, behind the one left out"
    assert result.weights[3] == 0.5
    # caption 6 belongs to 3 and 9, caption 0 to 3 alone
    assert result.image_groups[[0, 3, 9, 1]].tolist() == [0, 3, 3, 1]
    for fact in ("(wrong-caption): 1", "0.5 (too-vague): 1", "(also-matches): 2"):
        assert fact in str(result.faults[-1])
    steps = prepared(reviewed(data, reviews, bank_size=0)).batches
    batches = [steps(step) for step in range(steps.per_epoch)]
    pairs = [pair for batch in batches for pair in zip(batch.image_ids, batch.pair_ids, strict=True)]
    assert {int(group) for image, group in pairs if image in (3, 9)} == {3}
    assert all(int(group) == int(image) for image, group in pairs if image not in (3, 9))
    assert {int(image) for image, _ in pairs} >= {3, 9}


def test_doubts_about_a_captions_own_pair_do_not_lower_an_added_ones_weight(train, data, reviews):
    config = reviewed(data, reviews, wrong_weight=0.25)
    used = named_reviews(config)
    [weighed] = judge(train, (6, 3, "none"))
    assert apply_reviews(train, used, config.data).weights[-2:].tolist() == [1, 1]
    result = apply_reviews(train, replace(used, weights={weighed: "0.75"}), config.data)
    assert result.weights[[0, 4, 6, -2, -1]].tolist() == [0.25, 0.5, 0.75, 1, 1]
    vague = replace(used, verdicts=used.verdicts | {weighed: "too-vague"})
    assert apply_reviews(train, vague, config.data).weights[[6, -1]].tolist() == [0.5, 0.5]


def test_every_use_of_reviews_can_be_switched_off(train, data, reviews):
    off = reviewed(data, reviews, wrong_weight=1.0, vague_weight=1.0, also_matches=False)
    result = apply_reviews(train, named_reviews(off), off.data)
    assert result.split is train
    assert result.weights is None
    assert result.image_groups is None
    assert "also-matches without effect, because of --no-also-matches: 2" in str(result.faults[-1])
    assert "pairs unchanged, because these verdicts have weight 1 (too-vague): 1" in str(result.faults[-1])
    confirmed = UsedReviews(judge(train, (5, 2, "label-right"), (6, 3, "also-matches")))
    result = apply_reviews(train, confirmed, replace(off.data, also_matches=True))
    assert "also-matches without effect, because the pair is a label: 1" in str(result.faults[-1])
    assert "pairs unchanged, because their label is right (label-right): 1" in str(result.faults[-1])
    without = changed(off, vague_weight=0.0)
    result = apply_reviews(train, named_reviews(without), without.data)
    assert result.split.captions == [*train.captions[:4], *train.captions[5:]]
    result = apply_reviews(train, UsedReviews({("x.jpg", "no such caption"): "wrong-caption"}), off.data)
    assert result.split is train
    assert "outside train: 1" in str(result.faults[-1])
    repeated = UsedReviews(judge(train, (5, 2, "duplicate")))
    assert apply_reviews(train, repeated, off.data).split is train
    assert apply_reviews(train, repeated, replace(off.data, duplicate_weight=0.25)).weights[5] == 0.25


def test_verdicts_of_clean_on_pairs_that_train_lacks_are_a_warning(train, data, tmp_path):
    config = reviewed(data, tmp_path / "r.jsonl")
    pairs = judge(train, (0, 0, "none"), (1, 0, "none"))
    for image, caption in (*pairs, ("x.jpg", "edited")):
        append_review(tmp_path / "r.jsonl", Review(image, caption, "wrong-caption", CLEANING))
    warning = apply_reviews(train, named_reviews(config), config.data).faults[-1]
    assert (warning.severity, warning.place) == ("warning", f"--reviews {config.data.reviews}")
    assert "1 of 3" in warning.found


def test_a_review_weight_multiplies_only_the_loss_of_its_pair(train, data, tmp_path):
    verdicts = judge(train, *((row, row // 2, "too-vague") for row in range(8)))
    vague = written(tmp_path / "vague.jsonl", verdicts)
    config = reviewed(data, vague, bank_size=0, vague_weight=0.25, **STILL)
    reviewed_run = prepared(config)
    plain = prepare(config)
    batches = (reviewed_run.batches(step) for step in range(20))
    batch = next(batch for batch in batches if 0 < (batch.text_ids < 8).sum() < 8)
    torch.testing.assert_close(reviewed_run.model.state_dict(), plain.model.state_dict(), rtol=0, atol=0)
    parts = make_objective(config, reviewed_run, torch.device("cpu")).parts
    weighed = compute_losses(reviewed_run.model.eval(), batch, config, parts, epoch=0.0)
    unweighed = compute_losses(plain.model.eval(), batch, config, (), epoch=0.0)
    expected = torch.where(batch.text_ids < 8, 0.25, 1.0)
    torch.testing.assert_close(weighed.per_pair, unweighed.per_pair * expected)
    torch.testing.assert_close(weighed.total, (unweighed.per_pair * expected).mean())


@pytest.mark.parametrize("other", [False, True])
def test_review_weights_stay_with_their_pairs_in_a_part_of_train(train, data, tmp_path, other):
    judged = [row for row in range(train.n_texts) if row % 3 == 0]
    vague = written(tmp_path / "vague.jsonl", judge(train, *((row, row // 2, "too-vague") for row in judged)))
    part = {"train_part": 0.4, "other_part": other, "vague_weight": 0.25}
    share = prepared(reviewed(data, vague, bank_size=0, **part)).data
    weighed = [0.25 if row in judged else 1.0 for row in range(train.n_texts)]
    images = set(share.train.image_of_text.tolist())
    expected = [weight for row, weight in enumerate(weighed) if train.image_of_text[row] in images]
    assert share.review_weights.tolist() == expected
    assert 0 < len(expected) < train.n_texts


def test_a_resumed_run_keeps_its_first_verdicts(data, reviews, tmp_path):
    source = shutil.copy(reviews, tmp_path / "reviews.jsonl")
    whole = start_run(reviewed(data, source, epochs=2), tmp_path / "whole", quiet())
    assert "reviews.json" in json.loads((whole / "manifest.json").read_text())["files"]
    assert "anna" not in (whole / "reviews.json").read_text(), "a run names no reviewer"
    stopped = stop_during(whole, tmp_path / "tiny", 7)
    append_review(source, Review("x.jpg", "another one", "wrong-caption", "ben"))
    console = quiet()
    continue_run(stopped, None, console)
    assert f"--reviews {source}: has new verdicts" in printed(console)
    assert_same_run(stopped, whole)

    stored = read_config(stopped)[0]
    grown = shutil.copy(source, tmp_path / "other.jsonl")
    for file in ("none.jsonl", grown, ""):
        with pytest.raises(InputError, match=str(file) or r"--reviews: is ''; expected '.*reviews.jsonl'"):
            continue_run(stopped, changed(stored, reviews=str(file)), quiet())
    moved = shutil.copy(reviews, tmp_path / "moved.jsonl")
    continue_run(stopped, changed(stored, reviews=str(moved)), quiet())
