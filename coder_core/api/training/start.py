"""What can be chosen before a run is started from outside: presets, values, data sets; and the arguments that follow.

Nothing that names a file is a value here: data sets are found in folders the person named when starting the program,
and the other values are numbers, switches and fixed choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from coder_core.api.listing import RunSummary
from coder_core.config.checks import problems
from coder_core.config.command_line import changed_flags
from coder_core.config.presets import PRESETS, find_preset
from coder_core.config.schema import RUN_NAME, Config, settings, to_document, with_settings
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.dataset import find_layout, leaves

DEMO = "demo"
ANCHOR = "boosting_anchor"
READ_BY = (("data", "word_threshold"), ("model", "text_encoder"), ("model", "bert"))  # what words become numbers by
UNSHAPED = (
    "image_dropout",
    "word_dropout",
    "embedding_dropout",
    "beta",
    "concept_smoothing",
)  # leave weights their shape
LONGEST_NAME = 40
KINDS: dict[type, Literal["number", "decimal", "switch", "choice"]] = {
    int: "number", float: "decimal", bool: "switch", str: "choice",
}  # fmt: skip


@dataclass(frozen=True)
class Option:
    """One value of a configuration that may be changed.

    Args:
        key: its name; unique over all sections. section: of the configuration. kind: "number" (whole), "decimal",
            "switch" or "choice". value: of the preset. choices: of a "choice". about: what it is and its source.
    """

    key: str
    section: str
    kind: Literal["number", "decimal", "switch", "choice"]
    value: Any
    choices: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class DataSet:
    """A data set that may be trained on: the name a person sees, and its folder ("demo" is built in)."""

    name: str
    path: str


@dataclass(frozen=True)
class AnchorRun:
    """A finished run that can be the offline anchor of boosting: it reads the same images and words.

    Args:
        name: of the run. path: its folder. same_model: whether training can start from its weights.
    """

    name: str
    path: str
    same_model: bool


def presets() -> dict[str, str]:
    """Name → what it is for."""
    return {name: preset.about for name, preset in PRESETS.items()}


def options(preset: str) -> list[Option]:
    """Everything that may be changed about a preset, section by section.

    Raises:
        InputError: there is no such preset.
    """
    config = find_preset(preset)
    offered = []
    for setting in settings().values():
        choices = setting.choices or setting.suggestions
        if setting.value_type is str and not choices:
            continue  # free text names files and folders
        value = getattr(getattr(config, setting.section), setting.key)
        choices = choices if not choices or value in choices else (*choices, value)
        kind = KINDS[setting.value_type]
        offered.append(Option(setting.key, setting.section, kind, value, choices, setting.help))
    return offered


def find_data_sets(roots: Sequence[str | Path]) -> list[DataSet]:
    """The built-in data, and every data set that is, or stands right inside, one of these folders, by name.

    Left out: hidden folders, and data sets that a link takes out of a root. Only names are looked at; training reads.
    """
    found = {DEMO: DEMO}
    for root in (Path(given).resolve() for given in roots):
        inside = sorted(root.iterdir()) if root.is_dir() else []
        places = [place for place in inside if not place.name.startswith(".") and place.is_dir()]
        kept = [place for place in places if _is_data(place) and not leaves(place, root)]
        if not kept and root.is_dir() and _is_data(root) and not leaves(root, root):
            kept = [root]
        for place in kept:
            name = place.name if place.name not in found else f"{place.parent.name}/{place.name}"
            found.setdefault(name, str(place))
    return [DataSet(name, path) for name, path in found.items()]


def anchor_runs(runs: Sequence[RunSummary], preset: str, data: DataSet, changes: Mapping[str, Any]) -> list[AnchorRun]:
    """The finished runs that training would take as offline anchor of this configuration.

    Args:
        runs: from `list_runs`. preset, data, changes: as for `arguments`.
    """
    document = to_document(find_preset(preset))
    for key, value in changes.items():
        document[settings()[key].section][key] = value
    defaults = to_document(Config())["model"]  # of what a run older than the setting did not write down
    found = []
    for run in runs:
        theirs = {section: run.config.get(section, {}) for section in ("data", "model")}
        if run.state != "finished" or run.fault or not theirs["data"] or not _same_place(theirs["data"]["data"], data):
            continue
        if any(theirs[section].get(key) != document[section][key] for section, key in READ_BY):
            continue
        same = all(
            theirs["model"].get(key, defaults[key]) == value or key in UNSHAPED
            for key, value in document["model"].items()
        )
        found.append(AnchorRun(run.name, str(run.path), same))
    return found


def _same_place(theirs: str, data: DataSet) -> bool:
    return theirs == data.path if DEMO in (theirs, data.path) else Path(theirs).resolve() == Path(data.path).resolve()


def arguments(
    preset: str, name: str, data: DataSet, changes: Mapping[str, Any], anchor: AnchorRun | None = None
) -> tuple[tuple[str, ...], list[Fault]]:
    """What `python -m coder_core.train` is told, and warnings about it.

    Args:
        preset: its name. name: of the run. data: from `find_data_sets`. changes: option key → value.
        anchor: from `anchor_runs`, for boosting in the offline scenario.

    Raises:
        InputError: everything that is impossible about it, as training itself would say; or a value that is no option.
    """
    offered = {option.key: option for option in options(preset)}
    if unknown := [key for key in changes if key not in offered]:
        raise InputError([Fault(f"the setting {key!r}"[:80], "cannot be changed from here") for key in unknown])
    for key, value in changes.items():
        choices = offered[key].choices
        if choices and value not in choices:
            raise InputError(Fault(settings()[key].flag, f"is {str(value)[:40]!r}", f"one of {', '.join(choices)}"))
    start = with_settings(find_preset(preset), {"data": data.path})
    config = with_settings(start, {**changes, ANCHOR: anchor.path if anchor is not None else ""})
    faults = problems(config)
    if not name or len(name) > LONGEST_NAME or not RUN_NAME.fullmatch(name):
        expected = f"1 to {LONGEST_NAME} letters, digits, '.', '_' and '-', a letter or digit first"
        faults.append(Fault("--name", f"is {name[:60]!r}", expected, "it becomes the name of a folder"))
    warnings = stop_on_errors(faults)
    return (preset, f"--name={name}", f"--data={data.path}", *changed_flags(start, config)), warnings


def _is_data(place: Path) -> bool:
    try:
        find_layout(place)
    except (InputError, OSError):
        return False
    return True
