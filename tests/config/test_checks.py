"""Impossible settings are refused and doubtful ones warned about, each by its flag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coder_core.config.checks import problems
from coder_core.config.schema import Config, settings
from coder_core.config.setting import Setting
from coder_core.console.faults import Fault
from tests.support.configs import changed


def errors(config: Config) -> list[Fault]:
    return [fault for fault in problems(config) if fault.severity == "error"]


NAN, INF = float("nan"), float("inf")
NUMBERS = {key: known for key, known in settings().items() if known.value_type in (int, float)}


def bounds(known: Setting) -> Iterator[tuple[float, bool]]:
    """Values at the bounds of a setting and just outside them, and True where the value is allowed."""
    step = 1 if known.value_type is int else 1e-6
    for bound, outwards, included in (
        (known.minimum, -1, True),
        (known.above, -1, False),
        (known.maximum, 1, True),
        (known.below, 1, False),
    ):
        if bound is not None:
            yield known.value_type(bound), included
            yield bound + outwards * step, False
            yield bound - outwards * step, True
    if known.value_type is float:
        yield NAN, False
        yield INF, known.infinite


@pytest.mark.parametrize("key", NUMBERS)
def test_values_at_and_beyond_the_bounds(key: str) -> None:
    for value, allowed in bounds(NUMBERS[key]):
        faults = errors(changed(Config(), **{key: value}))
        if not allowed:
            assert NUMBERS[key].flag in {fault.place for fault in faults}, value
        else:
            assert NUMBERS[key].fault(value) is None, value


def test_every_number_has_a_range() -> None:
    """But gamma, which infonce does not read; dcl takes a cosine."""
    assert [key for key, known in NUMBERS.items() if not known.range] == ["gamma"]
    assert [fault.place for fault in errors(changed(Config(), gamma=1.5))] == ["--gamma"]
    assert errors(changed(Config(), gamma=1.5, loss="infonce")) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threads", 10**9),  # a process that asks for more threads than fit is ended
        ("bank_size", 10**9),
        ("dimension", 10**9),
        ("concepts", 10**9),
        ("neighbours_of_neighbours", 10**10),
        ("embeddings", 65),
        ("batch_size", 1),
        ("beta", 1.1),
        ("drop_regions", 0.6),
        ("train_part", 0.0),
        ("seed", 2**31),
        ("temperature", 0.0),
    ],
)
def test_a_bound_that_protects_training(key: str, value: float) -> None:
    assert [fault.place for fault in errors(changed(Config(), **{key: value}))][:1] == [settings()[key].flag]


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
