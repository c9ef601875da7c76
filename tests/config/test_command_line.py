"""Settings on the command line: read and spelt."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from coder_core.config.command_line import changed_flags, named_settings
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, settings, with_settings
from coder_core.config.setting import Setting
from coder_core.train import read_arguments


@pytest.mark.parametrize("preset", PRESETS)
def test_the_flags_between_two_configurations_read_back(preset: str) -> None:
    config = PRESETS[preset].config
    assert read_arguments(changed_flags(Config(), config), Config()).config == config
    assert changed_flags(config, config) == []


def test_a_switch_and_a_number_are_spelt_as_the_command_line_reads_them() -> None:
    config = with_settings(Config(), {"gamma": -1.0, "concept_rescale": False, "clip_norm": float("inf")})
    assert changed_flags(Config(), config) == ["--no-concept-rescale", "--gamma=-1.0", "--clip-norm=inf"]
    assert read_arguments(changed_flags(Config(), config), Config()).config == config


def test_the_settings_a_command_line_names_are_found_however_they_are_spelt() -> None:
    typed = [
        "--epochs=6",
        "--no-diversity-gradient",
        "--bank_size",
        "512",
        "--root",
        "x",
        "--boosting-teacher=a",
    ]
    keys = ["diversity_gradient", "boosting_teacher", "bank_size", "epochs"]
    assert [setting.key for setting in named_settings(typed)] == keys


def another_value(setting: Setting) -> Any:
    """A value of a setting that is not its default."""
    if setting.value_type is bool:
        return not setting.default
    if setting.choices or setting.value_type is str:
        return [*setting.choices, "other"][len(setting.choices) - 1]
    if setting.within.endswith(")") and setting.largest is not None:
        return setting.value_type(setting.default + setting.bounds[1] / 4)
    return setting.default + 1 if setting.largest is None else setting.largest


def test_a_flag_sets_every_setting(tmp_path: Path) -> None:
    """Another value for every setting at once: what the command line reads is what was chosen."""
    values = {setting.key: another_value(setting) for setting in settings().values()}
    config = dataclasses.replace(with_settings(Config(), values), name="x")
    parsed = read_arguments([*changed_flags(Config(), config), "--name=x", f"--root={tmp_path}"], Config())
    assert parsed.config == config
    assert parsed.root == tmp_path
