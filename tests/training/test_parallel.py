"""Two processes come to what one process comes to with the same global batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from coder_core.console.faults import InputError
from coder_core.data.batches import TrainingBatches
from coder_core.model import parallel
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import load_model
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from coder_core.training.prepare import prepare
from tests.support.ddp_worker import CASES, STEPS, everything
from tests.support.several_processes import run_two
from tests.support.tiny_runs import STILL, position, quiet, tiny_config

TOLERANCE = 1e-5
ROUGH_TOLERANCE = 2**-8  # of keys whose factors were rounded to bfloat16


@pytest.fixture(scope="module")
def one(data: Path) -> dict[str, Tensor]:
    return everything(data)


@pytest.fixture(scope="module")
def two(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    out = tmp_path_factory.mktemp("two") / "found.safetensors"
    ended = run_two("-m", "tests.support.ddp_worker", str(data), str(out))
    assert [code for code, _ in ended] == [0, 0], ended
    return load_file(out)


@pytest.mark.parametrize("case", CASES)
def test_losses_gradients_twin_and_banks_equal_one_process(
    case: str, one: dict[str, Tensor], two: dict[str, Tensor]
) -> None:
    names = [name for name in one if name.startswith(f"{case} ")]
    assert names == [name for name in one if name.startswith(f"{case} ") and name in two]
    assert sum("gradient" in name for name in names) >= 20 * STEPS
    near = ROUGH_TOLERANCE if case == "dcl-bfloat16" else TOLERANCE
    for name in names:
        torch.testing.assert_close(two[name], one[name], atol=near, rtol=near, msg=lambda m, n=name: n + m)
        if "gradient regions.linear.weight" in name:
            assert one[name].abs().max() > 1e-3  # something was compared


def test_the_bank_holds_the_keys_of_both_processes_in_the_order_of_the_batch(
    one: dict[str, Tensor], two: dict[str, Tensor]
) -> None:
    for step in range(STEPS):
        for part in ("bank.image_ids", "bank.position", "bank.filled"):
            assert torch.equal(two[f"dcl {step} memory {part}"], one[f"dcl {step} memory {part}"])
    assert int(one["dcl 0 memory bank.filled"]) == 8
    assert int(one["dcl 1 memory bank.filled"]) == 13


def test_the_largest_diversity_is_exactly_one_over_both_processes(two: dict[str, Tensor]) -> None:
    """One anchor of each modality in all of the batch, not one in each process."""
    for step in range(STEPS):
        assert (two[f"dcl {step} diversity"] == 1).sum(0).tolist() == [1, 1]


def test_batch_norm_counts_rows_not_processes(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    for name in one:
        if name.startswith("norm "):
            torch.testing.assert_close(two[name], one[name], atol=TOLERANCE, rtol=TOLERANCE)


def test_a_verdict_given_while_the_processes_read_reaches_all_or_none(
    one: dict[str, Tensor], two: dict[str, Tensor]
) -> None:
    assert torch.equal(two["verdicts"], one["verdicts"])


@pytest.mark.timeout(620)
def test_the_command_in_two_processes_trains_saves_and_continues(data: Path, tmp_path: Path) -> None:
    """Its losses are those of one process; a run may go on with another number of processes, with a warning."""
    alone = start_run(tiny_config(data, epochs=2, bank_size=16, **STILL), tmp_path / "alone", quiet())
    flags = [
        f"--data={data}",
        "--word-threshold=1",
        "--dimension=8",
        "--word-size=6",
        "--text-layers=2",
        "--bank-size=16",
        "--epochs=2",
        "--batch-size=8",
        "--learning-rate=3e-3",
        "--schedule=cosine",
        "--warmup-steps=2",
        "--threads=1",
        "--device=cpu",
        "--save-every=1000",
        "--seed=5",
        f"--root={tmp_path}",
        "--name=pair",
    ]
    ended = run_two("-m", "coder_core.train", *flags)
    assert [code for code, _ in ended] == [0, 0], ended
    run = tmp_path / "pair"
    assert position(run)["step"] == 10
    ours, theirs = (
        {
            event["epoch"]: event["loss"]
            for event in read_history(folder / HISTORY)
            if event["event"] == "epoch"
        }
        for folder in (run, alone)
    )
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert len(SaveStore(run / "best", keep=1).names()) == 1
    assert (run / "analysis" / "dev" / "manifest.json").is_file()
    assert load_model(run).encode_text(["a red star"]).shape == (1, 8)
    assert "epoch 2" in ended[0][1]
    assert "epoch 2" not in ended[1][1]  # one process speaks


def test_without_torchrun_everything_is_handed_back() -> None:
    rows = torch.randn(3, 2, requires_grad=True)
    assert parallel.gather_with_gradient(rows) is rows
    assert parallel.gather_rows(rows) is rows
    assert float(parallel.largest(torch.tensor([0.2, 0.9, 0.1]))) == pytest.approx(0.9)
    assert parallel.any_process(True, torch.device("cpu"))
    assert parallel.broadcast_value(1.5, torch.device("cpu")) == 1.5
    assert parallel.broadcast_text("ü", torch.device("cpu")) == "ü"
    assert (parallel.rank(), parallel.world_size()) == (0, 1)


def test_a_batch_that_does_not_divide_is_refused(data: Path) -> None:
    prepared = prepare(tiny_config(data))
    with pytest.raises(InputError, match="a multiple of the 3 processes"):
        TrainingBatches(prepared.data.train, prepared.words.train, batch_size=8, seed=0, part=1, parts=3)
