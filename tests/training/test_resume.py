"""Runs stopped anywhere and resumed equal uninterrupted ones bit for bit; changes that break this are refused."""

import itertools
import os
import shutil
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.ablation.papers import TABLES
from coder_core.ablation.results import collect_results
from coder_core.ablation.writing import markdown
from coder_core.api import open_run
from coder_core.config.training import TENSORBOARD
from coder_core.console.faults import InputError
from coder_core.model.encode import score_split
from coder_core.runs.load import best_save, load_model, read_config
from coder_core.runs.record import HISTORY, read_frame, read_history, read_status
from coder_core.runs.saves import SaveStore
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import prepare
from coder_core.training.trackers import EventWriter
from coder_core.training.trainer import Trainer
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import flip
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import (
    NEIGHBOURS,
    STILL,
    WORDS,
    assert_same_run,
    changed,
    events,
    newest_state,
    position,
    printed,
    quiet,
    stopping,
    tiny_config,
    write_tiny_data,
)
from tests.support.tiny_towers import tower_config, with_every_part, write_towers_and_data
from tests.support.trained_runs import begin, prepared_again, stop_during, train_on

boosted = partial(tiny_config, part="boosting")
weighted = partial(tiny_config, part="weights")

PER_EPOCH = 3
STEPS = 9
MAX_STEPS = 5
SHORT = {"batch_size": 12, "bank_size": 12}  # two steps an epoch
TWO = {"epochs": 2}
TRIPLET = TWO | {"loss": "btr-hardest", "weight_instance": 1.0, "bank_size": 0}
BOOSTED = TRIPLET | {"boosting": "am", "boosting_momentum": 0.7}
WITHIN = TWO | {"sample_weights": "none", "within_image": 0.3, "within_text": 0.7}
BOTH_WEIGHTS = TWO | {"sample_weights": "combined-stats", "neighbours_of_neighbours": 2 * NEIGHBOURS}
SIGMOID = TWO | STILL | {"loss": "sigmoid", "bank_size": 0, "embedding_dropout": 0.1, "tensorboard": True}
PIECES = TWO | {"piece_size": 3, "image_layers": 1, "twin_precision": "bfloat16"}
CONCEPTS = {"concepts": 10, "gcn_layers": 2, "beta": 0.7}
ONLINE = TWO | {"boosting_scenario": "online", "boosting_branches": 3}
CUT_SHORT = {"max_steps": MAX_STEPS, "warmup_steps": 0, "bank_size": 16, "prototypes": 4}


def over_a_finished_run(data, folder):
    teacher = start_run(boosted(data, "first", boosting="none", epochs=1), folder, quiet())
    offline = {"boosting_scenario": "offline", "boosting_teacher": str(teacher)}
    return boosted(data, boosting="rm", **TWO | offline)


def with_bert(data, folder):
    return tiny_config(data, epochs=1, text_encoder="bert", bert=str(write_tiny_bert(folder / "bert", WORDS)))


def with_towers(folder, *, every_part=False):
    write_towers_and_data(folder)
    return changed(with_every_part(folder) if every_part else tower_config(folder), **TWO)


# Configuration from the data and a folder for what else it needs; steps to stop in, counted from 0. An epoch has three
# steps: 2, 5 and 8 are an epoch's last, where the signal comes before the evaluation.
CASES = {
    "memory": (lambda data, _: tiny_config(data, **TWO), (0, 5)),
    "prototypes": (lambda data, _: tiny_config(data, prototypes=6, prototype_recluster=1), (5,)),
    "momentum teacher": (lambda data, _: boosted(data, **TWO), (4,)),
    "finished teacher": (over_a_finished_run, (4,)),
    "branches": (lambda data, _: boosted(data, **ONLINE), (4,)),
    "weights": (lambda data, _: weighted(data, **BOTH_WEIGHTS), (2, 3)),
    "within": (lambda data, _: weighted(data, **WITHIN), (4,)),
    "scale": (lambda data, _: tiny_config(data, **SIGMOID), (3,)),
    "concepts in pieces": (lambda data, _: tiny_config(data, **PIECES, **CONCEPTS), (3,)),
    "several embeddings": (lambda data, _: tiny_config(data, **BOOSTED, embeddings=3), (4,)),
    "interaction": (lambda data, _: tiny_config(data, **BOOSTED, scorer="interaction"), (4,)),
    "max steps": (lambda data, _: tiny_config(data, **CUT_SHORT), (2, 4)),
    "bert": (with_bert, (2,)),
    "towers": (lambda _, folder: with_towers(folder), (2,)),
    "towers with every part": (lambda _, folder: with_towers(folder, every_part=True), (2,)),
}

# Files beside the model in a state; files beside the best model, with the names of their tensors.
STORED = {
    "memory": ({"memory"}, {}),
    "prototypes": ({"memory", "prototypes"}, {"prototypes": {"centroids", "members", "classifier"}}),
    "momentum teacher": ({"anchor"}, {}),
    "finished teacher": ((), {}),
    "branches": ({"anchor"}, {}),
    "weights": ({"neighbourhoods"}, {}),
    "scale": ({"scale"}, {"scale": {"log_scale", "bias"}}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Data whose epochs have three steps."""
    return write_tiny_data(tmp_path_factory.mktemp("data"), images=12)


@pytest.fixture(scope="module")
def case(request, data, tmp_path_factory):
    """Name of a case and its uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    return request.param, start_run(CASES[request.param][0](data, folder), folder / "runs", quiet())


STOPS = [(name, step) for name, (_, steps) in CASES.items() for step in steps]


@pytest.mark.parametrize(("case", "step"), STOPS, indirect=["case"])
def test_stopped_and_continued_equals_never_stopped(case, step, tmp_path, monkeypatch):
    name, whole = case
    per_epoch = read_history(whole / HISTORY)[0]["per_epoch"]
    stopped = stop_during(whole, tmp_path / whole.name, step)
    at = position(stopped)
    assert (at["step"], at["evaluated"]) == (step + 1, step // per_epoch)
    assert (read_status(stopped) or {})["state"] == "stopped"
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "elsewhere"))
    console = quiet()
    continue_run(stopped, None, console)
    # The run has its own concepts and finds the same neighbours; no warning of a change.
    for message in ("finding concepts", "were searched again", "precision of the passes"):
        assert message not in printed(console)
    assert_same_run(stopped, whole)
    assert read_status(stopped)["state"] == "finished"
    if name in STORED:
        assert_stored(whole, *STORED[name])
    assert (whole / TENSORBOARD).exists() == (name == "scale")
    for run in (whole, stopped) if name == "scale" else ():
        assert_events_are_the_history(run)


def assert_stored(run, in_state, beside_best):
    """Assert that the parts are in the state, and that the best model is only the target, with tables for readers."""
    state = newest_state(run)
    best = best_save(run)
    files = {f"{stem}.safetensors" for stem in ("model", "optimizer", "comparison", *in_state)}
    assert set(state.manifest["files"]) == files | {"position.json", "circumstances.json"}
    files = {f"{stem}.safetensors" for stem in ("model", *beside_best)}
    assert set(best.manifest["files"]) == files | {"metrics.json"}
    assert {stem: set(best.tensors(stem)) for stem in beside_best} == beside_best
    assert best.tensors("model").keys() == state.tensors("model").keys()
    assert load_model(run).encode_text(["a red star"]).shape == (1, 8)


def assert_events_are_the_history(run):
    """Assert that TensorBoard has every step once."""
    for event, column in (("step", "losses.sigmoid"), ("step", "learning_rate"), ("epoch", "metrics.rsum")):
        table = read_frame(run, event)
        points = recorded(run, f"{event}/{column.replace('.', '/')}")
        assert [point.step for point in points] == table["step"].tolist()
        assert [point.value for point in points] == pytest.approx(table[column].tolist(), rel=1e-6)


def recorded(run, name):
    """Return TensorBoard's points of a scalar."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / TENSORBOARD), size_guidance={"scalars": 0})
    events.Reload()
    return events.Scalars(name)


def test_tensorboard_hides_the_steps_of_a_run_killed_before_its_first_save(tmp_path):
    for loss in (0.5, 0.25):
        writer = EventWriter(tmp_path, resume_step=0)
        writer.write("step", 10, {"loss": loss})
        writer.close()
    assert [point.value for point in recorded(tmp_path, "step/loss")] == [0.25]


@pytest.mark.parametrize("case", ["bert"], indirect=True)
def test_a_bert_run_keeps_no_word_list_trains_bert_and_encodes_free_text(case):
    """Its BERT is a folder; one that is gone is named."""
    _, run = case
    assert not (run / "words.json").exists()
    loaded = load_model(run)
    actual = loaded.encode_text(["a red star", "A RED STAR", "zebra"])
    assert np.linalg.norm(actual, axis=1) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(actual[0], actual[1], atol=1e-6)
    assert not loaded.model.training
    name = "words.bert.encoder.layer.0.attention.self.query.weight"
    start, trained = (model.state_dict()[name] for model in (prepare(loaded.config).model, loaded.model))
    assert not torch.equal(start, trained)
    shutil.rmtree(loaded.config.model.bert)
    assert_refused("is not on this machine", load_model, run)


@pytest.mark.parametrize("case", ["max steps"], indirect=True)
def test_the_last_step_is_evaluated_and_ends_schedule_and_run(case):
    """Five steps end the run within its second epoch."""
    _, cut_short = case
    status = read_status(cut_short)
    assert (status["state"], status["step"], status["steps"]) == ("finished", MAX_STEPS, MAX_STEPS)
    run = open_run(cut_short)
    assert run.history["epoch"].tolist() == [1, 2]
    assert run.history["step"].tolist() == [PER_EPOCH, MAX_STEPS]
    assert run.splits == ("dev",)
    assert {*SaveStore(cut_short / "best", keep=1).names()} <= {str(PER_EPOCH), str(MAX_STEPS)}
    assert run.steps["step"].tolist() == [PER_EPOCH, MAX_STEPS]
    assert run.steps["learning_rate"].iloc[-1] < 0.1 * tiny_config("x").training.learning_rate


def test_more_steps_than_the_epochs_have_change_nothing(data, tmp_path):
    folder = start_run(tiny_config(data, epochs=1, max_steps=100), tmp_path, quiet())
    assert read_status(folder)["steps"] == PER_EPOCH


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """An uninterrupted run, from learned word vectors."""
    return start_run(tiny_config(data, word_vectors="learned"), tmp_path_factory.mktemp("whole"), quiet())


@pytest.mark.parametrize("evaluation", [1, 3])
def test_an_evaluation_interrupted_by_a_signal_is_repeated(whole, tmp_path, monkeypatch, evaluation):
    evaluations = itertools.count(1)

    def signalled(*arguments, **reading):
        if next(evaluations) == evaluation:
            signal.raise_signal(signal.SIGTERM)
        return score_split(*arguments, **reading)

    monkeypatch.setattr("coder_core.training.trainer.score_split", signalled)
    folder, config, prepared = begin(whole, tmp_path / "tiny")
    assert train_on(folder, config, prepared) == "stopped"
    at = position(folder)
    assert (at["step"], at["evaluated"]) == (evaluation * PER_EPOCH, evaluation - 1)
    continue_run(folder, None, quiet())
    assert_same_run(folder, whole)


def test_steps_of_a_run_killed_before_its_first_save_count_once(whole, tmp_path, request):
    """It has a history but no state, so the second start begins anew, with the same word vectors. A closed terminal stops
    that one."""
    folder = stop_during(whole, tmp_path / "tiny", 7, signal.SIGINT)
    shutil.rmtree(folder / "state")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, before))
    config, prepared = prepared_again(folder)
    batches = stopping(prepared.batches, 1, signal.SIGHUP)
    assert train_on(folder, config, replace(prepared, batches=batches)) == "stopped"
    assert events(folder) == []
    continue_run(folder, None, quiet())
    assert_same_run(folder, whole)


def test_resuming_a_finished_run_only_tidies_up(whole, tmp_path):
    """A writer killed after its last save was complete leaves such folders; its process number is in use again."""
    again = Path(shutil.copytree(whole, tmp_path / "tiny"))
    for kind in ("state", "best"):
        shutil.copytree(whole / kind, again / kind / f".tmp-{STEPS}-{os.getpid()}-0123abcd")
    continue_run(again, None, quiet())
    assert list(again.glob("*/.tmp-*")) == []
    assert newest_state(again).fingerprint == newest_state(whole).fingerprint  # no step taken twice
    assert (read_status(again) or {})["state"] == "finished"
    assert_same_run(again, whole)


def test_plateaus_lower_the_rate_and_patience_ends_a_run_even_after_a_stop(data, tmp_path):
    """The learning rate is so low that no evaluation after the first is better."""
    values = {"schedule": "plateau", "plateau": 2, "learning_rate": 1e-12, "warmup_steps": 0, "patience": 4}
    console = quiet()
    folder = start_run(tiny_config(data, epochs=7, **values, **SHORT), tmp_path / "whole", console)
    assert "--patience 4" in printed(console)
    rates = {line["epoch"]: line["learning_rate"] for line in events(folder, "step")}
    whole_epochs = [rates[epoch] for epoch in sorted(rates) if float(epoch).is_integer()]
    assert whole_epochs == pytest.approx([1e-12] * 3 + [1e-13] * 2)
    at = position(folder)
    assert (at["step"], at["without_gain"], at["reductions"]) == (5 * 2, 4, 2)
    stopped = stop_during(folder, tmp_path / "stopped", 4 * 2 + 1)
    continue_run(stopped, None, quiet())
    assert_same_run(stopped, folder)
    before = newest_state(folder).fingerprint
    continue_run(folder, None, quiet())
    assert newest_state(folder).fingerprint == before
    assert read_history(folder / HISTORY)[-1]["state"] == "finished"


@pytest.mark.parametrize(("key", "value"), [("schedule", "plateau"), ("choose_on", "half")])
def test_settings_that_need_dev_are_refused_without_it(data, tmp_path, key, value):
    alone = Path(shutil.copytree(data, tmp_path / "alone", ignore=shutil.ignore_patterns("dev_*")))
    with pytest.raises(InputError, match=f"--{key.replace('_', '-')} {value}"):
        start_run(tiny_config(alone, **{key: value}), tmp_path, quiet())


def test_the_best_epoch_can_be_chosen_on_half_of_dev(tmp_path):
    data = write_tiny_data(tmp_path / "data", images=60)
    console = quiet()
    config = tiny_config(data, epochs=3, choose_on="half", name="dcl-s0", **SHORT)
    folder = start_run(config, tmp_path, console)
    epochs = events(folder, "epoch")
    chosen = [line["metrics"]["chosen_half_rsum"] for line in epochs]
    assert len(set(chosen)) > 1
    best = best_save(folder).document("metrics")
    assert best["epoch"] == 1 + chosen.index(max(chosen))
    assert best["metrics"] == epochs[best["epoch"] - 1]["metrics"]
    for metrics in (line["metrics"] for line in epochs):  # or the best epoch would look like one with less
        assert f"{metrics['rsum']:.1f}, " in printed(console)
        assert f" {metrics['chosen_half_rsum']:.1f}" in printed(console)
    table = collect_results(TABLES["objectives"], tmp_path, "dev")
    (row,) = table.rows
    assert [half.mean for half in row.halves] == [max(chosen), best["metrics"]["other_half_rsum"]]
    assert f"| {row.halves[1].mean:.1f} |" in markdown(table, "command")


def test_changed_values_are_named_together_and_a_state_without_a_part_is_refused(whole):
    config, _ = read_config(whole)
    with pytest.raises(InputError) as refused:
        continue_run(whole, changed(config, dimension=4, bank_size=99, seed=6), quiet())
    assert {fault.place for fault in refused.value.faults} == {"--dimension", "--bank-size", "--seed"}
    weights = {"sample_weights": "diversity", "neighbours": 4}
    parts = {"anchor": {"boosting": "am"}, "neighbourhoods": weights, "prototypes": {"prototypes": 6}}
    for stem, values in parts.items():
        config = changed(read_config(whole)[0], **values)
        trainer = Trainer(config, whole, prepare(config), torch.device("cpu"), quiet())
        assert_refused(rf"{stem}\.safetensors", trainer.resume)


def test_a_state_of_other_sizes_is_refused_by_name_and_shape(whole, data, tmp_path):
    """As after copying a state folder from one run to another."""
    sizes = {12: r"words\.gru\.weight_hh_l0.*\(24, 8\).*\(36, 12\)", 8: r"bank\.images.*\(13, 8\).*\(40, 8\)"}
    for dimension, named in sizes.items():
        config = tiny_config(data, f"of-{dimension}", epochs=1, dimension=dimension, bank_size=40)
        other = start_run(config, tmp_path, quiet())
        shutil.rmtree(other / "state")
        shutil.copytree(whole / "state", other / "state")
        assert_refused(named, continue_run, other, None, quiet())


def test_another_precision_is_reported_and_the_data_may_move(whole, data, tmp_path):
    stopped = stop_during(whole, tmp_path / "tiny", 7)
    config, about = read_config(stopped)
    moved = shutil.copytree(data, tmp_path / "moved")
    console = quiet()
    twin = "float32" if about["twin_precision"] == "bfloat16" else "bfloat16"
    continue_run(stopped, changed(config, threads=2, twin_precision=twin, data=str(moved)), console)
    assert "CPU threads: is 2, was 1" in printed(console)
    assert f"without gradients: is {twin}, was {about['twin_precision']}" in printed(console)
    assert position(stopped) == position(whole)


def spoil(file):
    """Change one number or word of a data set."""
    if file.suffix == ".npy":
        array = np.load(file)
        array[2, 2, 3] += 1
        np.save(file, array)
    else:
        file.write_text(file.read_text().replace("\n", " a\n", 1))


def refused_files(run, data):
    """Return the places of the faults that keep a run from being continued on other data."""
    with pytest.raises(InputError) as refused:
        continue_run(run, changed(read_config(run)[0], data=str(data)), quiet())
    return [fault.place for fault in refused.value.faults]


def test_any_changed_number_word_or_split_is_refused_with_its_file(tmp_path, whole, data):
    """There are more images than the 64 that a sample compares, and the changed image is not among those."""
    many = write_tiny_data(tmp_path / "data", images=500)
    large = {"batch_size": 250, "bank_size": 250}
    run = start_run(tiny_config(many, epochs=1, **large), tmp_path / "runs", quiet())
    names = [f"{split}_{part}" for split in ("train", "dev") for part in ("ims.npy", "caps.txt")]
    for name in names:
        other = Path(shutil.copytree(many, tmp_path / name))
        spoil(other / name)
        assert refused_files(run, other) == [str(other / name)]
    other = write_tiny_data(tmp_path / "other", images=400)
    assert refused_files(run, other) == [str(other / name) for name in names]
    bare = Path(shutil.copytree(data, tmp_path / "bare", ignore=shutil.ignore_patterns("dev_*")))
    without = start_run(tiny_config(bare, epochs=1), tmp_path, quiet())
    assert refused_files(whole, bare) == [str(bare)]
    assert refused_files(without, data) == [str(data)]


@pytest.mark.parametrize("file", ["memory.safetensors", "position.json"])
def test_a_damaged_state_is_named_and_the_one_before_continued(whole, tmp_path, file):
    again = Path(shutil.copytree(whole, tmp_path / "tiny"))
    older, newer = SaveStore(again / "state", keep=2).names()
    damaged = again / "state" / newer / file
    console = quiet()
    flip(damaged)
    continue_run(again, None, console)
    assert str(damaged) in printed(console)
    assert int(older) < STEPS
    assert_same_run(again, whole)
