"""Prototypes in training: when the loss begins, what it is, resuming, several processes, what is saved and told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import load_model
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from coder_core.training.losses import Losses
from coder_core.training.parts.make import ConceptLoss, make_prototypes
from coder_core.training.parts.prototypes import PrototypeClassification
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.step import compute_losses
from tests.reference import prototypes as reference
from tests.support.configs import changed
from tests.support.prototype_worker import PROTOTYPES, prototype_config, trained
from tests.support.several_processes import run_two
from tests.support.tiny_runs import newest_state, printed, quiet, tiny_config

PER_EPOCH, TOLERANCE = 5, 1e-5


def step(
    prepared: Prepared, prototypes: PrototypeClassification | None, config: Config, number: int
) -> Losses:
    parts = [ConceptLoss()] if config.model.concepts else []
    return compute_losses(
        prepared.model,
        prepared.batches(number),
        config,
        [*parts, prototypes] if prototypes else parts,
        epoch=number / PER_EPOCH,
    )


def begun(data: Path, config: Config) -> tuple[Prepared, PrototypeClassification]:
    prepared = prepare(config)
    prototypes = make_prototypes(config, prepared)
    assert prototypes is not None
    return prepared, prototypes


@pytest.mark.parametrize("concepts", [0, 4])
def test_the_loss_waits_for_the_first_pass_and_then_equals_the_loops(data: Path, concepts: int) -> None:
    """The concept branch is classified; without one the instance branch is."""
    config = prototype_config(data, concepts=concepts, weight_prototypes=0.5, prototype_temperature=0.25)
    prepared, prototypes = begun(data, config)
    loops = reference.OnlineMeans(PROTOTYPES, PER_EPOCH * 8)
    for number in range(PER_EPOCH + 3):
        batch = prepared.batches(number)
        with torch.no_grad():
            found = prepared.model(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
        plain = step(prepared, None, config, number)
        losses = step(prepared, prototypes, config, number)
        prototypes.after_step(prepared.model, 0)
        vectors = [
            reference.pair_vector(*pair) for pair in zip(found[0].tolist(), found[1].tolist(), strict=True)
        ]
        labels = loops.learn(vectors, batch.text_ids.tolist())
        assert ("pgc" in losses.parts) == (number >= PER_EPOCH)
        if labels is None:
            assert losses.total.item() == plain.total.item()
            continue
        named = found[2:4] if concepts else found[:2]
        classifier = (prototypes.classifier.detach().double() / 0.25).tolist()
        expected = [
            sum(reference.cross_entropy(side[i].tolist(), classifier, label) for side in named)
            for i, label in enumerate(labels)
        ]
        assert losses.parts["pgc"].item() == pytest.approx(sum(expected) / 8, rel=1e-4)
        assert losses.total.item() == pytest.approx(plain.total.item() + 0.5 * sum(expected) / 8, rel=1e-4)
        assert (losses.per_pair - plain.per_pair).tolist() == pytest.approx(
            [0.5 * value for value in expected], rel=1e-3
        )


def test_gradients_reach_the_classifier_and_the_branch_that_is_classified(data: Path) -> None:
    config = prototype_config(data, concepts=4, weight_instance=0.0, weight_concept=0.0)
    prepared, prototypes = begun(data, config)
    for number in range(PER_EPOCH + 1):
        losses = step(prepared, prototypes, config, number)
        prototypes.after_step(prepared.model, 0)
    losses.total.backward()
    assert prototypes.classifier.grad is not None
    assert prototypes.classifier.grad.abs().max() > 0
    assert prepared.model.concepts is not None
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in prepared.model.concepts.parameters())


def test_centroids_move_only_when_the_step_is_remembered(data: Path) -> None:
    config = prototype_config(data)
    prepared, prototypes = begun(data, config)
    for number in range(PER_EPOCH):
        step(prepared, prototypes, config, number)
        prototypes.after_step(prepared.model, 0)
    before = {name: value.clone() for name, value in prototypes.state_dict().items()}
    step(prepared, prototypes, config, PER_EPOCH)
    assert all(torch.equal(value, before[name]) for name, value in prototypes.state_dict().items())
    prototypes.after_step(prepared.model, 0)
    assert not torch.equal(prototypes.clusters.centroids, before["clusters.centroids"])


def test_the_report_by_hand() -> None:
    """Two of four pairs had a label, one of them another; three images and one text were named right."""
    config = changed(Config(), prototypes=2, dimension=2)
    prototypes = PrototypeClassification(config, np.arange(4), pass_pairs=4)
    assert prototypes.report() == {}
    seeds = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    prototypes.classification_losses((seeds, seeds), (seeds, seeds), torch.arange(4))
    prototypes.after_step(None, 0)
    assert prototypes.statistics(prototypes.tally) == {}
    prototypes.clusters.labels[:2] = torch.tensor([0, 1])
    prototypes.clusters.members[:] = 1
    with torch.no_grad():
        prototypes.classifier.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    pairs = torch.tensor([[1.0, 0.0], [0.8, 0.6], [1.0, 0.0], [0.0, 1.0]])  # labels 0 0 0 1
    images = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    texts = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    prototypes.classification_losses((pairs, pairs), (images, texts), torch.arange(4))
    prototypes.after_step(None, 0)
    expected = {
        "used": 2,
        "dead": 0,
        "largest": 3,
        "reseeded": 0,
        "inertia": 0.1,
        "image_accuracy": 0.75,
        "text_accuracy": 0.25,
        "changed": 0.5,
    }
    assert prototypes.report()["prototypes"] == pytest.approx(expected, abs=1e-5)
    assert prototypes.statistics(prototypes.tally) == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with twin and banks, a full clustering after epochs 1 and 2, never stopped."""
    config = tiny_config(data, prototypes=PROTOTYPES, prototype_recluster=1)
    return start_run(config, tmp_path_factory.mktemp("whole"), quiet())


def test_the_history_tells_of_the_prototypes(whole: Path) -> None:
    events = read_history(whole / HISTORY)
    by_epoch = {event["epoch"]: event.get("prototypes") for event in events if event["event"] == "epoch"}
    assert by_epoch[1] is None  # the first pass only seeds
    assert set(by_epoch[2]) == {
        "used",
        "dead",
        "largest",
        "reseeded",
        "inertia",
        "image_accuracy",
        "text_accuracy",
        "changed",
        "kept",
    }
    assert 0 < by_epoch[3]["changed"] <= 1
    assert 0 < by_epoch[3]["inertia"] < 2
    assert 1 <= by_epoch[3]["used"] <= PROTOTYPES
    last_step = [event for event in events if event["event"] == "step"][-1]
    assert set(last_step["prototypes"]) >= {"inertia", "used", "dead", "largest", "changed"}


def test_the_best_model_has_no_classifier_and_loads_without_the_prototypes(whole: Path) -> None:
    save = SaveStore(whole / "best", keep=1).newest()
    assert save is not None
    assert not any("classifier" in name or "prototype" in name for name in save.tensors("model"))
    assert load_model(whole).encode_text(["a red star"]).shape == (1, 8)
    beside = save.tensors("prototypes")
    assert set(beside) == {"centroids", "members", "classifier"}
    assert beside["centroids"].shape == beside["classifier"].shape == (PROTOTYPES, 8)


def test_without_prototypes_nothing_is_saved_or_told(data: Path, tmp_path: Path) -> None:
    run = start_run(tiny_config(data, epochs=1), tmp_path, quiet())
    for store in ("best", "state"):
        save = SaveStore(run / store, keep=2).newest()
        assert save is not None
        assert "prototypes.safetensors" not in save.manifest["files"]
    assert not any("prototypes" in event for event in read_history(run / HISTORY))


def test_the_screen_tells_of_the_prototypes(data: Path, tmp_path: Path) -> None:
    console = quiet()
    start_run(tiny_config(data, epochs=2, prototypes=PROTOTYPES), tmp_path, console)
    assert "prototypes used" in printed(console)
    assert "accuracy" in printed(console)


@pytest.mark.parametrize(("count", "severity"), [(41, "error"), (30, "warning")])
def test_more_prototypes_than_pairs_names_what_fits(data: Path, count: int, severity: str) -> None:
    """20 images × 2 captions: 40 pairs, 2 prototypes by the paper's measure."""
    config = tiny_config(data, prototypes=count)
    if severity == "error":
        with pytest.raises(
            InputError, match=r"is 41, and a pass has 40 .*expected at most 40.*--prototypes 2 fits"
        ):
            prepare(config)
    else:
        told = [fault for fault in prepare(config).faults if fault.place == "--prototypes"]
        assert [fault.severity for fault in told] == ["warning"]


def test_a_full_clustering_keeps_numbers_and_loses_no_pair(data: Path) -> None:
    prepared, prototypes = begun(data, prototype_config(data))
    for number in range(2 * PER_EPOCH):
        step(prepared, prototypes, prototype_config(data), number)
        prototypes.after_step(prepared.model, 0)
    random = np.random.default_rng(0)
    images, texts = (random.normal(size=(count, 8)).astype(np.float32) for count in (20, 40))
    prototypes.recluster(images, texts)
    assert int(prototypes.clusters.members.sum()) == 40
    assert prototypes.recluster(images, texts) > 0.5  # the same vectors again


@pytest.mark.timeout(400)
def test_two_processes_hold_the_prototypes_of_one(data: Path, tmp_path: Path) -> None:
    """Labels and members exactly, everything else to rounding; the worker checks that both processes agree exactly."""
    out, steps = tmp_path / "found.safetensors", 3 * PER_EPOCH
    ended = run_two("-m", "tests.support.prototype_worker", str(data), str(out), str(steps))
    assert [code for code, _ in ended] == [0, 0], ended
    one: dict[str, Tensor] = trained(prototype_config(data), steps)
    two = load_file(out)
    assert one.keys() == two.keys()
    assert sum("gradient classifier" in name for name in one) == 2 * PER_EPOCH
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=TOLERANCE, rtol=1e-4, msg=lambda m, n=name: n + m)
    assert int(one[f"{steps - 1} prototypes clusters.members"].sum()) == 40


def test_a_run_without_a_bank_may_have_prototypes(data: Path, tmp_path: Path) -> None:
    config = tiny_config(data, epochs=2, bank_size=0, prototypes=4, loss="infonce")
    run = start_run(config, tmp_path, quiet())
    assert "pgc" in [event for event in read_history(run / HISTORY) if event["event"] == "step"][-1]["losses"]


@pytest.mark.timeout(400)
def test_the_command_in_two_processes_clusters_anew_for_both(data: Path, tmp_path: Path) -> None:
    """The first process clusters, the second takes its centroids over: two more epochs on them come to an end."""
    flags = [
        f"--data={data}",
        "--word-threshold=1",
        "--dimension=8",
        "--word-size=6",
        "--epochs=3",
        "--batch-size=8",
        "--prototypes=6",
        "--prototype-recluster=1",
        "--threads=1",
        "--device=cpu",
        f"--root={tmp_path}",
        "--name=pair",
    ]
    ended = run_two("-m", "coder_core.train", *flags)
    assert [code for code, _ in ended] == [0, 0], ended
    epochs = [event for event in read_history(tmp_path / "pair" / HISTORY) if event["event"] == "epoch"]
    assert "kept" in epochs[1]["prototypes"]
    assert epochs[2]["prototypes"]["used"] > 0
    clusters = newest_state(tmp_path / "pair").tensors("prototypes")
    assert int(clusters["clusters.members"].sum()) == 40
