"""Branches that train together, and imitation between branches: what each learns from whom, and what is saved."""

import pytest
import torch

from coder_core.training.parts.make import make_boosting
from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support.boosting import boosted, by_loops, same, scores, take, weights
from tests.support.tiny_runs import quiet


def online(data, **values):
    return boosted(data, **{"boosting_scenario": "online", "boosting_branches": 3} | values)


def branches_of(config):
    prepared = prepare(config)
    return prepared, make_boosting(config, prepared)


NAMES = ("branch-1 boosting-{}", "branch-2 boosting-{}", "boosting-{}")


EARLIER = {1: (0,), 2: (0, 1)}


@pytest.mark.parametrize(
    ("form", "teachers"), [("rm", EARLIER), ("am", EARLIER), ("dml", {0: (1, 2), 1: (0, 2), 2: (0, 1)})]
)
def test_every_branch_is_set_against_all_before_it_and_their_losses_are_averaged(data, form, teachers):
    """Under mutual learning against every other. A branch without teachers has no such loss."""
    config = online(data, dropout=False, boosting=form)
    prepared, branches = branches_of(config)
    batch = prepared.batches(0)
    parts = take(prepared, branches, config, batch).parts
    rows = [scores(model, batch) for model in (*branches.branches, prepared.model)]
    ids = batch.image_ids.tolist()
    expected = {}
    for number, others in teachers.items():
        losses = [sum(by_loops(form, rows[number], rows[other], ids)) for other in others]
        expected[NAMES[number].format(form)] = sum(losses) / len(losses) / len(ids)
    actual = {name: value.item() for name, value in parts.items() if "boosting" in name}
    assert actual == pytest.approx(expected, rel=1e-4)


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
    batch = prepared.batches(0)
    dropped = [take(prepared, part, online(data), batch).parts["btr-sum"] for part in (branches, None)]
    assert dropped[0] == dropped[1]  # the target's dropout, too, is that of a run alone


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
