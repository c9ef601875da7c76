"""Settings: help and range of each, conversion to tables and flags and back, unknown keys and wrong values."""

import math
from dataclasses import fields, replace

import pytest

from coder_core.config import schema
from coder_core.config.schema import Config, changed_flags, from_document, settings, with_settings
from coder_core.config.setting import Setting
from coder_core.console.faults import InputError
from coder_core.train import read_arguments
from tests.support.precomp_folders import assert_refused, refusal


def test_unknown_keys_and_out_of_range_values_are_reported_together():
    refused = refusal(from_document, {"training": {"epoch": 3, "epochs": 3, "lr": 0.1}}, "a")
    assert [fault.place for fault in refused.faults] == ["a [training] key epoch", "a [training] key lr"]
    assert "is not known to this version; expected one of batch_size, bert_rate, choose_on, " in str(refused)
    with pytest.raises(
        InputError, match=r"\[optimiser\]: is not known .*; expected one of name, data, model"
    ):
        from_document({"optimiser": {}})
    values = {"epochs": 0, "save_every": float("inf"), "decay_at": 2.0, "seed": 2**31}
    refused = refusal(from_document, {"training": values}, "a")
    expected = [
        (f"a [training] key {key}", settings()[key].expected) for key in ("epochs", "decay_at", "seed")
    ]
    assert [(fault.place, fault.expected) for fault in refused.faults] == expected


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("training", "epochs", "30", "is '30'; expected a whole number of 1 or more"),
        ("training", "epochs", 3.5, "expected a whole number of 1 or more"),
        ("training", "epochs", True, "expected a whole number of 1 or more"),
        ("training", "epochs", 10**400, "expected a whole number between −2⁶³ and 2⁶³"),
        pytest.param("objective", "gamma", -(16**5000), "int too long to show; expected a number", id="huge"),
        ("training", "compile", 1, "expected true or false"),
        ("objective", "loss", "dcl_i", "is 'dcl_i'; expected one of 'btr-sum', 'btr-hardest', 'npairs-"),
        ("data", "data", 3, "expected text"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(section, key, value, message):
    refused = str(refusal(from_document, {section: {key: value}}))
    assert f"[{section}] key {key}" in refused
    assert message in refused


def test_missing_keys_use_defaults_and_settings_describe_their_ranges():
    config = from_document({"objective": {"margin": 1}})
    before = replace(Config().data, equal_texts="label")  # a run written before the setting counted labels
    cleaned = replace(
        Config().cleaning, clean_rounds=1
    )  # … and before the number of rounds was chosen from the list
    objective = replace(Config().objective, margin=1.0)
    assert config == replace(Config(), data=before, cleaning=cleaned, objective=objective)
    assert from_document({"data": {"equal_texts": "match"}}).data == Config().data
    assert isinstance(config.objective.margin, float)
    assert_refused(r"\[data\]: is 3; expected a table", from_document, {"data": 3})
    sections = [getattr(Config(), section.name) for section in fields(Config)[1:]]
    keys = [declared.name for section in sections for declared in fields(section)]
    assert list(settings()) == keys
    assert len(set(keys)) == len(keys)
    for setting in settings().values():
        assert setting.help
        assert setting.fault(setting.default) is None
        assert schema.find_setting(setting.flag) is setting


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "a number"),
        ({"ge": 0}, "a number of 0 or more"),
        ({"gt": 0, "le": math.inf}, "a number above 0"),
        ({"ge": 0, "le": 1}, "a number from 0 to 1"),
        ({"ge": 0, "lt": 1}, "a number from 0 to below 1"),
        ({"gt": 0, "le": 1}, "a number above 0 and at most 1"),
    ],
)
def test_limits_are_described(limits, words):
    assert Setting("training", "x", float, 0.5, "…", **limits).expected == words


def test_settings_convert_to_and_from_command_line_flags():
    config = with_settings(Config(), {"bank-size": 64, "margin": 1, "--loss": "infonce"})
    assert (config.memory.bank_size, config.objective.margin, config.objective.loss) == (64, 1.0, "infonce")
    refused = refusal(with_settings, Config(), {"bank-sise": 3, "epochs": 0, "compile": 1}, "mine.toml row a")
    flags = ("bank-sise", "--epochs", "--compile")
    assert [fault.place for fault in refused.faults] == [f"mine.toml row a, {flag}" for flag in flags]
    config = with_settings(Config(), {"gamma": -1.0, "concept_rescale": False, "clip_norm": float("inf")})
    assert changed_flags(Config(), config) == ["--no-concept-rescale", "--gamma=-1.0", "--clip-norm=inf"]
    assert read_arguments(changed_flags(Config(), config), Config()).config == config
    assert changed_flags(config, config) == []
    typed = ["--epochs=6", "--no-diversity-gradient", "--bank_size", "512"]
    typed += ["--root", "x", "--boosting-teacher=a"]
    keys = ["diversity_gradient", "boosting_teacher", "bank_size", "epochs"]
    assert [setting.key for setting in schema.named_settings(typed)] == keys


def another_value(setting):
    """Return a valid value of a setting other than its default."""
    if setting.value_type is bool:
        return not setting.default
    if setting.choices or setting.value_type is str:
        return [*setting.choices, "other"][len(setting.choices) - 1]
    if setting.lt is not None:
        return setting.default + setting.lt / 4
    return setting.default + 1 if setting.largest is None else setting.largest


def test_every_setting_has_a_flag(tmp_path):
    """Change every setting at once: the command line reads the same values."""
    values = {setting.key: another_value(setting) for setting in settings().values()}
    config = replace(with_settings(Config(), values), name="x")
    parsed = read_arguments([*changed_flags(Config(), config), "--name=x", f"--root={tmp_path}"], Config())
    assert parsed.config == config
    assert parsed.root == tmp_path
