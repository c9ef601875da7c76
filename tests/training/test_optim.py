"""The learning rate as a function of the step; parameter groups; losses that are not finite."""

import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from coder_core.config.model import ModelConfig
from coder_core.config.training import TrainingConfig
from coder_core.console.faults import InputError
from coder_core.data.batches import TrainingBatches
from coder_core.model.coder import ModelParts, build_model
from coder_core.runs.load import read_config, read_vocabulary
from coder_core.runs.record import HISTORY, RunLock, read_history, read_status
from coder_core.runs.saves import SaveStore
from coder_core.training import optim
from coder_core.training.launch import start_run
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.step import NotFiniteError
from coder_core.training.trainer import Trainer
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import newest_state, quiet, state_tensors, tiny_config


def optimizer_of(model, config):
    return optim.make_optimizer(dict(model.named_parameters()), config, torch.device("cpu"))


PER_EPOCH = 5
COSINE = [0.5 * (1 + math.cos(math.pi * step / 8)) for step in range(8)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"schedule": "step"}, [1.0] * 15 + [0.1] * 15),  # CODER: 2e-4 for 15 epochs, 2e-5 for 15 more
        ({"schedule": "step", "decay_at": 0.8}, [1.0] * 8 + [0.1] * 2),
        ({"schedule": "cosine"}, COSINE),
        ({"schedule": "constant", "warmup_steps": 4}, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]),
        ({"schedule": "cosine", "warmup_steps": 4}, [0.25, 0.5, 0.75, 1.0, *COSINE]),
        ({"schedule": "cosine", "warmup_steps": 10}, [0.1, 0.2, 0.3]),  # a rise longer than the run
        ({"schedule": "plateau", "warmup_steps": 2}, [0.5, 1.0, 1.0, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01]),
    ],
)
def test_learning_rate_schedules_by_hand(values, expected):
    config = TrainingConfig(learning_rate=1.0, **values)
    steps = len(expected)
    plateaus = [step // 3 for step in range(steps)]  # only that schedule reads them
    rates = [optim.learning_rate(step, steps, config, plateaus[step]) for step in range(steps)]
    assert rates == pytest.approx(expected)


def test_eager_adamw_equals_pytorchs_without_importing_its_compiler(monkeypatch):
    gradients = [torch.randn(3, 2, generator=torch.Generator().manual_seed(step)) for step in range(5)]
    trained = []
    for kind in (torch.optim.AdamW, optim.EagerAdamW):
        if kind is optim.EagerAdamW:
            monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # its import fails
        parameter = nn.Parameter(torch.ones(3, 2))
        optimizer = kind([parameter], lr=0.1, weight_decay=0.1, fused=True)
        for gradient in gradients:
            optimizer.zero_grad()
            (parameter * gradient).sum().backward()
            optimizer.step()
        trained.append((parameter, optimizer.state_dict()["state"][0]["exp_avg_sq"]))
    assert all(torch.equal(*pair) for pair in zip(*trained, strict=True))


def build(values):
    return build_model(ModelConfig(**values), ModelParts(6, 7))


def test_bert_gets_a_share_of_the_rate_unless_absent_or_frozen(tmp_path):
    folder = write_tiny_bert(tmp_path / "bert", ["a", "star"])
    bert = {"text_encoder": "bert", "bert": str(folder), "dimension": 8}
    model = build(bert)
    optimizer = optimizer_of(model, TrainingConfig(bert_rate=0.1, weight_decay=0.03))
    optim.set_rate(optimizer, 0.5)
    rates = {name: group["lr"] for group in optimizer.param_groups for name in group["param_names"]}
    named = [name for name, _ in model.named_parameters()]
    assert rates == {name: pytest.approx(0.05 if name.startswith("words.bert.") else 0.5) for name in named}
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.03}
    for values in (bert | {"freeze_bert": True}, {"dimension": 8, "word_size": 4}):
        named = dict(build(values).named_parameters())
        [group] = optim.make_optimizer(named, TrainingConfig(), torch.device("cpu")).param_groups
        assert set(group["param_names"]) == {name for name in named if not name.startswith("words.bert.")}


def stepped(width, folder):
    torch.manual_seed(0)
    model = nn.Linear(width, 2)
    optimizer = optimizer_of(model, TrainingConfig())
    step(model, optimizer)
    store = SaveStore(folder, keep=1)
    store.write("1", {"model": model.state_dict(), "optimizer": optim.optimizer_tensors(optimizer)}, {})
    return model, optimizer, store.newest()


def step(model, optimizer):
    model(torch.ones(4, model.in_features)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_a_restored_optimizer_continues_and_mismatched_moments_are_refused(tmp_path):
    model, optimizer, save = stepped(3, tmp_path)
    other = nn.Linear(3, 2)
    other.load_state_dict(save.tensors("model"))
    restored = optimizer_of(other, TrainingConfig())
    optim.load_optimizer(restored, save)
    assert save.tensors("optimizer").keys() >= {"weight.exp_avg", "weight.exp_avg_sq", "bias.step"}
    step(model, optimizer)
    step(other, restored)
    assert torch.equal(other.weight, model.weight)
    _, optimizer, _ = stepped(3, tmp_path / "narrow")
    _, _, wider = stepped(4, tmp_path / "wide")
    with pytest.raises(InputError, match=r"optimizer\.safetensors: has weight\.exp_avg of shape \(2, 4\)"):
        optim.load_optimizer(optimizer, wider)
    only_bias = optimizer_of(nn.Bilinear(1, 1, 2), TrainingConfig())
    with pytest.raises(InputError, match="weight"):
        optim.load_optimizer(only_bias, wider)


@pytest.fixture
def begun(data, tmp_path):
    """A run saved after one epoch, and the configuration and inputs to train a second one."""
    folder = start_run(tiny_config(data, epochs=1, schedule="constant"), tmp_path, quiet())
    config, _ = read_config(folder)
    longer = replace(config, training=replace(config.training, epochs=2, save_every=1e-6))
    return folder, longer, prepare(longer, Inputs(read_vocabulary(folder, longer)))


def fail(folder, config, prepared, *, spoil=None, value=0.0):
    """Resume, expect a stop, assert that the saves are unchanged, and return the trainer and the message."""
    names = SaveStore(folder / "state", keep=2).names()
    trainer = Trainer(config, folder, prepared, torch.device("cpu"), quiet())
    with RunLock(folder):
        trainer.resume()
        if spoil:
            with torch.no_grad():
                trainer.model.get_parameter(spoil).view(-1)[0] = value
        with pytest.raises(NotFiniteError) as stopped:
            trainer.run()
    assert set(names) & set(SaveStore(folder / "state", keep=2).names())
    assert newest_state(folder).skipped == []
    assert all(tensor.isfinite().all() for tensor in state_tensors(folder).values())
    assert SaveStore(folder / "best", keep=1).names() == [str(PER_EPOCH)]
    assert (read_status(folder) or {})["state"] == "failed"
    assert read_history(folder / HISTORY)[-1]["message"] == str(stopped.value)
    return trainer, str(stopped.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_features_stop_training_and_name_step_and_image(begun, value):
    """The scan of the files is bypassed, as if a disk failed during training."""
    folder, config, prepared = begun
    step = 6
    image = int(prepared.batches(6).image_ids[3])
    features = np.array(prepared.data.train.features)
    features[image] = value
    split = replace(prepared.data.train, features=features)
    drops = {"drop_regions": 0.2, "drop_words": 0.2}
    batches = TrainingBatches(split, prepared.batches.tokens, batch_size=8, seed=5, **drops)
    first_met = next(s for s in range(PER_EPOCH, 10) if image in batches(s).image_ids)
    assert first_met <= step
    data = replace(prepared.data, train=split)
    _, message = fail(folder, config, replace(prepared, data=data, batches=batches))
    assert message.startswith(f"step {first_met}: ")
    for named in ("dcl, m-dcl", f"features of image {image} ", f"image {batches(first_met).image_ids[0]}"):
        assert named in message
    assert newest_state(folder).name == str(first_met)


def test_an_infinite_parameter_is_named_and_not_saved(begun):
    """The vector of a word in no caption is infinite: no loss or gradient shows it, but a save would keep it."""
    assert "model words.vectors.weight" in fail(*begun, spoil="words.vectors.weight", value=np.inf)[1]
    assert newest_state(begun[0]).name == "5"


def test_an_infinite_gradient_stops_before_the_update(begun):
    """A hook makes one gradient infinite; only this one is named, and the weights are unchanged."""
    folder, config, prepared = begun
    prepared.model.regions.linear.weight.register_hook(lambda gradient: gradient * float("inf"))
    named = ", ".join(map(str, prepared.batches(5).text_ids[:5].tolist()))
    trainer, message = fail(folder, config, prepared)
    assert re.match(rf"step 5: the gradient of regions\.linear\.weight is .*captions {named} ", message)
    saved = newest_state(folder)
    assert saved.name == "5"
    ours = dict(trainer.model.named_parameters())
    weights = saved.tensors("model")
    assert all(torch.equal(ours[name], weights[name]) for name in ours)
    assert torch.equal(trainer.objective.parts[0].bank.images, saved.tensors("memory")["bank.images"])
