"""Impossible settings are refused and doubtful ones warned about, each by its flag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coder_core.config.checks import problems
from coder_core.config.schema import Config
from coder_core.console.faults import Fault
from tests.support.configs import changed


def errors(config: Config) -> list[Fault]:
    return [fault for fault in problems(config) if fault.severity == "error"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("concepts", -1, "--concepts: is -1; expected 0 or more"),
        ("concepts", 1, "--concepts: is 1; expected 0 (no concept branch) or 2 and more"),
        ("concept_list", "list.json", "--concept-list: is given with --concepts 0"),
        ("gcn_layers", 3, "--gcn-layers: is 3; expected 1 or 2"),
        ("concept_smoothing", 0.0, "--concept-smoothing: is 0; expected a value above 0"),
        ("concept_threshold", 0.0, "--concept-threshold: is 0"),
        ("beta", 1.1, "--beta: is 1.1; expected a value from 0 to 1"),
        ("weight_concept", -1.0, "--weight-concept: is -1"),
        ("embeddings", 0, "--embeddings: is 0; expected 1 or more"),
        ("interaction_size", 0, "--interaction-size: is 0"),
        ("interaction_sharpness", 0.0, "--interaction-sharpness: is 0; expected a value above 0"),
        ("temperature", 0.0, "--temperature: is 0; expected a value above 0"),
        ("temperature", -0.1, "--temperature: is -0.1"),
        ("temperature", float("nan"), "--temperature: is nan"),
        ("temperature", float("inf"), "--temperature: is inf; expected a finite number"),
        ("epsilon", 0.0, "--epsilon"),
        ("entropy_temperature", 0.0, "--entropy-temperature"),
        ("learning_rate", 0.0, "--learning-rate"),
        ("learning_rate", float("inf"), "--learning-rate"),
        ("clip_norm", 0.0, "--clip-norm"),
        ("margin", -0.1, "--margin"),
        ("margin", float("nan"), "--margin"),
        ("gamma", 1.5, "--gamma: is 1.5; expected a cosine, from -1 to 1"),
        ("warmup_epochs", -1.0, "--warmup-epochs"),
        ("weight_instance", -1.0, "--weight-instance"),
        ("weight_memory", float("inf"), "--weight-memory"),
        ("weight_decay", -1e-4, "--weight-decay"),
        ("bank_start_epoch", -1.0, "--bank-start-epoch"),
        ("warmup_steps", -1, "--warmup-steps"),
        ("patience", -1, "--patience"),
        ("bank_size", -1, "--bank-size"),
        ("bank_size", 100, "--bank-size: is 100, smaller than the batch of 128"),
        ("image_layers", -1, "--image-layers"),
        ("text_layers", 0, "--text-layers"),
        ("dimension", 1, "--dimension: is 1; expected 2 or more"),
        ("word_size", 0, "--word-size"),
        ("epochs", 0, "--epochs"),
        ("word_threshold", 0, "--word-threshold"),
        ("evaluate_every", 0, "--evaluate-every"),
        ("momentum", 1.01, "--momentum: is 1.01; expected a value from 0 to 1"),
        ("momentum", -0.01, "--momentum"),
        ("decay_at", 0.0, "--decay-at"),
        ("decay_at", 1.1, "--decay-at"),
        ("drop_regions", 0.6, "--drop-regions"),
        ("drop_words", 1.0, "--drop-words"),
        ("image_dropout", 1.0, "--image-dropout"),
        ("word_dropout", -0.1, "--word-dropout"),
        ("embedding_dropout", float("nan"), "--embedding-dropout"),
        ("save_every", 0.0, "--save-every"),
        ("seed", -1, "--seed"),
        ("seed", 2**31, "--seed"),
        ("batch_size", 1, "--batch-size: is 1; expected 2 or more"),
        ("threads", -1, "--threads"),
        ("bert_rate", -0.1, "--bert-rate"),
        ("boosting_weight", -1.0, "--boosting-weight: is -1; expected 0 or more"),
        ("boosting_weight", float("inf"), "--boosting-weight"),
        ("boosting_margin", -0.1, "--boosting-margin"),
        ("boosting_start_epoch", -1.0, "--boosting-start-epoch"),
        ("boosting_margin", float("nan"), "--boosting-margin"),
        ("boosting_split", 1.1, "--boosting-split: is 1.1; expected a value from 0 to 1"),
        ("boosting_momentum", 1.1, "--boosting-momentum: is 1.1; expected a value from 0 to 1"),
        ("boosting_teacher", "runs/a", "--boosting-teacher: is given with --boosting none"),
        ("boosting_scenario", "offline", "--boosting-scenario: is offline with --boosting none"),
        ("boosting_scenario", "online", "--boosting-scenario: is online with --boosting none"),
        ("boosting_branches", 3, "--boosting-branches: is 3 with --boosting-scenario momentum"),
        ("boosting_temperature", 0.0, "--boosting-temperature: is 0; expected a value above 0"),
        ("boosting_teacher_temperature", 0.0, "--boosting-teacher-temperature: is 0; expected a value above 0"),
        ("npairs_margin", -0.1, "--npairs-margin: is -0.1; expected 0 or more"),
        ("weight_direction", 2, "--weight-direction: is 2; expected -1, 0 or 1"),
        ("weight_scale", 0.0, "--weight-scale: is 0; expected a value above 0"),
        ("weight_scale", float("inf"), "--weight-scale"),
        ("diversity_share", -1.0, "--diversity-share"),
        ("discrepancy_share", float("nan"), "--discrepancy-share"),
        ("neighbours", 0, "--neighbours: is 0; expected 1 or more"),
        ("neighbours_of_neighbours", 199, "--neighbours-of-neighbours: is 199; expected 0 (all of them) or at least"),
        ("text_space", "minilm", "--text-space: is given, but nothing reads neighbours"),
        ("text_space_size", 1, "--text-space-size: is 1; expected 2 or more"),
        ("within_image", -1.0, "--within-image"),
        ("within_text", -1.0, "--within-text"),
    ],
)
def test_an_impossible_value_names_its_flag(key: str, value: Any, said: str) -> None:
    found = errors(changed(Config(), **{key: value}))
    assert len(found) == 1
    assert str(found[0]).startswith(said)


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", "/tmp/x", "-x", ".hidden", "a b", "a\n"])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    assert [fault.place for fault in errors(replace(Config(), name=name))] == ["--name"]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"bank_size": 512, "loss": "infonce"}, "--bank-size"),
        ({"bank_size": 512, "loss": "btr-hardest"}, "--bank-size"),
        ({"weight_instance": 0.0, "loss": "dcl"}, "--weight-instance"),
        ({"weight_instance": 0.0, "weight_memory": 0.0, "bank_size": 512}, "--weight-instance"),
        ({"loss": "btr-sum", "boosting": "am", "boosting_scenario": "offline"}, "--boosting-teacher"),
        (
            {"loss": "btr-sum", "boosting": "am", "boosting_scenario": "online", "boosting_start_epoch": 1.0},
            "--boosting-start-epoch",
        ),
        ({"loss": "btr-sum", "boosting": "am", "boosting_teacher": "runs/a"}, "--boosting-teacher"),
        ({"sample_weights": "combined", "diversity_share": 0.0, "discrepancy_share": 0.0}, "--diversity-share"),
        ({"embeddings": 3, "bank_size": 512}, "--bank-size"),
        ({"embeddings": 3, "concepts": 40}, "--concepts"),
        ({"scorer": "interaction", "prototypes": 40}, "--prototypes"),
        ({"scorer": "interaction", "embeddings": 2}, "--embeddings"),
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
    assert problems(changed(Config(), sample_weights="diversity", text_space="minilm", weight_scale=1.0)) == []


def test_never_saving_between_epochs_and_never_clipping_are_possible() -> None:
    assert problems(changed(Config(), save_every=float("inf"), clip_norm=float("inf"))) == []
