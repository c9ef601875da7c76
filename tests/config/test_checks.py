"""Impossible settings are refused and doubtful ones warned about, each by its flag."""

import math
from dataclasses import replace

import pytest

from coder_core.config.checks import NOTHING_TRAINS, problems
from coder_core.config.schema import Config, settings
from tests.support.tiny_runs import changed

NUMBERS = {key: known for key, known in settings().items() if known.value_type in (int, float)}
TOWERS = {"image_tower": "clip", "text_tower": "clip"}
POOLED = {"image_pooling": "tower", "text_pooling": "mean"}
# values that are errors beside the defaults of all other settings
ALONE = {"concepts": 1, "concept_list": "list.json", "prototypes": 1, "prototype_recluster": 1}
ALONE |= {"boosting_teacher": "runs/a", "boosting_branches": 3, "neighbours_of_neighbours": 199}
ALONE |= {"other_part": True, "omit_wrong": True, "clean_rounds": 2, "image_tuning": "lora"}
ALONE |= {"text_tuning": "full", "text_pooling": "tower", "projection": "none", "augment": "crop"}
ALONE |= {"cache_pictures": 256}
ALONE |= {"text_space": "minilm", "weight_heads": 0.1, "weight_mmd": 0.1}
AM = {"loss": "btr-sum", "boosting": "am"}


def places(severity="error", **values):
    """Return the flags with errors (or warnings) in a configuration with these values."""
    return [fault.place for fault in problems(changed(Config(), **values)) if fault.severity == severity]


def bounds(known):
    """Yield values at a setting's limits and just beside them, with True if the value is allowed."""
    step = 1 if known.value_type is int else 1e-6
    kind = known.value_type
    for limit, outwards, included in (
        (known.smallest, -step, known.ge is not None),
        (known.largest, step, known.le is not None),
    ):
        if limit is not None:
            yield kind(limit), included
            yield kind(limit + outwards), False
            yield kind(limit - outwards), True
    if known.value_type is float:
        yield math.nan, False
        yield math.inf, known.le == math.inf


@pytest.mark.parametrize("key", NUMBERS)
def test_values_are_accepted_up_to_their_bounds(key):
    for value, allowed in bounds(NUMBERS[key]):
        assert (NUMBERS[key].fault(value) is None) == allowed, value
        assert allowed or NUMBERS[key].flag in places(**{key: value}), value


def test_every_number_has_a_range_and_bounds_protect_training():
    """Except gamma, which infonce does not read; for dcl it must be a cosine."""
    assert [key for key, known in NUMBERS.items() if known.smallest is None] == ["gamma"]
    assert (places(gamma=1.5), places(gamma=1.5, loss="infonce")) == (["--gamma"], [])
    # The limits prevent, for example, more threads than a process can start; infinity means never saving or clipping
    assert problems(changed(Config(), save_every=math.inf, clip_norm=math.inf)) == []
    largest = {"threads": 1024, "embeddings": 64, "beta": 1, "drop_regions": 0.5, "dimension": 65_536}
    assert {key: settings()[key].largest for key in largest} == largest
    for key in ("bank_size", "concepts", "neighbours_of_neighbours"):
        assert places(**{key: 10**10}) != []
    impossible = {"temperature": 0.0, "batch_size": 1, "momentum": 2.0}
    assert set(places(**impossible)) == {settings()[key].flag for key in impossible}  # all together
    for key, value in (("batch_size", 1), ("train_part", 0.0), ("seed", 2**31), ("temperature", 0.0)):
        assert places(**{key: value})[:1] == [settings()[key].flag]


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        *((settings()[key].flag, {key: value}) for key, value in ALONE.items()),
        ("--bank-size", {"bank_size": 100}),
        ("--bank-size", {"bank_size": 512, "loss": "infonce"}),
        ("--bank-size", {"bank_size": 512, "loss": "btr-hardest"}),
        ("--boosting-scenario", {"boosting_scenario": "offline"}),
        ("--boosting-scenario", {"boosting_scenario": "online"}),
        ("--boosting-teacher", AM | {"boosting_scenario": "offline"}),
        ("--boosting-teacher", AM | {"boosting_teacher": "runs/a"}),
        ("--boosting-start-epoch", AM | {"boosting_scenario": "online", "boosting_start_epoch": 1.0}),
        ("--clean", {"clean": True, "image_tower": "mytowers:small", "text_tower": "mytowers:small"}),
        ("--image-pooling", TOWERS | {"image_pooling": "tower", "scorer": "interaction"}),
        ("--text-pooling", TOWERS | {"text_pooling": "tower", "embeddings": 3}),
        ("--image-rate", TOWERS | {"image_tuning": "full", "image_rate": 0.0}),
        ("--text-tower", TOWERS | {"text_encoder": "bert"}),
        ("--image-dropout", TOWERS | {"image_dropout": 0.1}),
        ("--region-norm", TOWERS | {"region_norm": "rms"}),
        (NOTHING_TRAINS.place, TOWERS | {"projection": "none"} | POOLED),
        ("--learn-scale", {"learn_scale": True}),
        ("--learn-scale", {"learn_scale": True, "loss": "btr-sum"}),
        ("--temperature", {"loss": "sigmoid", "temperature": 0.009}),
        ("--temperature", {"loss": "infonce", "learn_scale": True, "temperature": 0.009}),
        ("--weight-instance", {"weight_instance": 0.0, "loss": "dcl"}),
        ("--weight-instance", {"weight_instance": 0.0, "weight_memory": 0.0, "bank_size": 512}),
        ("--diversity-share", {"sample_weights": "combined", "diversity_share": 0, "discrepancy_share": 0}),
        ("--bank-size", {"embeddings": 3, "bank_size": 512}),
        ("--concepts", {"embeddings": 3, "concepts": 40}),
        ("--prototypes", {"scorer": "interaction", "prototypes": 40}),
        ("--embeddings", {"scorer": "interaction", "embeddings": 2}),
    ],
)
def test_incompatible_values_are_refused(flag, values):
    values = {key: settings()[key].read(value) for key, value in values.items()}
    assert places(**values) == [flag]


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "/tmp/x", "-x", ".hidden", "a b", "a\n"])
def test_a_name_that_is_not_a_folder_name_is_refused(name):
    assert [fault.place for fault in problems(replace(Config(), name=name))] == ["--name"]


@pytest.mark.parametrize(
    ("flag", "doubtful", "cure"),
    [
        ("--momentum", {"bank_size": 4096, "momentum": 1.0}, {"momentum": 0.995}),
        ("--image-rate", {"image_tower": "clip", "image_tuning": "full"}, {"image_rate": 0.05}),
        ("--boosting-weight", {"boosting": "am"}, {"boosting_weight": 0.01}),
        ("--boosting-weight", {"boosting": "am"}, {"loss": "btr-hardest"}),
        ("--weight-scale", {"sample_weights": "hal", "weight_scale": 0.5}, {"weight_scale": 1.0}),
        ("--epochs", {"sample_weights": "diversity", "epochs": 1, "text_space": "minilm"}, {"epochs": 2}),
        ("--piece-size", {"piece_size": 128}, {"piece_size": 0}),
        ("--bank-anchors", {"bank_anchors": True}, {"bank_size": 512}),
        ("--wrong-weight", {"wrong_weight": 0.5}, {"reviews": "reviews.jsonl"}),
    ],
)
def test_doubtful_values_give_warnings(flag, doubtful, cure):
    assert (places("warning", **doubtful), places(**doubtful)) == ([flag], [])
    assert problems(changed(Config(), **doubtful | cure)) == []
