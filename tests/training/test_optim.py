"""The learning rate as a function of the step; parameter groups."""

import math

import pytest
import torch
from torch import nn

from coder_core.config.model import ModelConfig
from coder_core.config.training import TrainingConfig
from coder_core.console.faults import InputError
from coder_core.model.build import build_model
from coder_core.runs.saves import SaveStore
from coder_core.training import optim
from tests.support.tiny_bert import write_tiny_bert


def optimizer_of(model, config):
    return optim.make_optimizer(dict(model.named_parameters()), config, torch.device("cpu"))


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
def test_the_rate_of_every_step(values, expected):
    config = TrainingConfig(learning_rate=1.0, **values)
    steps = len(expected)
    plateaus = [step // 3 for step in range(steps)]  # read by that schedule alone
    rates = [optim.learning_rate(step, steps, config, plateaus[step]) for step in range(steps)]
    assert rates == pytest.approx(expected)


@pytest.fixture
def bert(tmp_path):
    folder = write_tiny_bert(tmp_path / "bert", ["a", "star"])
    return {"text_encoder": "bert", "bert": str(folder), "dimension": 8}


def build(values):
    return build_model(ModelConfig(**values), feature_size=6, words=7)


def test_bert_gets_a_share_of_the_rate(bert):
    model = build(bert)
    optimizer = optimizer_of(model, TrainingConfig(bert_rate=0.1, weight_decay=0.03))
    optim.set_rate(optimizer, 0.5)
    rates = {name: group["lr"] for group in optimizer.param_groups for name in group["param_names"]}
    named = [name for name, _ in model.named_parameters()]
    assert rates == {name: pytest.approx(0.05 if name.startswith("words.bert.") else 0.5) for name in named}
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.03}


def test_a_bigru_and_what_stands_on_a_frozen_bert_have_one_group(bert):
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


def test_a_restored_optimizer_takes_the_same_next_step(tmp_path):
    model, optimizer, save = stepped(3, tmp_path)
    other = nn.Linear(3, 2)
    other.load_state_dict(save.tensors("model"))
    restored = optimizer_of(other, TrainingConfig())
    optim.load_optimizer(restored, save)
    assert save.tensors("optimizer").keys() >= {"weight.exp_avg", "weight.exp_avg_sq", "bias.step"}
    step(model, optimizer)
    step(other, restored)
    assert torch.equal(other.weight, model.weight)


def test_moments_of_another_shape_or_parameter_are_refused(tmp_path):
    _, optimizer, _ = stepped(3, tmp_path / "narrow")
    _, _, wider = stepped(4, tmp_path / "wide")
    with pytest.raises(InputError, match=r"optimizer\.safetensors: has weight\.exp_avg of shape \(2, 4\)"):
        optim.load_optimizer(optimizer, wider)
    only_bias = optimizer_of(nn.Bilinear(1, 1, 2), TrainingConfig())
    with pytest.raises(InputError, match="weight"):
        optim.load_optimizer(only_bias, wider)
