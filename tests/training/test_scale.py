"""The learned scale of the logits and the bias of the sigmoid loss: what trains them, what is saved and resumed."""

import math

import pytest
import torch

from app.components.words import curve_label, curves
from coder_core.objectives.contrastive import pairwise_sigmoid
from coder_core.objectives.pairs import both_directions
from coder_core.runs.history import read_frame
from coder_core.runs.load import best_save, load_model
from coder_core.training.launch import start_run
from coder_core.training.parts.make import LearnedScale, make_parts
from coder_core.training.prepare import prepare
from coder_core.training.step import compute_losses
from coder_core.training.trainer import Trainer
from tests.support.tiny_runs import STILL, events, newest_state, quiet, tiny_config

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


def test_the_scale_is_in_the_state_the_history_and_beside_the_best_model(data, tmp_path):
    config = scaled_config(data, embedding_dropout=0.1, epochs=2)
    whole = start_run(config, tmp_path / "whole", quiet())
    state = newest_state(whole)
    assert set(state.tensors("scale")) == {"log_scale", "bias"}
    assert {f"scale.{name}.exp_avg" for name in ("log_scale", "bias")} < set(state.tensors("optimizer"))
    last = events(whole, "step")[-1]
    assert last["logit_scale"] == pytest.approx(state.tensors("scale")["log_scale"].exp().item(), abs=1e-5)
    assert last["logit_bias"] == pytest.approx(state.tensors("scale")["bias"].item(), abs=1e-5)
    assert last["logit_bias"] != -10
    frame = read_frame(whole, "step")
    assert [curve_label(name) for name in curves([frame]) if "logit" in name] == ["logit bias", "logit scale"]
    assert set(best_save(whole).tensors("scale")) == {"log_scale", "bias"}
    assert load_model(whole).encode_text(["a red star"]).shape == (1, 8)
