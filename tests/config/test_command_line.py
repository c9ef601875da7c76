"""Settings on the command line: read, spelt, and former names translated with a hint."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest
import tomli_w

from coder_core.config.command_line import changed_flags, named_settings, translate
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, from_document, settings, to_document, with_settings
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


@pytest.mark.parametrize(
    ("typed", "present", "hints"),
    [
        (["--boosting-anchor", "runs/a"], ["--boosting-teacher", "runs/a"], ["--boosting-anchor"]),
        (["--boosting_anchor=runs/a"], ["--boosting-teacher=runs/a"], ["--boosting_anchor"]),
        (["--boosting-start", "anchor"], ["--boosting-start", "teacher"], ["--boosting-start anchor"]),
        (
            ["--boosting-start=anchor", "--epochs=2"],
            ["--boosting-start=teacher", "--epochs=2"],
            ["--boosting-start anchor"],
        ),
        (
            ["--name", "anchor", "--boosting-start=scratch"],
            ["--name", "anchor", "--boosting-start=scratch"],
            [],
        ),
    ],
)
def test_former_flags_and_values_still_work_with_a_hint(
    typed: list[str], present: list[str], hints: list[str]
) -> None:
    translated, notes = translate(typed)
    assert translated == present
    assert [note.place for note in notes] == hints
    assert all(note.severity == "note" for note in notes)


def test_the_hint_names_the_present_flag_and_how_long_the_old_one_works() -> None:
    _, [note] = translate(["--boosting-anchor=runs/a"])
    assert str(note) == "--boosting-anchor: is now --boosting-teacher. The old name works until 0.3"


def test_former_names_in_a_file_are_read_and_written_anew() -> None:
    old = {
        "boosting": {
            "boosting_anchor": "runs/a",
            "boosting_start": "anchor",
            "boosting_anchor_temperature": 0.1,
        }
    }
    boosting = from_document(tomllib.loads(tomli_w.dumps(old))).boosting
    assert (boosting.boosting_teacher, boosting.boosting_start, boosting.boosting_teacher_temperature) == (
        "runs/a",
        "teacher",
        0.1,
    )
    assert "boosting_anchor" not in to_document(Config())["boosting"]
    assert with_settings(Config(), {"boosting-anchor": "runs/a"}).boosting.boosting_teacher == "runs/a"


def test_the_settings_a_command_line_names_are_found_however_they_are_spelt() -> None:
    typed = [
        "--epochs=6",
        "--no-diversity-gradient",
        "--bank_size",
        "512",
        "--root",
        "x",
        "--boosting-anchor=a",
    ]
    assert [setting.key for setting in named_settings(typed)] == [
        "diversity_gradient",
        "boosting_teacher",
        "bank_size",
        "epochs",
    ]


def test_a_flag_sets_every_setting(tmp_path: Path) -> None:
    """Another value for every setting at once: what the command line reads is what was chosen."""
    values = {
        setting.key: not setting.default
        if setting.value_type is bool
        else setting.choices[-1]
        if setting.choices
        else "other"
        if setting.value_type is str
        else setting.maximum
        if setting.maximum is not None
        else setting.value_type(setting.default + (1 if setting.below is None else setting.below / 4))
        for setting in settings().values()
    }
    config = dataclasses.replace(with_settings(Config(), values), name="x")
    parsed = read_arguments([*changed_flags(Config(), config), "--name=x", f"--root={tmp_path}"], Config())
    assert parsed.config == config
    assert parsed.root == tmp_path
