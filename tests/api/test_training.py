"""The Train form: choices, refusals and arguments that training understands; the sample weights of a run."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from coder_core import train
from coder_core.api import list_runs, open_run
from coder_core.api.training import start as starting
from coder_core.api.training.sample_weights import correlations, weight_table, weighting
from coder_core.api.training.start import DEMO, DataSet, TeacherRun
from coder_core.config.presets import PRESETS
from coder_core.config.schema import settings
from coder_core.files.sealed import write_sealed
from coder_core.runs.record import write_status
from tests.support.picture_folders import coco, flickr8k, img2dataset, parquet, webdataset
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import synthetic, write_configured, write_embeddings, write_run
from tests.support.tiny_runs import tiny_config, write_tiny_data

DATA = DataSet(DEMO, DEMO)


def parsed(words):
    """Parse the arguments as the command line does and return the configuration."""
    return train.read_arguments(words[1:], PRESETS[words[0]].config).config


def preset_words(changes, *options, name="new", data=DATA):
    """Return the arguments for a run of the demo preset."""
    return starting.arguments("demo", name, data, changes, starting.Supervision(*options))[0]


def test_unchanged_presets_need_three_arguments_and_every_option_is_parsed():
    for preset in PRESETS:
        values = {option.key: option.value for option in starting.options(preset)}
        words, _ = starting.arguments(preset, "new", DATA, values)
        assert words == (preset, "--name=new", "--data=demo")
    keys = {option.key for option in starting.options("coder-f30k-bert")}
    assert not keys & {"data", "pictures", "bert", "concept_list", "name"}
    free = {key for key, setting in settings().items() if setting.value_type is str and not setting.choices}
    assert keys & free == {"word_vectors", "device"}
    assert all(option.about for option in starting.options("demo"))
    # Change every option at once: the command line reads the same values
    options = starting.options("demo")
    changes = {option.key: not option.value for option in options if option.kind == "switch"}
    changes |= {option.key: option.choices[-1] for option in options if option.kind == "choice"}
    changes |= {"learn_scale": False}  # the last loss has no scale
    changes |= {"clean_by": "small-loss"}  # a regression, the last choice, has no scorers
    changes |= {"bank_size": 0, "gamma": -0.25, "epochs": 3, "learning_rate": 2.5e-05, "seed": 7}
    changes |= {"wrong_captions": 0.25, "clip_norm": float("inf")}
    changes |= {"other_part": False}  # clean takes all images
    words = preset_words(changes)
    assert "--gamma=-0.25" in words
    config = parsed(words)
    for option in options:
        value = getattr(getattr(config, option.section), option.key)
        assert value == changes.get(option.key, option.value), option.key


def test_invalid_training_values_are_refused_and_doubtful_ones_give_warnings():
    for key, value, fact in (
        ("temperature", 0.0, "--temperature: is 0"),
        ("batch_size", 1, "--batch-size: is 1"),
        ("bank_size", 8, "--bank-size 8 "),
        ("learning_rate", float("nan"), "--learning-rate"),
        ("loss", "mse", "btr-sum"),
        ("epochs", "3", "a whole number"),
        ("epochs", True, "a whole number"),
        ("pictures", "/etc", "'pictures'"),
        ("word_vectors", "/etc/passwd", "random, learned"),
    ):
        assert_refused(fact, preset_words, {key: value})
    for name in ("", "../up", "/abs", "-rf", "a b", "a\nb", ".hidden", "x" * 41, "ä"):
        assert_refused("--name", preset_words, {}, name=name)
    assert_refused("preset 'nothing'", starting.arguments, "nothing", "new", DATA, {})
    _, warnings = starting.arguments("demo", "new", DATA, {"bank_size": 512, "momentum": 1.0})
    assert [fault.place for fault in warnings] == ["--momentum"]


def test_given_scorers_judge_whatever_else_was_chosen(tmp_path):
    for name in ("half", "other-half"):
        write_run(tmp_path, name, images=4, pictures=False)
    for chosen, by in (((), "regression"), (list_runs(tmp_path), "halves")):
        supervision = starting.Supervision(None, None, chosen)
        changes = {"clean": True, "clean_by": "regression"}
        words, _ = starting.arguments("demo", "new", DATA, changes, supervision)
        assert parsed(words).cleaning.clean_by == by


def test_data_sets_are_found_only_in_their_roots(tmp_path):
    inside = tmp_path / "data"
    outside = tmp_path / "elsewhere"
    for folder in ("data/one", "data/two/precomp", "data/.hidden", "elsewhere/three"):
        write_tiny_data(tmp_path / folder)
    (inside / "link").symlink_to(outside / "three")
    captions = shutil.copytree(inside / "one", inside / "linked file") / "train_caps.txt"
    captions.unlink()
    captions.symlink_to(outside / "three" / captions.name)
    for folder in ("linked folder", "empty"):
        (inside / folder).mkdir()
    (inside / "linked folder" / "precomp").symlink_to(outside / "three")
    (inside / "file.txt").write_text("x")
    one, two = (DataSet(name, str(inside / name)) for name in ("one", "two"))
    assert starting.find_data_sets([inside]) == [DATA, one, two]
    assert [data.name for data in starting.find_data_sets([outside / "three"])] == [DEMO, "three"]
    write_tiny_data(outside / "one")
    names = [data.name for data in starting.find_data_sets([inside, outside])]
    assert names == [DEMO, "one", "two", "elsewhere/one", "three"]
    assert starting.find_data_sets([tmp_path / "nowhere"]) == [DATA]


@pytest.mark.parametrize("layout", [flickr8k, coco, parquet, webdataset, img2dataset])
def test_pictures_with_captions_are_offered_as_data(layout, tmp_path):
    folder = tmp_path / "data" / "photographs"
    folder.mkdir(parents=True)
    layout(folder)
    photographs = DataSet("photographs", str(folder), pictures=True)
    assert starting.find_data_sets([tmp_path / "data"]) == [DATA, photographs]
    taken = set(starting.presets(photographs))
    assert taken == {name for name, preset in PRESETS.items() if preset.config.towers.image_tower}
    assert not taken & set(starting.presets(DataSet("features", "")))


def test_finished_runs_with_the_same_inputs_are_offered_as_teachers(tmp_path):
    config = tiny_config(tmp_path / "data", "first", epochs=1)
    runs = tmp_path / "runs"
    for name, state in {"first": "finished", "undone": "stopped"}.items():
        write_status(write_configured(runs, replace(config, name=name)), state, step=1, steps=2)
    data = DataSet("tiny", str(tmp_path / "data"))
    keys = ("dimension", "image_layers", "word_size", "text_layers")
    alike = {key: settings()[key].of(config) for key in (*keys, "word_threshold")}
    summaries = list_runs(runs)

    def teachers(runs=summaries, data=data, **changes):
        return starting.teacher_runs(runs, "demo", data, alike | changes)

    [teacher] = teachers()
    assert teacher == TeacherRun("first", str(runs / "first"), same_model=True)
    assert not teachers(dimension=6)[0].same_model
    older = [replace(run, config=run.config | {"model": {**run.config["model"]}}) for run in summaries]
    for run in older:
        del run.config["model"]["region_norm"]  # as in runs older than the setting
    for versions in (summaries, older):
        assert teachers(versions)[0].same_model
        assert not teachers(versions, region_norm="rms")[0].same_model
    for changes in ({"word_threshold": 9}, {"text_encoder": "bert"}, {"data": DATA}):
        assert teachers(**changes) == []
    boosted = alike | {"boosting": "am", "boosting_scenario": "offline", "batch_size": 8}
    words = preset_words(boosted, teacher, name="second", data=data)
    assert parsed(words).boosting.boosting_teacher == str(runs / "first")
    assert_refused("--boosting-teacher is empty", preset_words, boosted, name="third", data=data)


def write_weights(root, kind, document, **arrays):
    """Write and open a run of 8 images with random sample weights of its 40 pairs, and with these arrays."""
    folder = write_sealed(root / kind, {"config.toml": f'name = "{kind}"\n'})
    weights = np.random.default_rng(2).random(40).astype(np.float32)
    documents = {"weighting": {"sample_weights": kind, "lambda": 32.0} | document}
    write_embeddings(folder, *synthetic(8, noise=1.0), documents=documents, sample_weight=weights, **arrays)
    return open_run(folder)


@pytest.mark.parametrize("direction", [-1, 1])
def test_weight_table_contains_weights_and_measures_of_every_pair(tmp_path, run, direction):
    """A larger measure is more diverse, whatever Γ the raw scores include. Weights without neighbours have none."""
    names = "diversity", "discrepancy"
    raw = {name: np.random.default_rng(k).random((40, 2)).astype(np.float32) for k, name in enumerate(names)}
    document = {kind: {name: float(getattr(raw[name], kind)()) for name in names} for kind in ("mean", "std")}
    arrays = {f"weight_{name}": values for name, values in raw.items()}
    notes = document | {"direction": direction, "neighbours": 4}
    weighted = write_weights(tmp_path, "combined", notes, **arrays)
    hal = write_weights(tmp_path, "hal", {})
    owner = weighted.image_of_text("dev")
    for column, modality in enumerate(("image", "text")):
        table = weight_table(weighted, "dev", modality)
        spread = weighted.spread("dev", modality=modality)
        assert list(correlations(table)) == ["weight", "DIVERSITY", "DISCREPANCY", "CODER"]
        expected = {name.upper(): -direction * values[:, column] for name, values in raw.items()}
        expected |= {"image": owner, "weight": weighted.analysis("dev").array("sample_weight")}
        expected |= {"rank": weighted.ranks("dev")["t2i"] + 1}
        expected |= {"CODER": spread[owner] if modality == "image" else spread}
        for name, values in expected.items():
            np.testing.assert_allclose(table[name], values, err_msg=name)
    noted = weighting(weighted, "dev")
    assert (noted.kind, noted.total, noted.neighbours) == ("combined", 32, 4)
    statistics = {kind: list(document[kind].values()) for kind in document}
    assert noted.statistics.to_dict("list") == {"measure": ["DIVERSITY", "DISCREPANCY"]} | statistics
    assert list(correlations(weight_table(hal, "dev", "image"))) == ["weight", "CODER"]
    assert weighting(hal, "dev").statistics.empty
    assert_refused("--sample-weights", weighting, run, "dev")
