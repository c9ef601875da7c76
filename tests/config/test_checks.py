"""Impossible settings are refused and doubtful ones warned about, each by its flag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coder_core.config.checks import problems
from coder_core.config.schema import Config, settings
from coder_core.console.faults import Fault
from tests.support.configs import changed


def errors(config: Config) -> list[Fault]:
    return [fault for fault in problems(config) if fault.severity == "error"]


NAN, INF = float("nan"), float("inf")
OUT_OF_RANGE: dict[str, dict[str, tuple[float, ...]]] = {
    "0 or more": {
        "prototype_recluster": (-1,),
        "piece_size": (-1,),
        "warmup_steps": (-1,),
        "patience": (-1,),
        "bert_rate": (-0.1,),
        "margin": (-0.1, NAN),
        "npairs_margin": (-0.1,),
        "warmup_epochs": (-1.0,),
        "weight_instance": (-1.0,),
        "weight_memory": (-1.0,),
        "weight_concept": (-1.0,),
        "weight_prototypes": (-1.0,),
        "weight_decay": (-1e-4,),
        "weight_heads": (-0.1,),
        "weight_mmd": (-0.1,),
        "bank_start_epoch": (-1.0,),
        "boosting_weight": (-1.0,),
        "boosting_margin": (-0.1, NAN),
        "boosting_start_epoch": (-1.0,),
        "diversity_share": (-1.0,),
        "discrepancy_share": (NAN,),
        "within_image": (-1.0,),
        "within_text": (-1.0,),
        "image_rate": (-0.1,),
        "text_rate": (-0.1,),
    },
    "1 or more": {"epochs": (0,), "word_threshold": (0,), "evaluate_every": (0,), "plateau": (0,)},
    "a value from 0 to 64": {"image_layers": (-1, 10**9)},
    "a value from 0 to 1024": {
        "threads": (-1, 10**9)
    },  # a process that asks for more threads than fit is ended
    "a value from 0 to 100000": {"concepts": (-1, 10**9)},
    "a value from 0 to 10000000": {"prototypes": (-1, 10**9)},
    "a value from 0 to 100000000": {"bank_size": (-1, 10**9)},
    "a value from 0 to 1000000000": {"neighbours_of_neighbours": (10**10,)},
    "a value from 1 to 1024": {"lora_rank": (0, 10**9)},
    "a value from -1 to 256": {"workers": (-2, 10**9)},
    "a value from 1 to 64": {"embeddings": (0, 65), "text_layers": (0, 10**9)},
    "a value from 1 to 65536": {"interaction_size": (0, 10**9), "word_size": (0, 10**9)},
    "a value from 1 to 1000000": {"neighbours": (0,)},
    "a value from 2 to 65536": {"dimension": (1, 10**9), "text_space_size": (1, 10**9)},
    "a value from 2 to 64": {"boosting_branches": (1,)},
    "2 or more. A contrastive loss needs negatives in the batch": {"batch_size": (1,)},
    "a value above 0": {
        "temperature": (0.0, -0.1, NAN),
        "prototype_temperature": (0.0,),
        "epsilon": (0.0,),
        "learning_rate": (0.0,),
        "entropy_temperature": (0.0,),
        "clip_norm": (0.0,),
        "save_every": (0.0,),
        "concept_smoothing": (0.0,),
        "interaction_sharpness": (0.0,),
        "boosting_temperature": (0.0,),
        "boosting_teacher_temperature": (0.0,),
        "weight_scale": (0.0,),
        "lora_alpha": (0.0,),
    },
    "a value above 0. At 0 every concept is connected with every other": {"concept_threshold": (0.0,)},
    "a value above 0 and at most 1": {"decay_at": (0.0, 1.1), "train_part": (0.0, 1.1)},
    "a value from 0 to 1": {
        "beta": (1.1,),
        "momentum": (1.01, -0.01),
        "boosting_split": (1.1,),
        "boosting_momentum": (1.1,),
        "vague_captions": (1.5, -0.1),
        "wrong_weight": (1.5, -0.1),
        "vague_weight": (1.5, -0.1),
        "duplicate_weight": (1.5, -0.1),
        "dev_share": (1.1,),
        "test_share": (-0.1,),
    },
    "a value from 0 to below 1": {
        "drop_words": (1.0,),
        "image_dropout": (1.0,),
        "word_dropout": (-0.1,),
        "embedding_dropout": (NAN,),
        "lora_dropout": (1.0,),
    },
    "a value from 0 to 0.5": {"drop_regions": (0.6,)},
    "a value from 0 to below 2147483648": {"seed": (-1, 2**31), "split_seed": (-1,)},
    "1 or 2": {"gcn_layers": (3,)},
    "-1, 0 or 1": {"weight_direction": (2,)},
    "a value from -100 to 100": {"logit_bias": (-101.0, 101.0)},
    "a cosine, from -1 to 1": {"gamma": (1.5,)},
    "a finite number": {
        "temperature": (INF,),
        "learning_rate": (INF,),
        "weight_memory": (INF,),
        "boosting_weight": (INF,),
        "weight_scale": (INF,),
        "gamma": (INF, NAN),
    },
}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (key, value, expected)
        for expected, keys in OUT_OF_RANGE.items()
        for key in keys
        for value in keys[key]
    ],
)
def test_a_value_out_of_range_names_its_flag_and_the_range(key: str, value: float, expected: str) -> None:
    flag, shown = f"--{key.replace('_', '-')}", f"{value:g}" if abs(value) < 1e6 else f"{value}"
    faults = errors(changed(Config(), **{key: value}))
    assert str(faults[0]) == f"{flag}: is {shown}; expected {expected}"
    assert {fault.place for fault in faults} == {flag}


def test_every_number_has_a_range_but_gamma_which_infonce_does_not_read() -> None:
    numbers = {key for key, setting in settings().items() if setting.value_type in (int, float)}
    assert numbers == {key for keys in OUT_OF_RANGE.values() for key in keys}
    assert errors(changed(Config(), gamma=1.5, loss="infonce")) == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("concepts", 1, "--concepts: is 1; expected 0 (no concept branch) or 2 and more"),
        ("concept_list", "list.json", "--concept-list: is given with --concepts 0"),
        ("prototypes", 1, "--prototypes: is 1; expected 0 (none) or 2 and more"),
        ("prototype_recluster", 1, "--prototype-recluster: is given with --prototypes 0"),
        ("bank_size", 100, "--bank-size: is 100, smaller than the batch of 128"),
        ("boosting_teacher", "runs/a", "--boosting-teacher: is given with --boosting none"),
        ("boosting_scenario", "offline", "--boosting-scenario: is offline with --boosting none"),
        ("boosting_scenario", "online", "--boosting-scenario: is online with --boosting none"),
        ("boosting_branches", 3, "--boosting-branches: is 3 with --boosting-scenario momentum"),
        (
            "neighbours_of_neighbours",
            199,
            "--neighbours-of-neighbours: is 199; expected 0 (all of them) or at least",
        ),
        ("other_part", True, "--other-part: is given without --train-part; expected a share below 1"),
        ("image_tuning", "lora", "--image-tuning: is lora without --image-tower; expected a tower to tune"),
        ("text_pooling", "tower", "--text-pooling: is tower without --text-tower; expected gpo, mean or max"),
        ("projection", "none", "--projection: is none without a tower"),
        ("augment", "crop", "--augment: is crop without --image-tower; expected pictures to change"),
        ("text_space", "minilm", "--text-space: is given, but nothing reads neighbours"),
    ],
)
def test_a_setting_that_lacks_another_is_refused(key: str, value: Any, said: str) -> None:
    [fault] = errors(changed(Config(), **{key: value}))
    assert str(fault).startswith(said)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"image_pooling": "tower", "scorer": "interaction"},
            "--image-pooling: is tower with --scorer interaction",
        ),
        ({"text_pooling": "tower", "embeddings": 3}, "--text-pooling: is tower with --embeddings 3"),
        ({"image_tuning": "full", "image_rate": 0.0}, "--image-rate: is 0 with --image-tuning full"),
        ({"text_encoder": "bert"}, "--text-tower: is given with --text-encoder bert"),
        ({"image_dropout": 0.1}, "--image-dropout: is 0.1 with --image-tower"),
        ({"region_norm": "rms"}, "--region-norm: is rms with --image-tower"),
        (
            {"projection": "none", "image_pooling": "tower", "text_pooling": "mean"},
            "--image-tuning and --text-tuning: are frozen, and nothing stands on the towers that could be trained",
        ),
    ],
)
def test_towers_and_what_does_not_go_with_them(values: dict[str, Any], said: str) -> None:
    both = {"image_tower": "clip", "text_tower": "clip"}
    assert errors(changed(Config(), **both)) == []
    [fault] = errors(changed(Config(), **both, **values))
    assert str(fault).startswith(said)


def test_a_rate_that_undoes_pretraining_is_warned_about() -> None:
    config = changed(Config(), image_tower="clip", image_tuning="full")
    assert [fault.place for fault in problems(config)] == ["--image-rate"]
    assert problems(changed(config, image_rate=0.05)) == []


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "/tmp/x", "-x", ".hidden", "a b", "a\n"])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    assert [fault.place for fault in errors(replace(Config(), name=name))] == ["--name"]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"bank_size": 512, "loss": "infonce"}, "--bank-size"),
        ({"bank_size": 512, "loss": "btr-hardest"}, "--bank-size"),
        ({"learn_scale": True}, "--learn-scale"),
        ({"learn_scale": True, "loss": "btr-sum"}, "--learn-scale"),
        ({"loss": "sigmoid", "temperature": 0.009}, "--temperature"),
        ({"loss": "infonce", "learn_scale": True, "temperature": 0.009}, "--temperature"),
        ({"weight_instance": 0.0, "loss": "dcl"}, "--weight-instance"),
        ({"weight_instance": 0.0, "weight_memory": 0.0, "bank_size": 512}, "--weight-instance"),
        ({"loss": "btr-sum", "boosting": "am", "boosting_scenario": "offline"}, "--boosting-teacher"),
        (
            {"loss": "btr-sum", "boosting": "am", "boosting_scenario": "online", "boosting_start_epoch": 1.0},
            "--boosting-start-epoch",
        ),
        ({"loss": "btr-sum", "boosting": "am", "boosting_teacher": "runs/a"}, "--boosting-teacher"),
        (
            {"sample_weights": "combined", "diversity_share": 0.0, "discrepancy_share": 0.0},
            "--diversity-share",
        ),
        ({"embeddings": 3, "bank_size": 512}, "--bank-size"),
        ({"embeddings": 3, "concepts": 40}, "--concepts"),
        ({"scorer": "interaction", "prototypes": 40}, "--prototypes"),
        ({"scorer": "interaction", "embeddings": 2}, "--embeddings"),
        ({"weight_heads": 0.1}, "--weight-heads"),
        ({"weight_mmd": 0.1}, "--weight-mmd"),
    ],
)
def test_values_that_do_not_go_together(values: dict[str, Any], place: str) -> None:
    assert [fault.place for fault in errors(changed(Config(), **values))] == [place]


def test_all_impossible_values_are_told_together() -> None:
    config = changed(Config(), temperature=0.0, batch_size=1, momentum=2.0)
    assert {fault.place for fault in errors(config)} == {"--temperature", "--batch-size", "--momentum"}


def test_a_key_encoder_that_never_moves_is_a_warning() -> None:
    (fault,) = problems(changed(Config(), bank_size=4096, momentum=1.0))
    assert (fault.place, fault.severity) == ("--momentum", "warning")


def test_boosting_as_heavy_as_beside_a_summed_loss_is_a_warning_beside_an_averaged_one() -> None:
    (fault,) = problems(changed(Config(), boosting="am"))
    assert (fault.place, fault.severity) == ("--boosting-weight", "warning")
    assert "Begin near 1 / batch size (0.0078)" in str(fault)
    assert problems(changed(Config(), boosting="am", boosting_weight=0.01)) == []
    assert problems(changed(Config(), boosting="am", loss="btr-hardest")) == []


def test_weights_below_one_and_a_single_epoch_of_them_are_warnings() -> None:
    (small,) = problems(changed(Config(), sample_weights="hal", weight_scale=0.5))
    assert str(small).startswith("--weight-scale: is 0.5: λ below the batch size")
    (short,) = problems(changed(Config(), sample_weights="diversity", epochs=1))
    assert (short.place, small.severity, short.severity) == ("--epochs", "warning", "warning")
    assert (
        problems(changed(Config(), sample_weights="diversity", text_space="minilm", weight_scale=1.0)) == []
    )


def test_never_saving_between_epochs_and_never_clipping_are_possible() -> None:
    assert problems(changed(Config(), save_every=float("inf"), clip_norm=float("inf"))) == []
