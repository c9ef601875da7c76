"""Boosting in training: the loss on top of another, the teacher and how it moves, resuming, what is saved."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import load_model, read_config
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import continue_run, start_run
from coder_core.training.memory.momentum import cosine_momentum
from coder_core.training.parts.boosting import BoostingTeacher
from coder_core.training.prepare import prepare
from coder_core.training.size_checks import check_teacher_momentum
from coder_core.training.trainer import Trainer
from tests.support.boosting import boosted, by_loops, same, scores, started, take, weights
from tests.support.configs import changed
from tests.support.interrupted import stop_during
from tests.support.tiny_runs import assert_same_run, newest_state, quiet

PER_EPOCH, STEPS = 5, 15


@pytest.mark.parametrize(
    ("loss", "form"),
    [("btr-sum", form) for form in ("rs", "rm", "as", "am")]
    + [(loss, "am") for loss in ("btr-hardest", "infonce", "cmpm", "polynomial", "dcl")],
)
def test_it_comes_on_top_of_any_loss_as_a_sum_over_the_batch(data: Path, form: str, loss: str) -> None:
    margins = {"boosting_weight": 0.5, "boosting_margin": 0.4, "boosting_split": 0.3}
    config = boosted(data, dropout=False, loss=loss, boosting=form, **margins)
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    plain, actual = take(prepared, None, config, batch), take(prepared, boosting, config, batch)
    ids, sides = batch.image_ids.tolist(), (scores(prepared.model, batch), scores(boosting.branch, batch))
    expected = by_loops(form, *sides, ids, margin=0.4, split=0.3)
    assert sum(expected) > 0
    assert actual.total.item() - plain.total.item() == pytest.approx(0.5 * sum(expected), rel=1e-4)
    assert actual.parts[f"boosting-{form}"].item() == pytest.approx(sum(expected) / len(ids), rel=1e-4)
    assert actual.parts.keys() - plain.parts.keys() == {f"boosting-{form}"}
    assert all(actual.parts[name] == value for name, value in plain.parts.items())


def test_soft_margins_and_literal_negatives_reach_the_loss(data: Path) -> None:
    """γ is so large that the soft one is smaller everywhere; the second pair is of the first one's image."""
    config = boosted(data, dropout=False, boosting="as", boosting_margin=3.0)
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    ids = batch.image_ids.clone()
    ids[1] = ids[0]
    batch = replace(batch, image_ids=ids)

    def actual(**change: Any) -> float:
        switched = changed(config, **change)
        return take(prepared, boosting, switched, batch).parts["boosting-as"].item()

    assert actual(boosting_soft=True) < actual() < actual(same_image_negatives=True)


def test_it_waits_for_its_start_and_the_teacher_follows_meanwhile(data: Path) -> None:
    """Until then a step is a plain step, to the bit."""
    config = boosted(data, dropout=False, boosting_start_epoch=6.0)  # `take` is at epoch 5
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    waiting = take(prepared, boosting, config, batch)
    plain = take(prepared, None, config, batch)
    assert torch.equal(waiting.total, plain.total)
    assert waiting.parts == plain.parts
    at_once = take(prepared, boosting, changed(config, boosting_start_epoch=0.0), batch)
    assert "boosting-am" in at_once.parts
    before = weights(boosting.branch)
    boosting.after_step(prepared.model, 0)
    assert not same(before, weights(boosting.branch))


def test_gradients_reach_the_target_alone(data: Path) -> None:
    config = boosted(data, weight_instance=0.0)
    prepared, boosting = started(config)
    take(prepared, boosting, config, prepared.batches(0)).total.backward()
    assert all(parameter.grad is None for parameter in boosting.parameters())
    reached = [parameter.grad for parameter in prepared.model.parameters() if parameter.grad is not None]
    assert len(reached) == len(list(prepared.model.parameters()))
    assert max(gradient.abs().max().item() for gradient in reached) > 0


def test_the_teacher_reads_without_dropout_and_takes_no_random_number_from_the_target(data: Path) -> None:
    config = boosted(data)
    prepared, boosting = started(config)
    batch = prepared.batches(0)
    assert torch.equal(boosting.encode(batch)[0].images, boosting.encode(batch)[0].images)
    plain, actual = take(prepared, None, config, batch), take(prepared, boosting, config, batch)
    assert actual.parts["btr-sum"] == plain.parts["btr-sum"]


def test_a_moving_teacher_normalises_by_the_batch_and_one_that_stays_by_its_own_statistics(
    data: Path,
) -> None:
    for momentum, training, file in ((0.9, True, "anchor"), (None, False, None)):
        teacher = BoostingTeacher(prepare(boosted(data)).model, STEPS, momentum)
        norms = [m for m in teacher.branch.modules() if isinstance(m, torch.nn.BatchNorm1d)]
        assert {norm.training for norm in norms} == {training}
        assert teacher.state_file == file


def test_the_teacher_follows_on_the_cosine_after_every_step(data: Path, tmp_path: Path) -> None:
    config = boosted(data)
    prepared = prepare(config)
    trainer = Trainer(config, tmp_path, prepared, torch.device("cpu"), quiet())
    (teacher,) = trainer.parts
    assert isinstance(teacher, BoostingTeacher)
    expected = {name: value.detach().double() for name, value in prepared.model.named_parameters()}
    for step, batch in enumerate(prepared.batches.stream(0, 3)):
        trainer._step(batch)
        stays = cosine_momentum(step, STEPS, 0.7)
        for name, value in trainer.model.named_parameters():
            expected[name] = stays * expected[name] + (1 - stays) * value.detach().double()
    for name, value in teacher.branch.named_parameters():
        torch.testing.assert_close(value.double(), expected[name], atol=1e-6, rtol=1e-5)


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a moving teacher, never stopped."""
    return start_run(boosted(data, epochs=1), tmp_path_factory.mktemp("whole"), quiet())


def test_the_state_holds_the_teacher_and_the_best_model_is_the_target_alone(whole: Path) -> None:
    anchor, model = (newest_state(whole).tensors(stem) for stem in ("anchor", "model"))
    assert set(anchor) == {f"branch.{name}" for name in model}
    assert not torch.equal(anchor["branch.regions.linear.weight"], model["regions.linear.weight"])
    best = SaveStore(whole / "best", keep=1).newest()
    assert best is not None
    assert set(best.manifest["files"]) == {"model.safetensors", "metrics.json"}
    assert load_model(whole).encode_text(["a red star"]).shape == (1, 8)
    steps = [event for event in read_history(whole / HISTORY) if event["event"] == "step"]
    assert set(steps[0]["losses"]) == {"btr-sum", "boosting-am"}


def test_a_state_without_its_teacher_is_refused(whole: Path, data: Path, tmp_path: Path) -> None:
    plain = start_run(boosted(data, boosting="none", epochs=1), tmp_path, quiet())
    assert "anchor.safetensors" not in newest_state(plain).manifest["files"]
    shutil.copy(whole / "config.toml", plain / "config.toml")
    shutil.copy(whole / "manifest.json", plain / "manifest.json")
    with pytest.raises(InputError, match=r"anchor\.safetensors"):
        continue_run(plain, None, quiet())


def test_a_teacher_near_its_random_start_is_warned_of_with_a_start_that_fits(data: Path) -> None:
    """Flickr8k's eight epochs are 1,872 steps: 95% of the random start would remain."""
    config = changed(PRESETS["flickr8k-baseline"].config, boosting="am")
    (fault,) = check_teacher_momentum(config, 1_872)
    assert (fault.severity, fault.place) == ("warning", "--boosting-momentum")
    for number in ("0.99995", "1,872", "95%", "0.9968", "5%"):
        assert number in str(fault)
    assert check_teacher_momentum(changed(config, boosting_momentum=0.9968), 1_872) == []
    faults = prepare(boosted(data, boosting_momentum=0.99995)).faults
    assert "--boosting-momentum" in [fault.place for fault in faults]


def test_the_preset_differs_from_its_baseline_by_boosting_alone_and_leaves_its_start() -> None:
    boosted_one, baseline = (PRESETS[f"flickr8k-{name}"].config for name in ("boosted", "baseline"))
    assert replace(boosted_one, boosting=baseline.boosting) == baseline
    assert boosted_one.boosting.boosting == "rm"
    assert check_teacher_momentum(boosted_one, 1_872) == []


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run to surpass."""
    return start_run(
        boosted(data, "first", boosting="none", epochs=2), tmp_path_factory.mktemp("anchors"), quiet()
    )


def offline(data: Path, anchor: Path, **boosting: Any) -> Config:
    return boosted(data, boosting_scenario="offline", boosting_teacher=str(anchor), **boosting)


def test_an_offline_target_starts_from_the_teacher_or_from_scratch(data: Path, finished: Path) -> None:
    best = weights(load_model(finished).model)
    scratch = weights(prepare(boosted(data, boosting="none")).model)
    assert same(weights(prepare(offline(data, finished)).model), best)
    assert same(weights(prepare(offline(data, finished, boosting_start="scratch")).model), scratch)


def test_a_part_of_the_train_images_is_learned_from_with_the_vocabulary_of_all(
    data: Path, finished: Path
) -> None:
    """So that a teacher of less data reads the words of its student."""
    settings = ((1.0, 1, False), (0.5, 1, False), (0.25, 1, False), (0.5, 2, False), (0.25, 1, True))
    prepared = [
        prepare(changed(offline(data, finished), train_part=part, seed=seed, other_part=rest))
        for part, seed, rest in settings
    ]
    whole, half = prepared[0].data.train, prepared[1].data.train
    images = [set(each.data.train.image_of_text.tolist()) for each in prepared]
    assert [len(part) / whole.n_images for part in images] == [1.0, 0.5, 0.25, 0.5, 0.75]
    assert images[4] == images[0] - images[2]
    assert images[2] < images[1] < images[0]
    assert images[3] != images[1]
    pairs = zip(whole.image_of_text.tolist(), whole.captions, strict=True)
    assert half.captions == [caption for image, caption in pairs if image in images[1]]
    assert prepared[1].words.vocabulary == prepared[0].words.vocabulary
    assert prepared[1].data.checksums == prepared[0].data.checksums
    assert 2 * prepared[1].batches.per_epoch <= prepared[0].batches.per_epoch + 1


def test_an_offline_teacher_never_moves_and_equals_the_best_model_of_its_run(
    data: Path, finished: Path, tmp_path: Path
) -> None:
    config = offline(data, finished)
    prepared = prepare(config)
    trainer = Trainer(config, tmp_path, prepared, torch.device("cpu"), quiet())
    (teacher,) = trainer.parts
    assert isinstance(teacher, BoostingTeacher)
    for batch in prepared.batches.stream(0, 2):
        trainer._step(batch)
    best = weights(load_model(finished).model)
    assert same(weights(teacher.branch), best)
    assert not same(weights(trainer.model), best)


@pytest.fixture(scope="module")
def surpassing(data: Path, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over a finished one, never stopped."""
    return start_run(offline(data, finished, boosting="rm"), tmp_path_factory.mktemp("offline"), quiet())


def test_the_teacher_may_have_moved_but_not_changed(
    surpassing: Path, finished: Path, data: Path, tmp_path: Path
) -> None:
    stopped = stop_during(surpassing, tmp_path / "tiny", 3)
    config, _ = read_config(stopped)

    def over(anchor: Path) -> Config:
        return changed(config, boosting_teacher=str(anchor))

    other = start_run(boosted(data, "other", boosting="none", seed=9, epochs=1), tmp_path, quiet())
    with pytest.raises(InputError, match=r"--boosting-teacher .*another best model"):
        continue_run(stopped, over(other), quiet())
    moved = shutil.copytree(finished, tmp_path / "moved")
    continue_run(stopped, over(moved), quiet())
    assert_same_run(stopped, surpassing)


def test_a_teacher_of_another_size_sets_margins_but_gives_no_start(data: Path, finished: Path) -> None:
    wider = changed(offline(data, finished), dimension=12)
    with pytest.raises(InputError) as refused:
        prepare(wider)
    assert {fault.place for fault in refused.value.faults} >= {"--boosting-start"}
    assert "regions.linear.weight has shape (8, 6); expected (12, 6)" in str(refused.value)
    scratch = changed(wider, boosting_start="scratch")
    prepared, boosting = started(scratch)
    assert take(prepared, boosting, scratch, prepared.batches(0)).parts["boosting-am"] > 0


def test_weights_that_fit_are_no_start_for_a_model_that_reads_regions_at_another_scale(
    data: Path, finished: Path
) -> None:
    scaled = changed(offline(data, finished), region_norm="rms")
    with pytest.raises(InputError, match=rf"{finished}: .*--region-norm none.*rms"):
        prepare(scaled)
    prepare(changed(scaled, boosting_start="scratch"))


def test_what_is_no_finished_run_of_the_same_words_is_refused(
    data: Path, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"--boosting-teacher .*expected a finished run"):
        prepare(offline(data, tmp_path / "nowhere"))
    stopped = stop_during(finished, tmp_path / "stopped", 7)
    with pytest.raises(InputError, match=rf"--boosting-teacher {stopped}: .*stopped"):
        prepare(offline(data, stopped))
    with pytest.raises(InputError, match=r"--boosting-teacher .*vocabulary .*\b17\b"):
        prepare(changed(offline(data, finished), word_threshold=12))
    broader = shutil.copytree(data, tmp_path / "broader")
    for features in broader.glob("*_ims.npy"):
        np.save(features, np.pad(np.load(features), ((0, 0), (0, 0), (0, 1))))
    with pytest.raises(InputError, match=r"--boosting-teacher .*\b6\b.*\b7\b"):
        prepare(offline(broader, finished))


def test_nothing_is_written_when_the_teacher_cannot_be_used(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--boosting-teacher"):
        start_run(offline(data, tmp_path / "nowhere"), tmp_path / "runs", quiet())
    assert not (tmp_path / "runs").exists()
