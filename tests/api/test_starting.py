"""Choices before a run starts, refusals, and arguments that training understands."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coder_core import train
from coder_core.api import InputError, list_runs
from coder_core.api.training import start as starting
from coder_core.api.training.start import DEMO, DataSet
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, settings
from coder_core.runs.status import read_status, write_status
from coder_core.training.launch import start_run
from tests.support.picture_folders import coco, flickr8k, img2dataset, parquet, webdataset
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

DATA = DataSet("demo", "demo")


def parsed(told: tuple[str, ...]) -> Config:
    """Configuration that the command line makes of the arguments."""
    return train.read_arguments(told[1:], PRESETS[told[0]].config).config


@pytest.mark.parametrize("preset", list(PRESETS))
def test_an_unchanged_preset_is_told_in_three_words(preset: str) -> None:
    told, _ = starting.arguments(
        preset, "new", DATA, {option.key: option.value for option in starting.options(preset)}
    )
    assert told == (preset, "--name=new", "--data=demo")
    assert parsed(told).objective == PRESETS[preset].config.objective


def test_every_option_is_understood_as_it_is_meant() -> None:
    """Another value for every option at once: what the command line reads is what was chosen."""
    changes: dict[str, Any] = {}
    for option in starting.options("demo"):
        if option.kind == "switch":
            changes[option.key] = not option.value
        elif option.kind == "choice":
            changes[option.key] = option.choices[-1]
    changes["learn_scale"] = False  # the loss that is chosen has none
    changes |= {
        "bank_size": 0,
        "gamma": -0.25,
        "epochs": 3,
        "learning_rate": 2.5e-05,
        "seed": 7,
        "train_part": 0.5,
    }
    told, _ = starting.arguments("demo", "new", DATA, changes)
    found = parsed(told)
    for option in starting.options("demo"):
        assert getattr(getattr(found, option.section), option.key) == changes.get(option.key, option.value), (
            option.key
        )


def test_nothing_that_names_a_file_is_an_option() -> None:
    keys = {option.key for option in starting.options("coder-f30k-bert")}
    assert not keys & {"data", "pictures", "bert", "concept_list", "name"}
    free = {key for key, setting in settings().items() if setting.value_type is str and not setting.choices}
    assert keys & free == {"word_vectors", "device"}
    assert all(option.about for option in starting.options("demo"))
    with pytest.raises(InputError, match="cannot be changed from here"):
        starting.arguments("demo", "new", DATA, {"pictures": "/etc"})
    with pytest.raises(InputError, match="one of random, learned"):
        starting.arguments("demo", "new", DATA, {"word_vectors": "/etc/passwd"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "--temperature: is 0"),
        ({"batch_size": 1}, "--batch-size: is 1"),
        ({"bank_size": 8}, "--bank-size: is 8, smaller than the batch"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
        ({"loss": "mse"}, "one of btr-sum"),
        ({"epochs": "3"}, "a value of type int"),
        ({"epochs": True}, "type int"),
    ],
)
def test_what_training_would_refuse_is_refused_before(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        starting.arguments("demo", "new", DATA, changes)


@pytest.mark.parametrize("name", ["", "../up", "/abs", "-rf", "a b", "a\nb", ".hidden", "x" * 41, "ä"])
def test_a_name_is_a_name(name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        starting.arguments("demo", name, DATA, {})


def test_doubtful_values_are_warnings() -> None:
    _, warnings = starting.arguments("demo", "new", DATA, {"momentum": 1.0})
    assert ["--momentum" in str(fault) for fault in warnings] == [True]
    with pytest.raises(InputError, match="preset 'nothing': is not known"):
        starting.arguments("nothing", "new", DATA, {})


def test_data_sets_are_found_in_their_roots_and_nowhere_else(tmp_path: Path) -> None:
    inside, outside = tmp_path / "data", tmp_path / "elsewhere"
    write_tiny_data(inside / "one")
    write_tiny_data(inside / "two" / "precomp")
    write_tiny_data(inside / ".hidden")
    write_tiny_data(outside / "three")
    (inside / "link").symlink_to(outside / "three")
    shutil.copytree(inside / "one", inside / "linked file")
    (inside / "linked file" / "train_caps.txt").unlink()
    (inside / "linked file" / "train_caps.txt").symlink_to(outside / "three" / "train_caps.txt")
    (inside / "linked folder").mkdir()
    (inside / "linked folder" / "precomp").symlink_to(outside / "three")
    (inside / "empty").mkdir()
    (inside / "file.txt").write_text("x")
    found = starting.find_data_sets([inside])
    assert [(data.name, data.path) for data in found] == [
        (DEMO, DEMO),
        ("one", str(inside / "one")),
        ("two", str(inside / "two")),
    ]
    assert [data.name for data in starting.find_data_sets([outside / "three"])] == [DEMO, "three"]
    write_tiny_data(outside / "one")
    assert [data.name for data in starting.find_data_sets([inside, outside])] == [
        DEMO,
        "one",
        "two",
        "elsewhere/one",
        "three",
    ]
    assert starting.find_data_sets([tmp_path / "nowhere"]) == [DataSet(DEMO, DEMO)]


@pytest.mark.parametrize("layout", [flickr8k, coco, parquet, webdataset, img2dataset])
def test_pictures_with_captions_are_data_too(layout: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "data" / "photographs"
    folder.mkdir(parents=True)
    layout(folder)
    assert starting.find_data_sets([tmp_path / "data"]) == [
        DataSet(DEMO, DEMO),
        DataSet("photographs", str(folder), pictures=True),
    ]
    taken = set(starting.presets(DataSet("photographs", str(folder), pictures=True)))
    assert taken == {name for name, preset in PRESETS.items() if preset.config.towers.image_tower}
    assert not taken & set(starting.presets(DataSet("features", "", pictures=False)))


def test_the_program_takes_the_arguments_whatever_the_shape_of_the_value() -> None:
    told, _ = starting.arguments("demo", "new", DATA, {"gamma": -1.0, "clip_norm": float("inf")})
    assert "--gamma=-1.0" in told
    assert parsed(told).objective.gamma == -1.0
    assert parsed(told).training.clip_norm == float("inf")


def without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def test_a_finished_run_that_reads_the_same_becomes_the_teacher(tmp_path: Path) -> None:
    folder = write_tiny_data(tmp_path / "data")
    config = tiny_config(folder)
    runs, data = tmp_path / "runs", DataSet("tiny", str(folder))
    start_run(replace(config, name="first", training=replace(config.training, epochs=1)), runs, quiet())
    start_run(replace(config, name="undone", training=replace(config.training, epochs=1)), runs, quiet())
    write_status(runs / "undone", "stopped", step=1, steps=2)
    alike = {
        key: getattr(config.model, key) for key in ("dimension", "image_layers", "word_size", "text_layers")
    }
    alike |= {"word_threshold": config.data.word_threshold}
    listed = list_runs(runs)
    (teacher,) = starting.teacher_runs(listed, "demo", data, alike)
    assert (teacher.name, teacher.path, teacher.same_model) == ("first", str(runs / "first"), True)
    assert not starting.teacher_runs(listed, "demo", data, alike | {"dimension": 6})[0].same_model
    older = [
        replace(run, config=run.config | {"model": without(run.config["model"], "region_norm")})
        for run in listed
    ]
    for runs_listed in (listed, older):  # a run from before the option had none
        assert starting.teacher_runs(runs_listed, "demo", data, alike)[0].same_model
        assert not starting.teacher_runs(runs_listed, "demo", data, alike | {"region_norm": "rms"})[
            0
        ].same_model
    assert starting.teacher_runs(listed, "demo", data, alike | {"word_threshold": 9}) == []
    assert starting.teacher_runs(listed, "demo", data, alike | {"text_encoder": "bert"}) == []
    assert starting.teacher_runs(listed, "demo", DATA, alike) == []
    chosen = alike | {"boosting": "am", "boosting_scenario": "offline", "boosting_weight": 0.01, "epochs": 1}
    chosen |= {"bank_size": 0, "batch_size": 8, "warmup_steps": 0, "device": "cpu", "threads": 1}
    told, _ = starting.arguments("demo", "second", data, chosen, teacher)
    assert f"--boosting-teacher={runs / 'first'}" in told
    start_run(parsed(told), runs, quiet())
    assert (read_status(runs / "second") or {})["state"] == "finished"
    with pytest.raises(InputError, match="--boosting-teacher: is '' with --boosting-scenario offline"):
        starting.arguments("demo", "third", data, chosen)
