"""A run stopped anywhere and resumed equals an uninterrupted one bit for bit; changes that break this are refused."""

import itertools
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.ablation.papers import TABLES
from coder_core.ablation.results import collect_results
from coder_core.ablation.writing import markdown
from coder_core.console.faults import InputError
from coder_core.model.encode import score_split
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import best_save, read_config
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import read_status
from coder_core.training.launch import continue_run, start_run
from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support import tiny_runs as tiny
from tests.support.interrupted import begin, prepared_again, stop_during, train
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import flip
from tests.support.tiny_runs import changed

PER_EPOCH = 5
STEPS = 15
SHORT = {"batch_size": 20, "bank_size": 20}  # two steps an epoch


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """An uninterrupted run, from learned word vectors."""
    return start_run(
        tiny.tiny_config(data, word_vectors="learned"), tmp_path_factory.mktemp("whole"), tiny.quiet()
    )


@pytest.mark.parametrize("evaluation", [1, 3])
def test_an_evaluation_interrupted_by_a_signal_is_repeated(whole, tmp_path, monkeypatch, evaluation):
    evaluations = itertools.count(1)

    def signalled(*arguments, **reading):
        if next(evaluations) == evaluation:
            signal.raise_signal(signal.SIGTERM)
        return score_split(*arguments, **reading)

    monkeypatch.setattr("coder_core.training.trainer.score_split", signalled)
    folder, config, prepared = begin(whole, tmp_path / "tiny")
    assert train(folder, config, prepared) == "stopped"
    at = tiny.position(folder)
    assert (at["step"], at["evaluated"]) == (evaluation * PER_EPOCH, evaluation - 1)
    continue_run(folder, None, tiny.quiet())
    tiny.assert_same_run(folder, whole)


def test_steps_of_a_run_killed_before_its_first_save_count_once(whole, tmp_path, request):
    """It has a history but no state, so the second start begins anew, with the same word vectors. A closed terminal stops
    that one."""
    folder = stop_during(whole, tmp_path / "tiny", 12, signal.SIGINT)
    shutil.rmtree(folder / "state")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, before))
    config, prepared = prepared_again(folder)
    batches = tiny.stopping(prepared.batches, 1, signal.SIGHUP)
    assert train(folder, config, replace(prepared, batches=batches)) == "stopped"
    assert tiny.events(folder) == []
    continue_run(folder, None, tiny.quiet())
    tiny.assert_same_run(folder, whole)


def test_resuming_a_finished_run_only_tidies_up(whole, tmp_path):
    """A writer killed after its last save was complete leaves such folders; its process number is in use again."""
    again = Path(shutil.copytree(whole, tmp_path / "tiny"))
    for kind in ("state", "best"):
        shutil.copytree(whole / kind, again / kind / f".tmp-{STEPS}-{os.getpid()}-0123abcd")
    continue_run(again, None, tiny.quiet())
    assert list(again.glob("*/.tmp-*")) == []
    assert tiny.newest_state(again).fingerprint == tiny.newest_state(whole).fingerprint  # no step taken twice
    assert (read_status(again) or {})["state"] == "finished"
    tiny.assert_same_run(again, whole)


def test_plateaus_lower_the_rate_and_patience_ends_a_run_even_after_a_stop(data, tmp_path):
    """The learning rate is so low that no evaluation after the first is better."""
    values = {"schedule": "plateau", "plateau": 2, "learning_rate": 1e-12, "warmup_steps": 0, "patience": 4}
    console = tiny.quiet()
    folder = start_run(tiny.tiny_config(data, epochs=7, **values, **SHORT), tmp_path / "whole", console)
    assert "--patience 4" in tiny.printed(console)
    rates = {line["epoch"]: line["learning_rate"] for line in tiny.events(folder, "step")}
    whole_epochs = [rates[epoch] for epoch in sorted(rates) if float(epoch).is_integer()]
    assert whole_epochs == pytest.approx([1e-12] * 3 + [1e-13] * 2)
    at = tiny.position(folder)
    assert (at["step"], at["without_gain"], at["reductions"]) == (5 * 2, 4, 2)
    stopped = stop_during(folder, tmp_path / "stopped", 4 * 2 + 1)
    continue_run(stopped, None, tiny.quiet())
    tiny.assert_same_run(stopped, folder)
    before = tiny.newest_state(folder).fingerprint
    continue_run(folder, None, tiny.quiet())
    assert tiny.newest_state(folder).fingerprint == before
    assert read_history(folder / HISTORY)[-1]["state"] == "finished"


@pytest.mark.parametrize(("key", "value"), [("schedule", "plateau"), ("choose_on", "half")])
def test_settings_that_need_dev_are_refused_without_it(data, tmp_path, key, value):
    alone = Path(shutil.copytree(data, tmp_path / "alone", ignore=shutil.ignore_patterns("dev_*")))
    with pytest.raises(InputError, match=f"--{key.replace('_', '-')} {value}"):
        start_run(tiny.tiny_config(alone, **{key: value}), tmp_path, tiny.quiet())


def test_the_best_epoch_can_be_chosen_on_half_of_dev(tmp_path):
    data = tiny.write_tiny_data(tmp_path / "data", images=60)
    console = tiny.quiet()
    config = tiny.tiny_config(data, epochs=3, choose_on="half", name="dcl-s0", **SHORT)
    folder = start_run(config, tmp_path, console)
    epochs = tiny.events(folder, "epoch")
    chosen = [line["metrics"]["chosen_half_rsum"] for line in epochs]
    assert len(set(chosen)) > 1
    best = best_save(folder).document("metrics")
    assert best["epoch"] == 1 + chosen.index(max(chosen))
    assert best["metrics"] == epochs[best["epoch"] - 1]["metrics"]
    for metrics in (line["metrics"] for line in epochs):  # or the best epoch would look like one with less
        assert f"{metrics['rsum']:.1f}, " in tiny.printed(console)
        assert f" {metrics['chosen_half_rsum']:.1f}" in tiny.printed(console)
    table = collect_results(TABLES["objectives"], tmp_path, "dev")
    (row,) = table.rows
    assert [half.mean for half in row.halves] == [max(chosen), best["metrics"]["other_half_rsum"]]
    assert f"| {row.halves[1].mean:.1f} |" in markdown(table, "command")


def test_changed_values_are_named_together_and_a_state_without_a_part_is_refused(whole):
    config, _ = read_config(whole)
    with pytest.raises(InputError) as refused:
        continue_run(whole, changed(config, dimension=4, bank_size=99, seed=6), tiny.quiet())
    assert {fault.place for fault in refused.value.faults} == {"--dimension", "--bank-size", "--seed"}
    weights = {"sample_weights": "diversity", "neighbours": 4}
    parts = {"anchor": {"boosting": "am"}, "neighbourhoods": weights, "prototypes": {"prototypes": 6}}
    for stem, values in parts.items():
        config = changed(read_config(whole)[0], **values)
        trainer = Trainer(config, whole, prepare(config), torch.device("cpu"), tiny.quiet())
        assert_refused(rf"{stem}\.safetensors", trainer.resume)


def test_a_state_of_other_sizes_is_refused_by_name_and_shape(whole, data, tmp_path):
    """As after copying a state folder from one run to another."""
    sizes = {12: r"words\.gru\.weight_hh_l0.*\(24, 8\).*\(36, 12\)", 8: r"bank\.images.*\(13, 8\).*\(40, 8\)"}
    for dimension, named in sizes.items():
        config = tiny.tiny_config(data, f"of-{dimension}", epochs=1, dimension=dimension, bank_size=40)
        other = start_run(config, tmp_path, tiny.quiet())
        shutil.rmtree(other / "state")
        shutil.copytree(whole / "state", other / "state")
        assert_refused(named, continue_run, other, None, tiny.quiet())


def test_another_precision_is_reported_and_the_data_may_move(whole, data, tmp_path):
    stopped = stop_during(whole, tmp_path / "tiny", 12)
    config, about = read_config(stopped)
    moved = shutil.copytree(data, tmp_path / "moved")
    console = tiny.quiet()
    twin = "float32" if about["twin_precision"] == "bfloat16" else "bfloat16"
    continue_run(stopped, changed(config, threads=2, twin_precision=twin, data=str(moved)), console)
    assert "CPU threads: is 2, was 1" in tiny.printed(console)
    assert f"without gradients: is {twin}, was {about['twin_precision']}" in tiny.printed(console)
    assert tiny.position(stopped) == tiny.position(whole)


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
        continue_run(run, changed(read_config(run)[0], data=str(data)), tiny.quiet())
    return [fault.place for fault in refused.value.faults]


def test_any_changed_number_word_or_split_is_refused_with_its_file(tmp_path, whole, data):
    """There are more images than the 64 that a sample compares, and the changed image is not among those."""
    many = tiny.write_tiny_data(tmp_path / "data", images=500)
    large = {"batch_size": 250, "bank_size": 250}
    run = start_run(tiny.tiny_config(many, epochs=1, **large), tmp_path / "runs", tiny.quiet())
    names = [f"{split}_{part}" for split in ("train", "dev") for part in ("ims.npy", "caps.txt")]
    for name in names:
        other = Path(shutil.copytree(many, tmp_path / name))
        spoil(other / name)
        assert refused_files(run, other) == [str(other / name)]
    other = tiny.write_tiny_data(tmp_path / "other", images=400)
    assert refused_files(run, other) == [str(other / name) for name in names]
    bare = Path(shutil.copytree(data, tmp_path / "bare", ignore=shutil.ignore_patterns("dev_*")))
    without = start_run(tiny.tiny_config(bare, epochs=1), tmp_path, tiny.quiet())
    assert refused_files(whole, bare) == [str(bare)]
    assert refused_files(without, data) == [str(data)]


@pytest.mark.parametrize("file", ["memory.safetensors", "position.json"])
def test_a_damaged_state_is_named_and_the_one_before_continued(whole, tmp_path, file):
    again = Path(shutil.copytree(whole, tmp_path / "tiny"))
    older, newer = SaveStore(again / "state", keep=2).names()
    damaged = again / "state" / newer / file
    console = tiny.quiet()
    flip(damaged)
    continue_run(again, None, console)
    assert str(damaged) in tiny.printed(console)
    assert int(older) < STEPS
    tiny.assert_same_run(again, whole)
