"""The form that starts a run: its presets, settings and data sets, and the resulting arguments of the command.

No setting here names a file: data sets are in folders that were named when the program was started, and the other
settings are numbers, switches and fixed choices.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from coder_core.api.listing import RunSummary
from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS, find_preset
from coder_core.config.schema import RUN_NAME, Config, changed_flags, settings, to_document, with_settings
from coder_core.console.faults import Fault, InputError, collect, stop_on_errors
from coder_core.data.captioned.layouts import holds_pictures_only
from coder_core.data.dataset import find_features, leaves
from coder_core.model.towers.folders import find_model

Kind = Literal["number", "decimal", "switch", "choice"]
DEMO = "demo"
LONGEST_NAME = 40
KINDS: dict[type, Kind] = {int: "number", float: "decimal", bool: "switch", str: "choice"}
# Settings that a teacher must share, to read the same captions; to start from its weights, all of [model] but UNSHAPED.
READ_BY = (("data", "word_threshold"), ("model", "text_encoder"), ("model", "bert"))
DROPOUTS = ("image_dropout", "image_dropout_mask", "word_dropout", "embedding_dropout")
UNSHAPED = (*DROPOUTS, "beta", "concept_smoothing")


@dataclass(frozen=True)
class Option:
    """A setting that may be changed."""

    key: str  # its name; unique over all sections
    section: str  # of the configuration
    kind: Kind  # "number" (whole), "decimal", "switch" or "choice"
    value: Any  # of the preset
    choices: tuple[str, ...]  # of a "choice"
    about: str  # its purpose, and the source of its default
    # smallest, largest: the range of a number; the bounds of a decimal may be excluded
    smallest: float | None = None
    largest: float | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set to train on: its displayed name, and its folder ("demo" is built in). `pictures`: it has pictures with
    captions but no region features, so it needs a preset with an image tower."""

    name: str
    path: str
    pictures: bool = False


@dataclass(frozen=True)
class TeacherRun:
    """A finished run that can be the offline teacher of boosting, because it reads the same images and words.
    `same_model`: training can start from its weights too."""

    name: str
    path: str
    same_model: bool


@dataclass(frozen=True)
class Supervision:
    """What a run learns from besides the labels of its data."""

    teacher: TeacherRun | None = None  # from `teacher_runs`, for offline boosting
    reviews: Path | None = None  # the file with the data's reviews
    scorers: Sequence[RunSummary] = ()  # two finished runs that score the train pairs, or none


def presets(data: DataSet | None = None) -> dict[str, str]:
    """Map each preset's name to a sentence on its purpose, without presets made for other data.

    The built-in pictures have their own presets, other region features any preset that reads them, and pictures with
    captions those with an image tower.
    """
    fitting = {name: p for name, p in PRESETS.items() if data is None or _fits(p.config, data)}
    return {name: preset.about for name, preset in fitting.items()}


def _fits(config: Config, data: DataSet) -> bool:
    """True if a preset was made for this kind of data."""
    same_kind = bool(config.towers.image_tower) == data.pictures
    return same_kind and (data.path != DEMO or config.data.data == DEMO)


def wanted_data(preset: str) -> str:
    """Describe the data that a preset trains on."""
    config = find_preset(preset)
    if config.data.data == DEMO:
        return "the built-in pictures"
    return f"a data set of {'pictures with captions' if config.towers.image_tower else 'region features'}"


def missing_models(preset: str) -> list[Fault]:
    """Return a fault for each pretrained model of a preset that is missing here, with the command that downloads it."""
    towers = find_preset(preset).towers
    faults: list[Fault] = []
    for name in dict.fromkeys((towers.image_tower, towers.text_tower)):
        if name and ":" not in name:
            collect(lambda name=name: find_model(name, towers.revision, name), faults)  # type: ignore[misc]
    return faults


def options(preset: str) -> list[Option]:
    """List every setting of a preset that may be changed, section by section; those of towers if the preset has one.
    InputError: there is no such preset."""
    config = find_preset(preset)
    has_tower = {"image_pooling": config.towers.image_tower, "text_pooling": config.towers.text_tower}
    offered = []
    for setting in settings().values():
        if setting.section == "towers" and not any(has_tower.values()):
            continue
        choices = setting.choices or setting.suggestions
        if not has_tower.get(setting.key, True):
            choices = tuple(choice for choice in choices if choice != "tower")
        if setting.value_type is str and not choices:
            continue  # free text names files and folders
        value = getattr(getattr(config, setting.section), setting.key)
        choices = choices if not choices or value in choices else (*choices, value)
        kind = KINDS[setting.value_type]
        option = Option(
            setting.key,
            setting.section,
            kind,
            value,
            choices,
            setting.help,
            setting.smallest,
            setting.largest,
        )
        offered.append(option)

    return offered


def like_run(run: RunSummary, data: DataSet) -> tuple[str, dict[str, Any]]:
    """Return the preset for this data that is nearest to a run's configuration, and the options that differ: key →
    value of the run."""
    changes = {
        name: {
            option.key: value
            for option in options(name)
            if (value := run.config.get(option.section, {}).get(option.key, option.value)) != option.value
        }
        for name in presets(data)
    }
    nearest = min(changes, key=lambda name: (len(changes[name]), name != run.name))
    return nearest, changes[nearest]


def find_data_sets(roots: Sequence[str | Path]) -> list[DataSet]:
    """List the built-in data, and the data sets directly in these folders, or else the folders that are data sets
    themselves. Leaves out hidden folders and links out of a root. Looks at file names only."""
    data_sets = {DEMO: DataSet(DEMO, DEMO)}
    for root in (Path(folder).resolve() for folder in roots):
        entries = sorted(root.iterdir()) if root.is_dir() else []
        visible = [path for path in entries if path.is_dir() and not path.name.startswith(".")]
        kinds = {path: kind for path in visible if (kind := _kind_of(path, root))}
        if not kinds and (kind := _kind_of(root, root)):
            kinds = {root: kind}
        for folder, kind in kinds.items():
            name = folder.name if folder.name not in data_sets else f"{folder.parent.name}/{folder.name}"
            data_sets.setdefault(name, DataSet(name, str(folder), pictures=kind == "pictures"))
    return list(data_sets.values())


def _kind_of(folder: Path, root: Path) -> Literal["features", "pictures"] | None:
    """Return the kind of training data in a folder; None without any, or if a link leads out of the root."""
    try:
        if leaves(folder, root):
            return None
        if holds_pictures_only(folder):
            return "pictures"
        find_features(folder)
    except (InputError, OSError):
        return None
    return "features"


def teacher_runs(
    runs: Sequence[RunSummary], preset: str, data: DataSet, changes: Mapping[str, Any]
) -> list[TeacherRun]:
    """List the finished runs that training would accept as offline teacher of this configuration; preset, data and
    changes as for `arguments`."""
    student = to_document(find_preset(preset))
    for key, value in changes.items():
        student[settings()[key].section][key] = value
    defaults = to_document(Config())  # for settings that did not exist when a run was trained
    teachers = []
    for run in runs:
        same_data = _same_folder(run.config.get("data", {}).get("data", ""), data)
        if run.state != "finished" or run.fault or run.unknown or not same_data:
            continue
        if any(run.config.get(section, {}).get(key) != student[section][key] for section, key in READ_BY):
            continue
        model = defaults["model"] | run.config.get("model", {})
        same = all(model[key] == value for key, value in student["model"].items() if key not in UNSHAPED)
        teachers.append(TeacherRun(run.name, str(run.path), same))
    return teachers


def _same_folder(path: str, data: DataSet) -> bool:
    if not path or DEMO in (path, data.path):
        return path == data.path
    return Path(path).resolve() == Path(data.path).resolve()


def arguments(
    preset: str, name: str, data: DataSet, changes: Mapping[str, Any], supervision: Supervision | None = None
) -> tuple[tuple[str, ...], list[Fault]]:
    """Return the arguments of `coder-lab train`, and warnings about them. `changes`: option key → value.
    InputError: training would refuse them (with its message), or a setting is not an option."""
    extra = supervision or Supervision()
    offered = {option.key: option for option in options(preset)}
    for key, value in changes.items():
        if key not in offered:
            raise InputError.at(f"the setting {key!r}"[:80], "cannot be changed in the app")
        choices = offered[key].choices
        if choices and value not in choices:
            problem = f"is {str(value)[:40]!r}"
            expected = f"one of {', '.join(choices)}"
            raise InputError.at(settings()[key].flag, problem, expected)

    start = with_settings(find_preset(preset), {"data": data.path})
    files = {
        "boosting_teacher": extra.teacher.path if extra.teacher else "",
        "reviews": str(extra.reviews) if extra.reviews else "",
        "clean_scorers": os.pathsep.join(str(run.path) for run in extra.scorers),
    }
    by_scorers = {"clean_by": "halves"} if extra.scorers else {}
    config = with_settings(start, {**changes, **files, **by_scorers})
    faults = problems(config)
    if len(name) > LONGEST_NAME or not RUN_NAME.fullmatch(name):
        expected = f"1 to {LONGEST_NAME} letters, digits, '.', '_' and '-', beginning with a letter or digit"
        faults.append(Fault("--name", f"is {name[:60]!r}", expected, "it becomes the name of a folder"))

    warnings = stop_on_errors(faults)
    return (preset, f"--name={name}", f"--data={data.path}", *changed_flags(start, config)), warnings
