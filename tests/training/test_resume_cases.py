"""Every kind of run, stopped during a step and resumed without the cache, equals an uninterrupted one bit for bit."""

import shutil

import numpy as np
import pytest
import torch

from coder_core.runs.history import HISTORY, read_frame, read_history
from coder_core.runs.load import best_save, load_model
from coder_core.runs.status import read_status
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import prepare
from coder_core.training.reporting import TENSORBOARD, EventWriter
from tests.support import tiny_runs
from tests.support.boosting import boosted
from tests.support.interrupted import stop_during
from tests.support.precomp_folders import assert_refused
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import STILL, WORDS, assert_same_run, changed, printed, quiet, tiny_config
from tests.support.weighted_runs import COUNT, weighted

TWO = {"epochs": 2}
TRIPLET = TWO | {"loss": "btr-hardest", "weight_instance": 1.0, "bank_size": 0}
BOOSTED = TRIPLET | {"boosting": "am", "boosting_momentum": 0.7}
WITHIN = TWO | {"sample_weights": "none", "within_image": 0.3, "within_text": 0.7}
BOTH_WEIGHTS = TWO | {"sample_weights": "combined-stats", "neighbours_of_neighbours": 2 * COUNT}
SIGMOID = TWO | STILL | {"loss": "sigmoid", "bank_size": 0, "embedding_dropout": 0.1, "tensorboard": True}
PIECES = TWO | {"piece_size": 3, "image_layers": 1}
CONCEPTS = TWO | {"concepts": 10, "gcn_layers": 2, "beta": 0.7}
ONLINE = TWO | {"boosting_scenario": "online", "boosting_branches": 3}


def over_a_finished_run(data, folder):
    teacher = start_run(boosted(data, "first", boosting="none", epochs=1), folder, quiet())
    offline = {"boosting_scenario": "offline", "boosting_teacher": str(teacher)}
    return boosted(data, boosting="rm", **TWO | offline)


def with_bert(data, folder):
    return tiny_config(data, epochs=1, text_encoder="bert", bert=str(write_tiny_bert(folder / "bert", WORDS)))


def with_towers(folder, *, every_part=False):
    from tests.support import tower_runs as runs  # transformers, for few tests

    runs.write_towers_and_data(folder)
    return changed(runs.with_every_part(folder) if every_part else runs.tower_config(folder), **TWO)


# Configuration from the data and a folder for what else it needs; steps to stop in, counted from 0. An epoch has five
# steps: 4, 9 and 14 are an epoch's last, where the signal comes before the evaluation.
CASES = {
    "memory": (lambda data, _: tiny_config(data, **TWO), (0, 9)),
    "concepts": (lambda data, _: tiny_config(data, **CONCEPTS), (5,)),
    "prototypes": (lambda data, _: tiny_config(data, prototypes=6, prototype_recluster=1), (4, 9)),
    "momentum teacher": (lambda data, _: boosted(data, **TWO), (7,)),
    "finished teacher": (over_a_finished_run, (8,)),
    "branches": (lambda data, _: boosted(data, **ONLINE), (7,)),
    "weights": (lambda data, _: weighted(data, **BOTH_WEIGHTS), (4, 5)),
    "within": (lambda data, _: weighted(data, **WITHIN), (7,)),
    "scale": (lambda data, _: tiny_config(data, **SIGMOID), (6,)),
    "pieces": (lambda data, _: tiny_config(data, **PIECES, twin_precision="bfloat16"), (6,)),
    "several embeddings": (lambda data, _: tiny_config(data, **BOOSTED, embeddings=3), (7,)),
    "interaction": (lambda data, _: tiny_config(data, **BOOSTED, scorer="interaction"), (7,)),
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
    at = tiny_runs.position(stopped)
    assert (at["step"], at["evaluated"]) == (step + 1, step // per_epoch)
    assert (read_status(stopped) or {})["state"] == "stopped"
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "elsewhere"))
    console = quiet()
    continue_run(stopped, None, console)
    # The run has its own concepts and finds the same neighbours; no warning of a change.
    for message in ("finding concepts", "were searched again", "precision of the passes"):
        assert message not in printed(console)
    assert_same_run(stopped, whole)
    if name in STORED:
        assert_stored(whole, *STORED[name])
    assert (whole / TENSORBOARD).exists() == (name == "scale")
    for run in (whole, stopped) if name == "scale" else ():
        assert_events_are_the_history(run)


def assert_stored(run, in_state, beside_best):
    """Assert that the parts are in the state, and that the best model is only the target, with tables for readers."""
    state = tiny_runs.newest_state(run)
    best = best_save(run)
    files = {f"{stem}.safetensors" for stem in ("model", "optimizer", *in_state)}
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
