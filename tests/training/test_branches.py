"""Branches that train together, and imitation between branches: what each learns from whom, and what is saved."""

import pytest
import torch

from coder_core.runs.load import best_save, load_model
from coder_core.training.launch import start_run
from coder_core.training.parts.make import make_boosting
from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support.boosting import boosted, by_loops, same, scores, started, take, weights
from tests.support.tiny_runs import events, newest_state, quiet


def online(data, **values):
    return boosted(data, **{"boosting_scenario": "online", "boosting_branches": 3} | values)


def branches_of(config):
    prepared = prepare(config)
    return prepared, make_boosting(config, prepared)


def every_score(prepared, branches, batch):
    """Return the scores of the earlier branches in order, the target's last."""
    return [scores(model, batch) for model in (*branches.branches, prepared.model)]


NAMES = ("branch-1 boosting-{}", "branch-2 boosting-{}", "boosting-{}")


def assert_mean_against(data, form, teachers):
    """Check each branch's loss, the mean over its teachers; a branch without teachers has none."""
    config = online(data, dropout=False, boosting=form)
    prepared, branches = branches_of(config)
    batch = prepared.batches(0)
    parts = take(prepared, branches, config, batch).parts
    rows, ids = every_score(prepared, branches, batch), batch.image_ids.tolist()
    for number, name in enumerate(NAMES):
        if number not in teachers:
            assert name.format(form) not in parts
            continue
        losses = [sum(by_loops(form, rows[number], rows[other], ids)) for other in teachers[number]]
        expected = sum(losses) / len(losses) / len(ids)
        assert parts[name.format(form)].item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", ["rm", "am"])
def test_every_branch_is_set_against_all_before_it_and_their_losses_are_averaged(data, form):
    assert_mean_against(data, form, {1: (0,), 2: (0, 1)})


def test_mutual_learning_sets_every_branch_against_every_other(data):
    assert_mean_against(data, "dml", {0: (1, 2), 1: (0, 2), 2: (0, 1)})


def test_the_total_is_every_branchs_raw_loss_and_its_boosting(data):
    config = online(data, boosting_weight=0.5)
    prepared, branches = branches_of(config)
    losses = take(prepared, branches, config, prepared.batches(0))
    raw, added = {"btr-sum", "branch-1 btr-sum", "branch-2 btr-sum"}, {"boosting-am", "branch-2 boosting-am"}
    assert set(losses.parts) == raw | added
    shares = [(0.5 if "boosting" in name else 1.0) * value.item() for name, value in losses.parts.items()]
    assert losses.total.item() == pytest.approx(sum(shares) * 8, rel=1e-4)


def test_a_branch_learns_by_its_own_losses_alone(data):
    """The margins of later branches give it no gradient: of two branches the first trains as if it were alone."""
    gradients = []
    for margin in (0.2, 5.0):
        config = online(data, boosting_branches=2, boosting_margin=margin)
        prepared, branches = branches_of(config)
        take(prepared, branches, config, prepared.batches(0)).total.backward()
        gradients.append([parameter.grad for parameter in branches.parameters()])
        assert all(p.grad is not None for p in prepared.model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_branches_start_from_other_seeds_and_the_target_from_the_runs_own(data):
    alone = weights(prepare(boosted(data, boosting="none")).model)
    prepared, branches = branches_of(online(data))
    assert same(weights(prepared.model), alone)
    starts = [model.regions.linear.weight for model in (*branches.branches, prepared.model)]
    assert not any(torch.equal(starts[i], starts[j]) for i in range(3) for j in range(i))
    again = branches_of(online(data))[1]
    assert all(torch.equal(p, q) for p, q in zip(branches.parameters(), again.parameters(), strict=True))


def test_the_targets_dropout_is_that_of_a_run_alone(data):
    config = online(data)
    prepared, branches = branches_of(config)
    actual, alone = (take(prepared, part, config, prepared.batches(0)) for part in (branches, None))
    assert actual.parts["btr-sum"] == alone.parts["btr-sum"]


def test_every_branch_learns_and_clips_its_own_gradient(data, tmp_path):
    config = online(data)
    prepared = prepare(config)
    trainer = Trainer(config, tmp_path, prepared, torch.device("cpu"), quiet())
    (branches,) = trainer.parts
    before = [p.detach().clone() for p in branches.parameters()]
    trainer._step(prepared.batches(0))
    for named in trainer.clip_groups:
        norm = torch.nn.utils.get_total_norm([p.grad for p in named.values() if p.grad is not None])
        assert 0 < norm <= config.training.clip_norm * 1.001
    assert not any(torch.equal(p, q) for p, q in zip(before, branches.parameters(), strict=True))


def test_the_state_holds_every_branch_and_the_best_model_the_target(data, tmp_path):
    run = start_run(online(data, epochs=1), tmp_path, quiet())
    others, model = (newest_state(run).tensors(stem) for stem in ("anchor", "model"))
    assert set(others) == {f"branches.{number}.{name}" for number in (0, 1) for name in model}
    assert set(best_save(run).manifest["files"]) == {"model.safetensors", "metrics.json"}
    assert load_model(run).encode_text(["a red star"]).shape == (1, 8)
    assert "branch-2 boosting-am" in events(run, "step")[0]["losses"]


@pytest.mark.parametrize("form", ["rs-as", "rm-am"])
def test_two_forms_are_averaged(data, form):
    parts = {}
    for one in (form, *form.split("-")):
        config = boosted(data, dropout=False, boosting=one)
        prepared, teacher = started(config)
        parts[one] = take(prepared, teacher, config, prepared.batches(0)).parts[f"boosting-{one}"].item()
    first, second = form.split("-")
    assert parts[form] == pytest.approx((parts[first] + parts[second]) / 2, rel=1e-5)


@pytest.mark.parametrize("form", ["dr", "rkd", "dml", "dino", "dino-reversed"])
def test_imitation_of_a_moving_average_reads_its_temperatures(data, form):
    temperatures = {"boosting_temperature": 0.3, "boosting_teacher_temperature": 0.2}
    config = boosted(data, dropout=False, boosting=form, **temperatures)
    prepared, teacher = started(config)
    batch = prepared.batches(0)
    sides = scores(prepared.model, batch), scores(teacher.branch, batch)
    expected = sum(by_loops(form, *sides, batch.image_ids.tolist(), temperatures=(0.3, 0.2)))
    part = take(prepared, teacher, config, batch).parts[f"boosting-{form}"]
    assert part.item() * len(batch.image_ids) == pytest.approx(expected, rel=1e-3)
