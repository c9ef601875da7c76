"""The learned scale of the logits and the bias of the sigmoid loss: what trains them, what is saved and resumed."""

import math

import pytest
import torch

from coder_core.objectives.contrastive import pairwise_sigmoid
from coder_core.objectives.pairs import both_directions
from coder_core.training.parts.make import LearnedScale, make_parts
from coder_core.training.prepare import prepare
from coder_core.training.step import compute_losses
from coder_core.training.trainer import Trainer
from tests.support.tiny_runs import STILL, quiet, tiny_config

pytestmark = pytest.mark.usefixtures("own_threads")


def scaled_config(data, **values):
    return tiny_config(data, **STILL | {"loss": "sigmoid", "bank_size": 0, "weight_instance": 1.0} | values)


def take(config, prepared):
    """The losses of the first batch, and the gradients of the scale."""
    parts = make_parts(config, prepared, torch.device("cpu"))
    losses = compute_losses(prepared.model, prepared.batches(0), config, parts, epoch=0)
    losses.total.backward()
    [scale] = [part for part in parts if isinstance(part, LearnedScale)]
    return losses, {name: parameter.grad for name, parameter in scale.named_parameters()}


def test_the_step_is_the_loss_of_both_directions_at_the_papers_start(data):
    config = scaled_config(data, weight_instance=0.5)
    prepared = prepare(config)
    losses, _ = take(config, prepared)
    batch = prepared.batches(0)
    with torch.no_grad():
        embedded = prepared.model(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
    ways = both_directions(embedded.images @ embedded.texts.T, batch.image_ids)
    expected = 0.5 * sum(float(pairwise_sigmoid(*way, scale=10.0, bias=-10.0).mean()) for way in ways)
    assert losses.total.item() == pytest.approx(expected, rel=1e-4)
    assert list(losses.parts) == ["sigmoid"]


@pytest.mark.parametrize("loss", ["sigmoid", "infonce", "cmpm"])
def test_the_scale_and_the_bias_learn_without_weight_decay(data, tmp_path, loss):
    config = scaled_config(data, loss=loss, learn_scale=True, weight_decay=0.5)
    trainer = Trainer(config, tmp_path, prepare(config), torch.device("cpu"), quiet())
    names = {"scale.log_scale", "scale.bias"} if loss == "sigmoid" else {"scale.log_scale"}
    groups = trainer.state.optimizer.param_groups
    free = [name for group in groups if group["weight_decay"] == 0 for name in group["param_names"]]
    assert set(free) == names
    before = trainer.parts[0].report()
    assert before == {"logit_scale": pytest.approx(10), **({"logit_bias": -10} if loss == "sigmoid" else {})}
    trainer._step(trainer.prepared.batches(0))
    assert all(trainer.parts[0].report()[name] != value for name, value in before.items())


def test_the_scale_stays_at_or_below_a_hundred(data, tmp_path):
    config = scaled_config(data, loss="infonce", learn_scale=True, temperature=0.01)
    trainer = Trainer(config, tmp_path, prepare(config), torch.device("cpu"), quiet())
    [scale] = trainer.parts
    with torch.no_grad():
        scale.log_scale.add_(1)
    scale.after_step(trainer.model, 0)
    assert scale.log_scale.item() == pytest.approx(math.log(100))


def test_other_branches_do_not_move_the_targets_scale(data):
    alone, online = (
        scaled_config(data, **more)
        for more in ({}, {"boosting": "rm", "boosting_scenario": "online", "boosting_branches": 3})
    )
    (_, expected), (losses, actual) = take(alone, prepare(alone)), take(online, prepare(online))
    assert {"branch-1 sigmoid", "branch-2 sigmoid"} < set(losses.parts)
    assert expected["log_scale"] is not None
    torch.testing.assert_close(actual, expected)
