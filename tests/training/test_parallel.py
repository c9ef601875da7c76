"""Two processes come to what one process comes to with the same global batch."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from coder_core.config.schema import Config, changed_flags
from coder_core.console.faults import InputError
from coder_core.data.batches import TrainingBatches
from coder_core.model import parallel
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import load_model
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from coder_core.training.prepare import prepare
from tests.support.ddp_worker import CASES, MORE_STEPS, STEPS, everything
from tests.support.several_processes import run_two
from tests.support.tiny_runs import STILL, newest_state, position, quiet, tiny_config

PER_EPOCH, TOLERANCE = 5, 1e-5
ROUGH_TOLERANCE = 2**-8  # of keys whose factors were rounded to bfloat16


@pytest.fixture(scope="module")
def one(data: Path) -> dict[str, Tensor]:
    return everything(data)


@pytest.fixture(scope="module")
def two(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    out = tmp_path_factory.mktemp("two") / "found.safetensors"
    ended = run_two("-m", "tests.support.ddp_worker", "everything", str(data), str(out))
    assert [code for code, _ in ended] == [0, 0], ended
    return load_file(out)


@pytest.mark.parametrize("case", CASES)
def test_losses_gradients_twin_and_banks_equal_one_process(
    case: str, one: dict[str, Tensor], two: dict[str, Tensor]
) -> None:
    names = [name for name in one if name.startswith(f"{case} ")]
    assert names == [name for name in one if name.startswith(f"{case} ") and name in two]
    assert sum("gradient" in name for name in names) >= 20 * STEPS
    near = {"dcl-bfloat16": ROUGH_TOLERANCE, "prototypes": 10 * TOLERANCE}.get(case, TOLERANCE)
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


def test_the_prototypes_hold_the_pairs_of_both_processes(one: dict[str, Tensor]) -> None:
    last = MORE_STEPS["prototypes"] - 1
    assert int(one[f"prototypes {last} prototypes clusters.members"].sum()) == 40
    assert sum("gradient prototypes.classifier" in name for name in one) == last + 1 - PER_EPOCH


@pytest.mark.timeout(620)
def test_the_command_in_two_processes_trains_clusters_saves_and_continues(data: Path, tmp_path: Path) -> None:
    """Its losses are those of one process; the first process clusters anew, the second takes its centroids over."""
    config = tiny_config(data, "pair", bank_size=16, prototypes=6, prototype_recluster=1, **STILL)
    alone = start_run(replace(config, name="alone"), tmp_path, quiet())
    flags = [*changed_flags(Config(), config), "--name=pair", f"--root={tmp_path}"]
    ended = run_two("-m", "coder_core.train", *flags)
    assert [code for code, _ in ended] == [0, 0], ended
    run = tmp_path / "pair"
    assert position(run)["step"] == 3 * PER_EPOCH
    ours, theirs = (
        [event for event in read_history(folder / HISTORY) if event["event"] == "epoch"]
        for folder in (run, alone)
    )
    assert [event["loss"] for event in ours[:2]] == pytest.approx(
        [event["loss"] for event in theirs[:2]], rel=1e-3
    )
    assert "kept" in ours[1]["prototypes"]
    assert int(newest_state(run).tensors("prototypes")["clusters.members"].sum()) == 40
    assert len(SaveStore(run / "best", keep=1).names()) == 1
    assert (run / "analysis" / "dev" / "manifest.json").is_file()
    assert load_model(run).encode_text(["a red star"]).shape == (1, 8)
    assert "epoch 2" in ended[0][1]
    assert "epoch 2" not in ended[1][1]  # one process prints


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
