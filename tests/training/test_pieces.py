"""Gradient caching: a step in pieces is the step of the whole batch, whatever the loss and the parts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from coder_core.config.checks import problems
from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.model.run_towers import open_towers, with_size_of_towers
from coder_core.training import gradient_caching
from coder_core.training.gradient_caching import check_pieces
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.step import compute_losses
from tests.support.configs import changed
from tests.support.ddp_worker import CASES, PIECES, trained
from tests.support.interrupted import stop_during
from tests.support.tiny_runs import STILL, printed, quiet, tiny_config
from tests.support.tower_runs import tower_config, write_towers_and_data

pytestmark = pytest.mark.usefixtures("own_threads")
TOLERANCE = 1e-5
SHARED = """btr-hardest sigmoid-online cmpm polynomial dcl-gradient dcl-bank-anchors boosting several
    interaction-boosting mutual combined-weights within"""
OFTEN: dict[str, tuple[dict[str, Any], int]] = {
    "dcl-i": ({"loss": "dcl-i"}, 13),
    "npairs": ({"loss": "npairs-hinge", "npairs_margin": 0.5}, 0),
    "infonce-scale": ({"loss": "infonce", "learn_scale": True}, 0),
    **{name: CASES[name] for name in SHARED.split()},
}
# Seven steps: the prototypes exist from the sixth on.
CODER: dict[str, Any] = {"loss": "dcl", "concepts": 10, "prototypes": 4, "bank_size": 13, "temperature": 0.2}
DROPOUT = {"image_dropout": 0.2, "word_dropout": 0.2, "embedding_dropout": 0.2}


def still(data: Path, **values: Any) -> Config:
    usual = {"boosting_momentum": 0.9, "twin_precision": "float32", "image_layers": 1}
    return tiny_config(data, **STILL | usual | values)


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    assert sum("gradient" in name for name in actual) > 20
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda m, n=name: n + m
        )


@pytest.mark.parametrize("case", OFTEN)
def test_losses_gradients_and_memories_equal_those_of_the_whole_batch(data: Path, case: str) -> None:
    values, bank = OFTEN[case]
    config = still(data, **values, bank_size=bank)
    assert_same(trained(changed(config, **PIECES), 3), trained(config, 3))


def test_the_whole_of_coder_with_prototypes_equals_the_whole_batch(data: Path) -> None:
    config = still(data, **CODER)
    expected = trained(config, 7)
    assert "6 part pgc" in expected
    assert "6 gradient prototypes.classifier" in expected
    assert_same(trained(changed(config, **PIECES), 7), expected)


@pytest.mark.parametrize(
    "values",
    [CODER, {"loss": "infonce", "bank_size": 0, "boosting": "rm", "boosting_scenario": "online"}],
    ids=["coder", "online"],
)
def test_dropout_repeats(data: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]) -> None:
    """The same pieces without caching: each encoded once, all activations kept."""
    config = still(data, **values | DROPOUT | PIECES)
    cached = trained(config, 3)

    def once(encode: Callable[..., Any], *inputs: Tensor, use_reentrant: bool) -> Any:
        return encode(*inputs)

    monkeypatch.setattr(gradient_caching, "checkpoint", once)
    assert_same(cached, trained(config, 3))
    other = trained(changed(config, **dict.fromkeys(DROPOUT, 0.0)), 1)
    assert not torch.allclose(other["0 loss"], cached["0 loss"])


def test_a_piece_is_encoded_once_for_the_loss_and_once_for_its_gradient(data: Path) -> None:
    """The twin, too, reads pieces; it has no gradient."""
    config = still(data, loss="dcl", bank_size=13, **PIECES)
    prepared = prepare(config)
    sizes: list[int] = []
    prepared.model.regions.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    losses = compute_losses(prepared.model, prepared.batches(0), config, epoch=0)
    assert sizes == [3, 3, 2]
    losses.total.backward()
    assert sizes == [3, 3, 2, 2, 3, 3]  # the last piece's backward pass comes first


def test_the_size_of_a_piece_may_change(data: Path, tmp_path: Path) -> None:
    config = changed(tiny_config(data, epochs=1), **PIECES)
    whole = start_run(config, tmp_path / "whole", quiet())
    stopped, console = stop_during(whole, tmp_path / "other", 1), quiet()
    continue_run(stopped, changed(config, piece_size=4), console)
    assert "is 4, was 3" in printed(console)


def test_towers_equal_the_whole_batch(tmp_path: Path) -> None:
    folder = write_towers_and_data(tmp_path)
    actual = []
    for size in (0, 3):
        config = tower_config(folder, piece_size=size, text_tuning="lora")
        towers = open_towers(config)
        config, _ = with_size_of_towers(config, towers)
        prepared = prepare(config, Inputs(towers=towers))
        losses = compute_losses(prepared.model.train(), prepared.batches(0), config, epoch=0)
        losses.total.backward()
        named = prepared.model.named_parameters()
        gradients = {f"gradient {name}": p.grad for name, p in named if p.grad is not None}
        actual.append({"loss": losses.total.detach(), **gradients})
    assert_same(*actual)


def test_batch_normalisation_is_refused_with_a_fix(data: Path) -> None:
    [fault] = problems(still(data, piece_size=3, image_layers=2))
    assert fault.place == "--piece-size"
    assert "--image-layers 1" in str(fault)
    assert problems(still(data, piece_size=3)) == []
    [warning] = problems(still(data, piece_size=8))
    assert (warning.severity, warning.place) == ("warning", "--piece-size")
    with pytest.raises(InputError, match=r"regions\.mlp\.1"):
        prepare(still(data, piece_size=3, image_layers=2))
    frozen = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()  # of a frozen tower
    assert check_pieces(frozen, 3) == []
