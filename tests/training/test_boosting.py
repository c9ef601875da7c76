"""Boosting in training: the loss on top of another, the teacher and how it moves, branches that train together."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.config.presets import PRESETS
from coder_core.console.faults import InputError
from coder_core.objectives.memory import cosine_momentum
from coder_core.runs.load import load_model, read_config
from coder_core.training.launch import continue_run, start_run
from coder_core.training.parts.boosting import BoostingTeacher
from coder_core.training.prepare import check_teacher_momentum, make_boosting, prepare
from coder_core.training.trainer import Trainer
from tests.support.precomp_folders import assert_refused
from tests.support.steps import by_loops, same, scores, started, take, weights
from tests.support.tiny_runs import assert_same_run, changed, quiet, tiny_config
from tests.support.trained_runs import stop_during

boosted = partial(tiny_config, part="boosting")

STEPS = 15
FORMS = ("rs", "rm", "as", "am")
AVERAGED = {"rs-as": ["rs", "as"], "rm-am": ["rm", "am"]}
IMITATIONS = ("dr", "rkd", "dml", "dino", "dino-reversed")
# of online branches
NAMES = ("branch-1 ", "branch-2 ", "")
EARLIER = {1: (0,), 2: (0, 1)}


@pytest.mark.parametrize(
    ("form", "values"),
    [
        *((form, {}) for form in (*FORMS, *AVERAGED, *IMITATIONS)),
        *(("am", values) for values in ({"embeddings": 3}, {"scorer": "interaction"})),
        *(("am", {"loss": loss}) for loss in ("btr-hardest", "infonce", "cmpm", "polynomial", "dcl")),
    ],
)
def test_boosting_is_added_to_any_loss_as_a_sum_over_the_batch(data, form, values):
    """A combined form is the mean of two."""
    usual = {"boosting_weight": 0.5, "boosting_margin": 0.4, "boosting_split": 0.3}
    usual |= {"boosting_temperature": 0.3, "boosting_teacher_temperature": 0.2}
    config = boosted(data, dropout=False, boosting=form, **usual | values)
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    plain = take(prepared, None, config, batch)
    actual = take(prepared, boosting, config, batch)
    ids = batch.image_ids.tolist()
    sides = (scores(prepared.model, batch), scores(boosting.branch, batch))
    numbers = {"margin": 0.4, "split": 0.3, "temperatures": (0.3, 0.2)}
    halves = [by_loops(one, *sides, ids, **numbers) for one in AVERAGED.get(form, [form])]
    expected = sum(halves) / len(halves)
    assert expected > 0
    near = 1e-3 if form in IMITATIONS else 1e-4
    assert actual.total.item() - plain.total.item() == pytest.approx(0.5 * expected, rel=near)
    assert actual.parts.pop(f"boosting-{form}").item() == pytest.approx(expected / len(ids), rel=near)
    assert actual.parts == plain.parts


def test_boosting_and_its_switches_take_effect_only_after_its_start(data):
    """γ is so large that the soft one is smaller everywhere; the second pair is of the first one's image."""
    config = boosted(data, dropout=False, boosting="as", boosting_margin=3.0)
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    first, _, *others = batch.image_ids.tolist()
    batch = replace(batch, image_ids=torch.tensor([first, first, *others]))

    def loss(**change):
        return take(prepared, boosting, changed(config, **change), batch).parts["boosting-as"].item()

    assert loss(boosting_soft=True) < loss() < loss(same_image_negatives=True)
    # Before that, a step equals a plain step bit for bit
    config = boosted(data, dropout=False, boosting_start_epoch=6.0)  # `take` is at epoch 5
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    waiting = take(prepared, boosting, config, batch)
    plain = take(prepared, None, config, batch)
    assert torch.equal(waiting.total, plain.total)
    assert waiting.parts == plain.parts
    assert "boosting-am" in take(prepared, boosting, changed(config, boosting_start_epoch=0.0), batch).parts
    before = weights(boosting.branch)
    boosting.after_step(prepared.model, 0)
    assert not same(before, weights(boosting.branch))


def test_the_teacher_has_no_dropout_or_gradient_and_draws_no_random_numbers(data):
    """It gets no gradient. A moving teacher normalises by the batch, a fixed one by its stored statistics."""
    config = boosted(data)
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    assert torch.equal(boosting.encode(batch)[0].images, boosting.encode(batch)[0].images)
    plain = take(prepared, None, config, batch)
    actual = take(prepared, boosting, config, batch)
    assert actual.parts["btr-sum"] == plain.parts["btr-sum"]
    (actual.total - plain.total).backward()
    assert all(parameter.grad is None for parameter in boosting.parameters())
    assert any(parameter.grad.any() for parameter in prepared.model.parameters())
    for momentum, training, file in ((0.9, True, "anchor"), (None, False, None)):
        teacher = BoostingTeacher(prepare(config).model, STEPS, momentum)
        norms = [m for m in teacher.branch.modules() if isinstance(m, torch.nn.BatchNorm1d)]
        assert ({norm.training for norm in norms}, teacher.state_file) == ({training}, file)


def trainer_of(config, folder):
    return Trainer(config, folder, prepare(config), torch.device("cpu"), quiet())


def test_the_teacher_follows_the_cosine_and_branches_clip_separately(data, tmp_path):
    trainer = trainer_of(boosted(data), tmp_path)
    expected = {name: value.detach().double() for name, value in trainer.model.named_parameters()}
    for step, batch in enumerate(trainer.prepared.batches.stream(0, 3)):
        trainer._step(batch)
        stays = cosine_momentum(step, STEPS, 0.7)
        for name, value in trainer.model.named_parameters():
            expected[name] = stays * expected[name] + (1 - stays) * value.detach().double()
    for name, value in trainer.objective.parts[0].branch.named_parameters():
        torch.testing.assert_close(value.double(), expected[name], atol=1e-6, rtol=1e-5)
    config = online(data)
    trainer = trainer_of(config, tmp_path)
    (branches,) = trainer.objective.parts
    before = [p.detach().clone() for p in branches.parameters()]
    trainer._step(trainer.prepared.batches(0))
    for named in trainer.clip_groups:
        norm = torch.nn.utils.get_total_norm([p.grad for p in named.values() if p.grad is not None])
        assert 0 < norm <= config.training.clip_norm * 1.001
    assert not any(torch.equal(p, q) for p, q in zip(before, branches.parameters(), strict=True))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A finished run that serves as teacher."""
    config = boosted(data, "first", boosting="none", epochs=2)
    return start_run(config, tmp_path_factory.mktemp("anchors"), quiet())


def test_too_high_a_teacher_momentum_gives_a_warning_with_one_that_fits(data):
    """Flickr8k's eight epochs are 1,872 steps: 95% of the random start would remain. The preset for boosting differs from
    its baseline only by boosting, and its momentum fits."""
    preset, baseline = (PRESETS[f"flickr8k-{name}"].config for name in ("boosted", "baseline"))
    (fault,) = check_teacher_momentum(changed(baseline, boosting="am"), 1_872)
    assert (fault.severity, fault.place) == ("warning", "--boosting-momentum")
    for number in ("0.99995", "1,872", "95%", "0.9968", "5%"):
        assert number in str(fault)
    assert check_teacher_momentum(changed(baseline, boosting="am", boosting_momentum=0.9968), 1_872) == []
    faults = prepare(boosted(data, boosting_momentum=0.99995)).faults
    assert "--boosting-momentum" in [fault.place for fault in faults]
    assert replace(preset, boosting=baseline.boosting) == baseline
    assert preset.boosting.boosting == "rm"
    assert check_teacher_momentum(preset, 1_872) == []


def offline(data, anchor, **boosting):
    return boosted(data, boosting_scenario="offline", boosting_teacher=str(anchor), **boosting)


def test_an_offline_target_starts_from_the_teacher_or_from_scratch(data, finished, tmp_path):
    """The teacher remains the best model of its run."""
    best = weights(load_model(finished).model)
    scratch = weights(prepare(boosted(data, boosting="none")).model)
    assert same(weights(prepare(offline(data, finished, boosting_start="scratch")).model), scratch)
    trainer = trainer_of(offline(data, finished), tmp_path)
    assert same(weights(trainer.model), best)
    for batch in trainer.prepared.batches.stream(0, 2):
        trainer._step(batch)
    assert same(weights(trainer.objective.parts[0].branch), best)
    assert not same(weights(trainer.model), best)


def test_a_part_of_the_train_images_keeps_the_vocabulary_of_all(data, finished):
    """So a teacher with less data knows the words of its student."""
    settings = ((1.0, 1, False), (0.5, 1, False), (0.25, 1, False), (0.5, 2, False), (0.25, 1, True))
    keys = ("train_part", "seed", "other_part")
    student = offline(data, finished)
    parts = [prepare(changed(student, **dict(zip(keys, values, strict=True)))) for values in settings]
    whole, half, *others = parts
    images = [set(each.data.train.image_of_text.tolist()) for each in (whole, half, *others)]
    assert [len(part) for part in images] == [20, 10, 5, 10, 15]
    assert images[4] == images[0] - images[2]
    assert images[2] < images[1] < images[0]
    assert images[3] != images[1]
    pairs = zip(whole.data.train.image_of_text.tolist(), whole.data.train.captions, strict=True)
    assert half.data.train.captions == [caption for image, caption in pairs if image in images[1]]
    assert half.words.vocabulary == whole.words.vocabulary
    assert half.data.checksums == whole.data.checksums
    assert 2 * half.batches.per_epoch <= whole.batches.per_epoch + 1


def test_the_teacher_of_a_resumed_run_may_move_but_not_change(data, finished, tmp_path):
    whole = start_run(offline(data, finished, boosting="rm", epochs=1), tmp_path / "whole", quiet())
    stopped = stop_during(whole, tmp_path / "tiny", 3)
    config, _ = read_config(stopped)
    other = start_run(boosted(data, "other", boosting="none", seed=9, epochs=1), tmp_path, quiet())
    with pytest.raises(InputError, match=r"--boosting-teacher .*different best model"):
        continue_run(stopped, changed(config, boosting_teacher=str(other)), quiet())
    moved = shutil.copytree(finished, tmp_path / "moved")
    continue_run(stopped, changed(config, boosting_teacher=str(moved)), quiet())
    assert_same_run(stopped, whole)


def test_a_teacher_of_another_model_sets_margins_but_gives_no_start(data, finished):
    shape = r"(?s)--boosting-start.*\n.*linear\.weight has shape \(8, 6\); expected \(12, 6\)"
    for values, message in (({"dimension": 12}, shape), ({"region_norm": "rms"}, "first: .*norm none.*rms")):
        config = offline(data, finished, **values)
        assert_refused(message, prepare, config)
        scratch = changed(config, boosting_start="scratch")
        prepared, boosting = started(scratch)
        assert take(prepared, boosting, scratch, prepared.batches(0)).parts["boosting-am"] > 0


def test_an_incompatible_teacher_is_refused_before_anything_is_written(data, finished, tmp_path):
    """It is not a finished run with the same words and features."""
    stopped = stop_during(finished, tmp_path / "stopped", 7)
    broader = Path(shutil.copytree(data, tmp_path / "broader"))
    for features in broader.glob("*_ims.npy"):
        np.save(features, np.pad(np.load(features), ((0, 0), (0, 0), (0, 1))))
    for config, message in (
        (offline(data, tmp_path / "nowhere"), "expected a finished run"),
        (offline(data, stopped), f"{stopped}: .*stopped"),
        (changed(offline(data, finished), word_threshold=12), r"vocabulary .*\b17\b"),
        (offline(broader, finished), r"\b6\b.*\b7\b"),
    ):
        assert_refused(f"--boosting-teacher .*{message}", start_run, config, tmp_path / "runs", quiet())
    assert not (tmp_path / "runs").exists()


def online(data, **values):
    return boosted(data, **{"boosting_scenario": "online", "boosting_branches": 3} | values)


def branches_of(config):
    prepared = prepare(config)
    return prepared, make_boosting(config, prepared)


@pytest.mark.parametrize(
    ("form", "teachers"), [("rm", EARLIER), ("am", EARLIER), ("dml", {0: (1, 2), 1: (0, 2), 2: (0, 1)})]
)
def test_every_branch_learns_from_all_earlier_ones_by_the_mean_loss(data, form, teachers):
    """In mutual learning, against all others. A branch without teachers has no such loss. The total is the sum of every
    branch's raw loss and boosting."""
    config = online(data, dropout=False, boosting=form, boosting_weight=0.5)
    prepared, branches = branches_of(config)
    batch = prepared.batches(0)
    losses = take(prepared, branches, config, batch)
    rows = [scores(model, batch) for model in (*branches.branches, prepared.model)]
    ids = batch.image_ids.tolist()
    expected = {}
    for number, others in teachers.items():
        against = [by_loops(form, rows[number], rows[other], ids) for other in others]
        expected[f"{NAMES[number]}boosting-{form}"] = sum(against) / len(against) / len(ids)
    actual = {name: value.item() for name, value in losses.parts.items()}
    raw = [actual.pop(f"{name}btr-sum") for name in NAMES]
    assert actual == pytest.approx(expected, rel=1e-4)
    assert losses.total.item() == pytest.approx(8 * (sum(raw) + 0.5 * sum(actual.values())), rel=1e-4)


def test_branches_have_their_own_seeds_and_losses(data):
    """The margins of later branches give an earlier one no gradient: the first of two trains as if it were alone."""
    gradients = []
    for margin in (0.2, 5.0):
        config = online(data, boosting_branches=2, boosting_margin=margin)
        prepared, branches = branches_of(config)
        take(prepared, branches, config, prepared.batches(0)).total.backward()
        gradients.append([parameter.grad for parameter in branches.parameters()])
        assert all(p.grad is not None for p in prepared.model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    alone = weights(prepare(boosted(data, boosting="none")).model)
    prepared, branches = branches_of(online(data))
    assert same(weights(prepared.model), alone)
    starts = [model.regions.linear.weight for model in (*branches.branches, prepared.model)]
    assert not any(torch.equal(starts[i], starts[j]) for i in range(3) for j in range(i))
    again = branches_of(online(data))[1]
    assert all(torch.equal(p, q) for p, q in zip(branches.parameters(), again.parameters(), strict=True))
    batch = prepared.batches(0)
    dropped = [take(prepared, part, online(data), batch).parts["btr-sum"] for part in (branches, None)]
    assert dropped[0] == dropped[1]  # the target's dropout is also that of a run alone
