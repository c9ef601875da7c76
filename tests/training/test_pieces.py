"""Gradient caching: a step in pieces equals the step of the whole batch, for all losses and parts."""

import pytest
import torch
from torch import nn

from coder_core.config.checks import problems
from coder_core.training import gradient_caching
from coder_core.training.gradient_caching import check_pieces
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import prepare
from tests.support.ddp_worker import CASES, PIECES, TOWER_RATE, trained
from tests.support.precomp_folders import assert_refused
from tests.support.steps import compute_losses
from tests.support.tiny_runs import STILL, changed, printed, quiet, tiny_config
from tests.support.tiny_towers import tower_config

TOLERANCE = 1e-5
SHARED = "btr-hardest sigmoid-online dcl-gradient dcl-bank-anchors dino-reversed several interaction-boosting"
SHARED += " mutual combined-weights within"
CODER = {"loss": "dcl", "concepts": 10, "prototypes": 4, "bank_size": 13, "temperature": 0.2}
OFTEN = {name: CASES[name] for name in SHARED.split()} | {"coder": CODER}
OFTEN["infonce-scale"] = {"loss": "infonce", "learn_scale": True}
DROPOUT = {"image_dropout": 0.2, "word_dropout": 0.2, "embedding_dropout": 0.2}


def still(data, **values):
    usual = {"boosting_momentum": 0.9, "twin_precision": "float32", "image_layers": 1, "bank_size": 0}
    return tiny_config(data, **STILL | usual | values)


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    assert sum("gradient" in name for name in actual) > 20
    for name, value in expected.items():
        near = {"atol": TOLERANCE, "rtol": TOLERANCE, "msg": lambda m, n=name: n + m}
        torch.testing.assert_close(actual[name], value, **near)


@pytest.mark.parametrize("case", OFTEN)
def test_pieces_have_the_losses_gradients_and_memories_of_the_whole_batch(data, case):
    """Prototypes exist from the sixth step on."""
    config = still(data, **OFTEN[case])
    steps = 7 if case == "coder" else 3
    expected = trained(config, steps)
    assert ("6 gradient prototypes.classifier" in expected) == (case == "coder")
    assert_same(trained(changed(config, **PIECES), steps), expected)


@pytest.mark.parametrize(
    "values", [CODER, {"loss": "infonce", "boosting": "rm", "boosting_scenario": "online"}]
)
def test_dropout_is_repeated_when_a_piece_is_recomputed(data, monkeypatch, values):
    """The same pieces without caching: each encoded once, all activations kept."""
    config = still(data, **values | DROPOUT | PIECES)
    cached = trained(config, 3)

    def once(encode, *inputs, use_reentrant):
        return encode(*inputs)

    monkeypatch.setattr(gradient_caching, "checkpoint", once)
    assert_same(cached, trained(config, 3))
    other = trained(changed(config, **dict.fromkeys(DROPOUT, 0.0)), 1)
    assert not torch.allclose(other["0 loss"], cached["0 loss"])


def test_pieces_are_encoded_twice_may_change_size_and_refuse_batch_norm(data, tmp_path):
    """The twin also reads pieces, without a gradient."""
    config = still(data, loss="dcl", bank_size=13, **PIECES)
    prepared = prepare(config)
    sizes = []
    prepared.model.regions.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    losses = compute_losses(prepared.model, prepared.batches(0), config, epoch=0)
    assert sizes == [3, 3, 2]
    losses.total.backward()
    assert sizes == [3, 3, 2, 2, 3, 3]  # the last piece's backward pass comes first
    config = changed(tiny_config(data, epochs=1), **PIECES)
    console = quiet()
    continue_run(start_run(config, tmp_path, quiet()), changed(config, piece_size=4), console)
    assert "is 4, was 3" in printed(console)
    [fault] = problems(still(data, piece_size=3, image_layers=2))
    assert (fault.place, "--image-layers 1" in str(fault)) == ("--piece-size", True)
    assert_refused(r"regions\.mlp\.1", prepare, still(data, piece_size=3, image_layers=2))
    frozen = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()  # of a frozen tower
    assert check_pieces(frozen, 3) == []


def test_towers_in_pieces_equal_the_whole_batch(towers_folder):
    whole, pieces = (tower_config(towers_folder, piece_size=size, text_tuning="lora") for size in (0, 3))
    assert_same(trained(pieces, 1, TOWER_RATE), trained(whole, 1, TOWER_RATE))
