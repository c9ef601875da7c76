"""One step: the order of twin, keys, loss and bank; the losses against the plain functions; the learned scale."""

import copy
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import gradcheck

from coder_core.config.schema import Config
from coder_core.config.training import ObjectiveConfig
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid, projection_matching
from coder_core.objectives.memory import CoupledBank
from coder_core.objectives.pairs import Keys, both_directions, gather_anchors
from coder_core.objectives.triplet import polynomial_hardest, triplet_hardest, triplet_sum
from coder_core.ops import normalise
from coder_core.runs.record import read_frame
from coder_core.training.parts.scale import LearnedScale
from coder_core.training.prepare import make_objective, prepare
from coder_core.training.step import Objective, concept_loss
from coder_core.training.trainer import Trainer
from tests.reference import step as reference
from tests.reference.problems import random_problem
from tests.support.steps import embed, take, with_memory
from tests.support.tiny_runs import STILL, quiet, tiny_config


def plain_config(data, *, bank=0, **objective):
    """Return a configuration without dropout, so that a batch embeds alike twice, with float32 keys as in the loops."""
    return tiny_config(data, bank_size=bank, twin_precision="float32", **STILL | objective)


def test_the_twin_is_updated_first_and_its_keys_enter_after_the_loss(data):
    config = plain_config(data, bank=16)
    prepared, memory = with_memory(config)
    with torch.no_grad():
        for parameter in prepared.model.parameters():
            parameter.add_(0.1)
    before = copy.deepcopy(memory.twin)
    batch = prepared.batches(0)
    take(prepared, memory, config, batch)
    models = (memory.twin, before, prepared.model)
    for slow, old, fast in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(slow, 0.995 * old + 0.005 * fast)
    assert memory.bank.count == 0
    memory.after_step(prepared.model, 0)
    images, texts, *_ = embed(memory.twin, batch)  # the updated twin's keys of the current step
    torch.testing.assert_close(memory.bank.images[:8].double(), images)
    torch.testing.assert_close(memory.bank.texts[:8].double(), texts)
    assert torch.equal(memory.bank.image_ids[:8], batch.image_ids)
    memory.after_step(prepared.model, 0)
    assert memory.bank.count == 8  # remembering twice adds nothing


def test_without_twin_dropout_keys_equal_those_of_a_model_without_dropout(data):
    """Keys of a momentum encoder without dropout, in training mode: batch norm normalises by the batch."""
    usual = {"bank_size": 16, "twin_precision": "float32", "momentum": 0.0}
    prepared, memory = with_memory(tiny_config(data, **usual, twin_dropout=False))
    batch = prepared.batches(0)
    keys = memory.encode_keys(prepared.model, batch)
    still = prepare(plain_config(data))
    still.model.load_state_dict(prepared.model.state_dict())
    for key, expected in zip(keys, embed(still.model, batch)[:2], strict=True):
        torch.testing.assert_close(key.double(), expected)
    with_dropout, memory = with_memory(tiny_config(data, **usual))
    assert not torch.allclose(memory.encode_keys(with_dropout.model, batch)[0], keys[0])


@pytest.mark.parametrize("bank_anchors", [False, True])
@pytest.mark.parametrize("diversity", ["std", "entropy"])
def test_three_steps_match_a_loop_over_anchors(data, diversity, bank_anchors):
    """Candidates are the queue before this step's keys; the positive is the partner's key of this step. Read literally,
    the queue's entries are anchors too, against the batch; the positive is the other key of their own pair."""
    config = plain_config(data, bank=13, diversity=diversity, temperature=0.2, bank_anchors=bank_anchors)
    prepared, memory = with_memory(config)
    for step in range(3):
        batch = prepared.batches(step)
        slots = memory.bank.count
        ids = batch.image_ids.tolist()
        ring = [side[:slots].clone().double() for side in (memory.bank.images, memory.bank.texts)]
        ring_ids = memory.bank.image_ids[:slots].tolist()
        losses = take(prepared, memory, config, batch)
        queries = embed(prepared.model, batch)
        keys = embed(memory.twin, batch)
        switches = {"temperature": 0.2, "margin": 0.3}
        of_entries = 0.0
        sums = reference.coupled(queries, keys, ring, ids, ring_ids, kind=diversity, **switches)
        in_batch, in_banks = (total / 8 for total in sums)
        for way in (0, 1) if slots and bank_anchors else ():
            positives = (ring[0] * ring[1]).sum(1).tolist()
            entries = reference.Side((ring[way] @ queries[1 - way].T).tolist(), positives, ids)
            weights = reference.anchor_diversity(entries, None, ring_ids, kind=diversity)
            of_anchors = reference.losses(entries, ring_ids, weights, keep_same_image=False, **switches)
            of_entries += sum(of_anchors) / slots
        assert losses.total.item() == pytest.approx(3.0 * in_batch + in_banks + of_entries, rel=1e-4)
        assert ("m-dcl" in losses.parts) == (slots > 0)
        if slots:
            assert losses.parts["m-dcl"].item() == pytest.approx(in_banks, rel=1e-4)
            assert ("m-dcl-entries" in losses.parts) == bank_anchors
        memory.after_step(prepared.model, 0)

    assert memory.bank.count == 13


def test_the_bank_loss_can_start_later_than_its_diversity(data):
    config = plain_config(data, bank=16)
    late = replace(config, memory=replace(config.memory, bank_start_epoch=2.0))
    none = plain_config(data, bank=16, diversity_from_bank=False)
    prepared, memory = with_memory(config)
    take(prepared, memory, config, prepared.batches(0))
    memory.after_step(prepared.model, 0)
    batch = prepared.batches(1)
    early = take(prepared, memory, late, batch, epoch=1.9)
    assert "m-dcl" not in early.parts
    assert "m-dcl" in take(prepared, memory, late, batch, epoch=2.0).parts
    without = take(prepared, memory, replace(none, memory=late.memory), batch, epoch=1.9)
    assert not torch.equal(early.diversity, without.diversity)


def test_same_image_captions_never_enter_the_diversity_even_if_the_loss_keeps_them():
    """The score of another caption of the anchor's image changes the literal loss, not the diversity."""
    scores = random_problem(0).scores.detach()
    ids = torch.tensor([0, 0, 1, 2, 3])
    config = Config(objective=ObjectiveConfig(loss="dcl", same_image_negatives=True))
    actual = []
    for moved in (0.0, 0.5):
        scores[0, 1] += moved
        anchors = gather_anchors(scores.clone(), torch.eye(5, dtype=torch.float64), ids)
        actual.append(Objective(config).instance_losses(anchors))
    before, after = actual
    assert torch.equal(before.diversity, after.diversity)
    assert before.total < after.total


def unit_rows(generator):
    return normalise(torch.randn(4, 3, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("measure", ["none", "std", "entropy"])
def test_gradients_of_both_branches_through_batch_bank_and_diversity(measure):
    """Checked by finite differences, with the largest raw value of each direction; DCL_I has no diversity."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.tensor([0, 1, 1, 2])
    bank = CoupledBank(6, 3).double()
    bank.enqueue(unit_rows(generator), unit_rows(generator), ids + 1)
    keys = Keys(unit_rows(generator), unit_rows(generator), bank)

    def totals(images, texts, gradient=True):
        objective = ObjectiveConfig(loss="dcl-i")
        if measure != "none":
            switches = {"entropy_temperature": 0.2, "diversity_gradient": gradient}
            objective = ObjectiveConfig(diversity=measure, **switches)
        anchors = gather_anchors(images, texts, ids)
        config = Config(objective=objective)
        losses = Objective(config).instance_losses(anchors, keys=keys)
        assert (losses.diversity is None) == (measure == "none")
        assert set(losses.parts) == {objective.loss, "m-dcl"}
        return torch.stack([losses.total, concept_loss(config).terms(anchors).in_batch.mean()])

    rows = unit_rows(generator).requires_grad_(), unit_rows(generator).requires_grad_()
    assert gradcheck(totals, rows)
    for branch in (0, 1) if measure != "none" else ():
        sums = (totals(*rows, gradient=on)[branch] for on in (True, False))
        assert not torch.allclose(*(torch.autograd.grad(total, rows[0])[0] for total in sums))


@pytest.mark.parametrize(
    ("loss", "epoch", "function", "switches"),
    [
        ("infonce", 5.0, info_nce, {"temperature": 0.3}),
        ("cmpm", 5.0, projection_matching, {"temperature": 0.3}),
        ("polynomial", 5.0, polynomial_hardest, {"margin": 0.4}),
        ("btr-sum", 9.0, triplet_sum, {"margin": 0.3}),
        ("btr-hardest", 0.99, triplet_sum, {"margin": 0.3}),
        ("btr-hardest", 1.0, triplet_hardest, {"margin": 0.3}),
    ],
)
def test_both_directions_are_summed_and_hardest_negatives_start_late(data, loss, epoch, function, switches):
    """Triplets are summed over the batch, all others averaged."""
    config = plain_config(data, loss=loss, weight_instance=2.0, **switches)
    prepared = prepare(config)
    batch = prepared.batches(0)
    images, texts, *_ = embed(prepared.model, batch)
    ways = both_directions(images @ texts.T, batch.image_ids)
    expected = 2 * sum(float(function(*way, **switches).sum()) for way in ways)
    losses = take(prepared, None, config, batch, epoch)
    assert losses.total.item() == pytest.approx(expected / (1 if "btr" in loss else 8), rel=1e-4)
    assert losses.per_pair.shape == (8,)


def scaled_config(data, **values):
    return tiny_config(data, **STILL | {"loss": "sigmoid", "bank_size": 0, "weight_instance": 1.0} | values)


def scaled_losses(config, prepared):
    """Return the losses of the first batch, and the gradients of the scale."""
    objective = make_objective(config, prepared, torch.device("cpu"))
    losses = objective.losses(prepared.model, prepared.batches(0), epoch=0)
    losses.total.backward()
    [scale] = [part for part in objective.parts if isinstance(part, LearnedScale)]
    return losses, {name: parameter.grad for name, parameter in scale.named_parameters()}


def test_the_scale_starts_as_in_the_paper_is_capped_and_ignores_branches(data, tmp_path):
    config = scaled_config(data, weight_instance=0.5)
    prepared = prepare(config)
    losses, _ = scaled_losses(config, prepared)
    batch = prepared.batches(0)
    images, texts, *_ = embed(prepared.model, batch)
    ways = both_directions(images @ texts.T, batch.image_ids)
    expected = 0.5 * sum(float(pairwise_sigmoid(*way, scale=10.0, bias=-10.0).mean()) for way in ways)
    assert losses.total.item() == pytest.approx(expected, rel=1e-4)
    assert list(losses.parts) == ["sigmoid"]
    config = scaled_config(data, loss="infonce", learn_scale=True, temperature=0.01)
    trainer = Trainer(config, tmp_path, prepare(config), torch.device("cpu"), quiet())
    [scale] = trainer.objective.parts
    with torch.no_grad():
        scale.log_scale.add_(1)

    scale.after_step(trainer.model, 0)
    assert scale.log_scale.item() == pytest.approx(math.log(100))
    online = {"boosting": "rm", "boosting_scenario": "online", "boosting_branches": 3}
    configs = (scaled_config(data, **more) for more in ({}, online))
    (_, expected), (losses, actual) = (scaled_losses(config, prepare(config)) for config in configs)
    assert {"branch-1 sigmoid", "branch-2 sigmoid"} < set(losses.parts)
    assert expected["log_scale"] is not None
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("loss", ["sigmoid", "infonce", "cmpm"])
def test_the_scale_and_the_bias_learn_without_weight_decay(data, tmp_path, loss):
    config = scaled_config(data, loss=loss, learn_scale=True, weight_decay=0.5)
    trainer = Trainer(config, tmp_path, prepare(config), torch.device("cpu"), quiet())
    names = {"scale.log_scale", "scale.bias"} if loss == "sigmoid" else {"scale.log_scale"}
    groups = trainer.state.optimizer.param_groups
    free = [name for group in groups if group["weight_decay"] == 0 for name in group["param_names"]]
    assert set(free) == names
    before = trainer.objective.parts[0].report()
    assert before == {"logit_scale": pytest.approx(10), **({"logit_bias": -10} if loss == "sigmoid" else {})}
    trainer._step(trainer.prepared.batches(0))
    assert all(trainer.objective.parts[0].report()[name] != value for name, value in before.items())


def test_waiting_for_data_counts_as_training_time(data, tmp_path, monkeypatch):
    config = tiny_config(data, epochs=1)
    prepared = prepare(config)
    now = [0.0]
    whole = prepared.batches.stream

    def slow(start, stop):
        for batch in whole(start, stop):
            now[0] += 7
            yield batch

    monkeypatch.setattr(prepared.batches, "stream", slow)
    monkeypatch.setattr("coder_core.training.trainer.time", SimpleNamespace(monotonic=lambda: now[0]))
    trainer = Trainer(config, tmp_path, prepared, torch.device("cpu"), quiet())
    assert trainer.run() == "finished"
    assert trainer.position.seconds == 7 * 5
    assert read_frame(tmp_path)["pairs_per_second"].tolist() == [round(8 / 7, 1)]
