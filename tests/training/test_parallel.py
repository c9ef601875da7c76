"""Two processes that share nothing but a folder give the results of one with the same global batch, and a second device
those of the CPU."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from coder_core.config.schema import Config, changed_flags
from coder_core.console.faults import InputError
from coder_core.data.batches import TrainingBatches
from coder_core.ops import parallel
from coder_core.runs.load import load_model
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from coder_core.training.prepare import prepare
from tests.support.ddp_worker import CASES, MORE_STEPS, STEPS, TOWERS, everything
from tests.support.device_worker import KINDS
from tests.support.loss_modules import made
from tests.support.processes import reported_by, run_two
from tests.support.tiny_runs import STILL, events, newest_state, position, quiet, tiny_config
from tests.support.tiny_towers import write_pictures_of_any_shape

PER_EPOCH = 5
TOLERANCE = 1e-5
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
REFUSALS = {"cuda": "Expected all tensors to be on", "second": "aten::add: a CPU tensor of shape (2,)"}
ROUGH_TOLERANCE = 2**-8  # of keys whose factors were rounded to bfloat16


@pytest.fixture(scope="module")
def towers(towers_folder):
    return write_pictures_of_any_shape(towers_folder)


@pytest.fixture(scope="module")
def one(data, towers):
    return everything(data, towers)


def pair_config(data):
    return tiny_config(data, "pair", bank_size=16, prototypes=6, prototype_recluster=1, **STILL)


@pytest.fixture(scope="module")
def together(data, towers, tmp_path_factory):
    """Results of two processes, the run that they train with the command, and the output of each."""
    root = tmp_path_factory.mktemp("two")
    flags = [*changed_flags(Config(), pair_config(data)), "--name=pair", f"--root={root}"]
    results = root / "results.safetensors"
    outputs = run_two(
        "ddp_worker", data, towers, results, *flags, machines=root / "machines", output=root / "printed"
    )
    return load_file(results), root / "pair", outputs


@pytest.mark.parametrize("case", [*CASES, *(f"towers {name}" for name in TOWERS)])
def test_losses_gradients_twin_and_banks_of_two_processes_equal_one(case, one, together):
    """Towers are equal up to rounding relative to the largest value, which depends on the processor (3e-5 seen)."""
    two, _, _ = together
    names = [name for name in one if name.startswith(f"{case} ")]
    of_towers = case.startswith("towers ")
    assert [name for name in names if name not in two] == []
    part, least = ("regions.tower", 8) if of_towers else ("", 20 * STEPS)
    assert sum(f"gradient {part}" in name for name in names) >= least
    near = {"dcl-bfloat16": ROUGH_TOLERANCE, "prototypes": 10 * TOLERANCE}.get(case, TOLERANCE)
    for name in names:
        value = one[name]
        largest = float(value.abs().max()) if value.is_floating_point() else 0.0
        if "gradient regions.linear.weight" in name and not of_towers:
            assert largest > 1e-3  # something was compared
        bounds = {"atol": 1e-4 * max(largest, 0.05), "rtol": 0} if of_towers else {"atol": near, "rtol": near}
        torch.testing.assert_close(two[name], value, **bounds, msg=lambda m, n=name: n + m)


def test_loss_modules_and_memories_of_two_processes_equal_one(one, together):
    two, _, _ = together
    names = [name for name in one if name.startswith("modules ")]
    assert len([name for name in names if name.endswith(" gradient")]) == len(made()) * 3
    for name in names:
        torch.testing.assert_close(two[name], one[name], atol=1e-6, rtol=1e-5, msg=lambda m, n=name: n + m)
    # Keys are in the order of the batch; each modality has one largest diversity in the whole batch; the rows
    # of the batch norm agree; a verdict given while the processes read reaches all or none
    for step in range(STEPS):
        for part in ("bank.image_ids", "bank.position", "bank.filled"):
            assert torch.equal(two[f"dcl {step} memory {part}"], one[f"dcl {step} memory {part}"])
        assert (two[f"dcl {step} diversity"] == 1).sum(0).tolist() == [1, 1]
    assert [int(one[f"dcl {step} memory bank.filled"]) for step in (0, 1)] == [8, 13]
    for name in (name for name in one if name.startswith("norm ")):
        torch.testing.assert_close(two[name], one[name], atol=TOLERANCE, rtol=TOLERANCE)
    assert torch.equal(two["verdicts"], one["verdicts"])
    last = MORE_STEPS["prototypes"] - 1
    assert int(one[f"prototypes {last} prototypes clusters.members"].sum()) == 40
    assert sum("gradient prototypes.classifier" in name for name in one) == last + 1 - PER_EPOCH


def test_the_command_in_two_processes_trains_clusters_and_saves(together, data, tmp_path):
    """Its losses are those of one process; the first process clusters anew, the second gets its centroids."""
    _, run, outputs = together
    alone = start_run(pair_config(data), tmp_path, quiet())
    assert position(run)["step"] == 3 * PER_EPOCH
    ours = events(run, "epoch")
    theirs = events(alone, "epoch")
    expected = [event["loss"] for event in theirs[:2]]
    assert [event["loss"] for event in ours[:2]] == pytest.approx(expected, rel=1e-3)
    assert "kept" in ours[1]["prototypes"]
    assert int(newest_state(run).tensors("prototypes")["clusters.members"].sum()) == 40
    assert len(SaveStore(run / "best", keep=1).names()) == 1
    assert (run / "analysis" / "dev" / "manifest.json").is_file()
    assert load_model(run).encode_text(["a red star"]).shape == (1, 8)
    assert ["epoch 2" in output for output in outputs] == [True, False]  # one process prints


def test_without_torchrun_collectives_return_their_input_and_batches_must_divide(data):
    rows = torch.randn(3, 2, requires_grad=True)
    assert parallel.gather_with_gradient(rows) is rows
    assert parallel.gather_rows(rows) is rows
    assert float(parallel.largest(torch.tensor([0.2, 0.9, 0.1]))) == pytest.approx(0.9)
    assert parallel.any_process(True, torch.device("cpu"))
    assert parallel.broadcast_value(1.5, torch.device("cpu")) == 1.5
    assert parallel.broadcast_text("ü", torch.device("cpu")) == "ü"
    assert (parallel.rank(), parallel.world_size()) == (0, 1)
    prepared = prepare(tiny_config(data))
    with pytest.raises(InputError, match=r"--batch-size: is 8; .* 3"):
        TrainingBatches(prepared.data.train, prepared.words.train, batch_size=8, seed=0, part=1, parts=3)


@pytest.fixture(scope="module", params=["second", pytest.param("cuda", marks=NEEDS_GPU)])
def reported(request, tmp_path_factory):
    """Name of another device, and the report of the runs on it."""
    folder = tmp_path_factory.mktemp("device")
    report = reported_by("device_worker", folder / "runs", request.param, output=folder / "printed")
    return request.param, report


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_every_kind_of_run_is_the_same_on_another_device(reported):
    """Stopped and resumed there, uninterrupted on the CPU: losses, gradients, diversity, prototypes, metrics. The
    simulated device refuses what a GPU refuses."""
    device, report = reported
    assert report["mixed"].startswith(REFUSALS[device])
    on_cpu, on_device = report["suspicion"]
    np.testing.assert_allclose(on_device, on_cpu, atol=1e-5)
    for of_device, of_cpu in zip(*reversed(report["clusters"]), strict=True):
        np.testing.assert_allclose(of_device, of_cpu, atol=1e-4)
    on_cpu, on_device = report["near-duplicates"]
    assert len(on_cpu) > 10
    assert on_device == on_cpu
    runs = {name: both for name, both in report.items() if name in KINDS}
    assert len(runs) == 7
    for name, (on_cpu, on_second) in runs.items():
        expected, actual = (pd.json_normalize(history) for history in (on_cpu, on_second))
        assert expected.size > 20, name
        pd.testing.assert_frame_equal(actual, expected, rtol=1e-3, atol=1e-3, obj=name)


PROTOTYPES_WAIT = "prototypes.py _reseed: nonzero"


@pytest.mark.slow
@pytest.mark.parametrize("reported", ["second"], indirect=True)
def test_a_step_waits_for_a_device_once(reported):
    """For its loss and its norms of gradients, in one copy. Prototypes, which look for dead ones, wait once more."""
    _, report = reported
    once = {"trainer.py _update: _to_copy": 1}
    assert report["waits"] == {"triplet": once, "infonce": once, "coder": once | {PROTOTYPES_WAIT: 1}}
