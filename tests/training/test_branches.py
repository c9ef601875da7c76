"""Branches that train together, and imitation between branches: what each learns from whom, resuming, what is saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import load_model
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import start_run
from coder_core.training.parts.boosting import OnlineBranches
from coder_core.training.parts.make import make_boosting
from coder_core.training.prepare import Prepared, prepare
from coder_core.training.trainer import Trainer
from tests.reference import boosting as reference
from tests.reference import imitation
from tests.reference.pairs import kept, negatives, transposed
from tests.support.boosting import boosted, same, scores, started, take, weights
from tests.support.tiny_runs import newest_state, quiet, write_tiny_data

Rows = list[list[float]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


def online(data: Path, name: str = "tiny", **values: Any) -> Config:
    return boosted(data, name, **{"boosting_scenario": "online", "boosting_branches": 3} | values)


def branches_of(config: Config) -> tuple[Prepared, OnlineBranches]:
    prepared = prepare(config)
    found = make_boosting(config, prepared)
    assert isinstance(found, OnlineBranches)
    return prepared, found


def every_score(prepared: Prepared, found: OnlineBranches, batch: Batch) -> list[Rows]:
    """Losses of the earlier branches in order, the target last."""
    earlier = [branch for branch in found.branches if isinstance(branch, Coder)]
    return [scores(model, batch) for model in (*earlier, prepared.model)]


def against(form: str, rows: Rows, known: Rows, ids: Sequence[int]) -> float:
    """One direction's loss between two branches, summed over the batch."""
    found = 0.0
    for i, mask in enumerate(negatives(ids, ids)):
        lists = kept(rows[i], mask), kept(known[i], mask)
        if form == "dml":
            found += imitation.dml([rows[i][i], *lists[0]], [known[i][i], *lists[1]], 0.1)
        else:
            found += reference.loss(
                form, *lists, rows[i][i], known[i][i], margin=0.2, split=0.5, is_soft=False
            )
    return found


def mean_against(form: str, own: Rows, others: list[Rows], ids: Sequence[int]) -> float:
    """Both directions, the mean over the other branches."""
    both = [
        against(form, own, other, ids) + against(form, transposed(own), transposed(other), ids)
        for other in others
    ]
    return sum(both) / len(both)


@pytest.mark.parametrize("form", ["rm", "am"])
def test_every_branch_is_set_against_all_before_it_and_their_losses_are_averaged(
    data: Path, form: str
) -> None:
    config = online(data, dropout=False, boosting=form)
    prepared, found = branches_of(config)
    batch = prepared.batches(0)
    parts = take(prepared, found, config, batch).parts
    every, ids = every_score(prepared, found, batch), batch.image_ids.tolist()
    assert f"branch-1 boosting-{form}" not in parts
    for place, name in ((1, f"branch-2 boosting-{form}"), (2, f"boosting-{form}")):
        expected = mean_against(form, every[place], every[:place], ids)
        assert parts[name].item() * len(ids) == pytest.approx(expected, rel=1e-4)


def test_mutual_learning_sets_every_branch_against_every_other(data: Path) -> None:
    config = online(data, dropout=False, boosting="dml")
    prepared, found = branches_of(config)
    batch = prepared.batches(0)
    parts = take(prepared, found, config, batch).parts
    every, ids = every_score(prepared, found, batch), batch.image_ids.tolist()
    for place, name in enumerate(("branch-1 boosting-dml", "branch-2 boosting-dml", "boosting-dml")):
        others = [one for other, one in enumerate(every) if other != place]
        assert parts[name].item() * len(ids) == pytest.approx(
            mean_against("dml", every[place], others, ids), rel=1e-4
        )


def test_the_total_is_every_branchs_raw_loss_and_its_boosting(data: Path) -> None:
    config = online(data, boosting_weight=0.5)
    prepared, found = branches_of(config)
    losses = take(prepared, found, config, prepared.batches(0))
    assert set(losses.parts) == {
        "btr-sum",
        "boosting-am",
        "branch-1 btr-sum",
        "branch-2 btr-sum",
        "branch-2 boosting-am",
    }
    shares = [(0.5 if "boosting" in name else 1.0) * value.item() for name, value in losses.parts.items()]
    assert losses.total.item() == pytest.approx(sum(shares) * len(prepared.batches(0).regions), rel=1e-4)


def test_a_branch_learns_by_its_own_losses_alone(data: Path) -> None:
    """The margins of those after it give it no gradient: with two branches the first trains as if it were alone."""
    config = online(data, boosting_branches=2)
    gradients = []
    for margin in (0.2, 5.0):
        prepared, found = branches_of(config)
        changed_config = online(data, boosting_branches=2, boosting_margin=margin)
        take(prepared, found, changed_config, prepared.batches(0)).total.backward()
        (first,) = found.separate_parameters()
        gradients.append({name: p.grad for name, p in first.items()})
        assert all(p.grad is not None for p in prepared.model.parameters())
    for name, gradient in gradients[0].items():
        assert gradient is not None
        other = gradients[1][name]
        assert other is not None
        assert torch.equal(gradient, other), name


def test_branches_start_from_other_seeds_and_the_target_from_the_runs_own(data: Path) -> None:
    alone = weights(prepare(boosted(data, boosting="none")).model)
    prepared, found = branches_of(online(data))
    assert same(weights(prepared.model), alone)
    starts = [
        branch.regions.linear.weight
        for branch in (*found.branches, prepared.model)
        if isinstance(branch, Coder)
    ]
    assert len(starts) == 3
    assert not any(torch.equal(starts[i], starts[j]) for i in range(3) for j in range(i))
    again = branches_of(online(data))[1]
    assert all(torch.equal(p, q) for p, q in zip(found.parameters(), again.parameters(), strict=True))


def test_the_targets_dropout_is_that_of_a_run_alone(data: Path) -> None:
    config = online(data)
    prepared, found = branches_of(config)
    batch = prepared.batches(0)
    assert (
        take(prepared, found, config, batch).parts["btr-sum"]
        == take(prepared, None, config, batch).parts["btr-sum"]
    )


def test_every_branch_learns_and_clips_its_own_gradient(data: Path, tmp_path: Path) -> None:
    config = online(data)
    prepared = prepare(config)
    trainer = Trainer(config, tmp_path, prepared, torch.device("cpu"), quiet())
    (branches,) = trainer.parts
    before = [p.detach().clone() for p in branches.parameters()]
    trainer._step(prepared.batches(0))
    for named in trainer.clip_groups:
        norm = torch.nn.utils.get_total_norm([p.grad for p in named.values() if p.grad is not None])
        assert 0 < norm <= config.training.clip_norm * 1.001
    moved = [not torch.equal(p, q) for p, q in zip(before, branches.parameters(), strict=True)]
    assert all(moved)


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three branches, never stopped."""
    return start_run(online(data), tmp_path_factory.mktemp("whole"), quiet())


def test_the_state_holds_every_branch_and_the_best_model_is_the_target_alone(whole: Path) -> None:
    others, model = (newest_state(whole).tensors(stem) for stem in ("anchor", "model"))
    assert set(others) == {f"branches.{place}.{name}" for place in (0, 1) for name in model}
    best = SaveStore(whole / "best", keep=1).newest()
    assert best is not None
    assert set(best.manifest["files"]) == {"model.safetensors", "metrics.json"}
    assert load_model(whole).encode_text(["a red star"]).shape == (1, 8)
    steps = [event for event in read_history(whole / HISTORY) if event["event"] == "step"]
    assert "branch-2 boosting-am" in steps[0]["losses"]


@pytest.mark.parametrize("form", ["rs-as", "rm-am"])
def test_two_forms_are_averaged(data: Path, form: str) -> None:
    parts = {}
    for one in (form, *form.split("-")):
        config = boosted(data, dropout=False, boosting=one)
        prepared, anchor = started(config)
        parts[one] = take(prepared, anchor, config, prepared.batches(0)).parts[f"boosting-{one}"].item()
    first, second = form.split("-")
    assert parts[form] == pytest.approx((parts[first] + parts[second]) / 2, rel=1e-5)


def expected_imitation(form: str, lists: tuple[list[float], list[float]]) -> float:
    if form == "rkd":
        return imitation.rkd(*lists)
    if form == "dr":
        return imitation.dr(*lists, 0.3, 4)
    if form == "dml":
        return imitation.dml(*lists, 0.3)
    return (imitation.dino if form == "dino" else imitation.dino_reversed)(*lists, 0.3, 0.2)


@pytest.mark.parametrize("form", ["dr", "rkd", "dml", "dino", "dino-reversed"])
def test_imitation_of_a_moving_average_reads_its_temperatures(data: Path, form: str) -> None:
    config = boosted(
        data, dropout=False, boosting=form, boosting_temperature=0.3, boosting_teacher_temperature=0.2
    )
    prepared, anchor = started(config)
    batch = prepared.batches(0)
    ids = batch.image_ids.tolist()
    expected = 0.0
    target, known = scores(prepared.model, batch), scores(anchor.branch, batch)
    for rows, others in ((target, known), (transposed(target), transposed(known))):
        for i, mask in enumerate(negatives(ids, ids)):
            lists = [rows[i][i], *kept(rows[i], mask)], [others[i][i], *kept(others[i], mask)]
            expected += expected_imitation(form, lists)
    found = take(prepared, anchor, config, batch).parts[f"boosting-{form}"]
    assert found.item() * len(ids) == pytest.approx(expected, rel=1e-3)
