"""What can be chosen before a run is started from outside: presets, values, data sets; and the arguments that follow.

Nothing that names a file is a value here: data sets are found in folders the person named when starting the program,
and the other values are numbers, switches and fixed choices.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from coder_core.api.listing import RunSummary
from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS
from coder_core.config.schema import RUN_NAME, Config, from_document, to_document
from coder_core.console.faults import Fault, InputError
from coder_core.data.dataset import find_layout

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
# Free text in the configuration names files or folders. These may be chosen all the same, among fixed words only
WORDS: dict[str, tuple[str, ...]] = {"word_vectors": ("random", "learned"), "device": ("auto", "cpu", "cuda")}


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
    config = _preset(preset)
    found = []
    for section in fields(Config):
        part = getattr(config, section.name)
        if isinstance(part, str):
            continue
        kinds, texts = get_type_hints(type(part)), _texts(type(part))  # type: ignore[arg-type]
        for field in fields(part):
            kind, choices = _kind(kinds[field.name], field.name)
            if kind is not None:
                value = getattr(part, field.name)
                choices = choices if kind != "choice" or value in choices else (*choices, value)
                found.append(Option(field.name, section.name, kind, value, choices, texts.get(field.name, "")))
    return found


def find_data_sets(roots: Sequence[str | Path]) -> list[DataSet]:
    """The built-in data, and every data set that is, or stands right inside, one of these folders, by name.

    Hidden folders and links that leave a root are left out. Only names are looked at: training reads and checks.
    """
    found = {DEMO: DEMO}
    for root in (Path(given).resolve() for given in roots):
        inside = sorted(root.iterdir()) if root.is_dir() else []
        places = [place for place in inside if not place.name.startswith(".") and place.is_dir()]
        kept = [place for place in places if place.resolve().is_relative_to(root) and _is_data(place)]
        if not kept and root.is_dir() and _is_data(root):
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
    document = to_document(_preset(preset))
    defaults = to_document(Config())["model"]  # of what a run older than the value did not write down
    for option in options(preset):
        document[option.section][option.key] = changes.get(option.key, option.value)
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
    known = {option.key: option for option in options(preset)}
    unknown = [key for key in changes if key not in known]
    if unknown:
        raise InputError([Fault(f"the value {key!r}"[:80], "cannot be changed from here") for key in unknown])
    document = to_document(_preset(preset))
    document["name"], document["data"]["data"] = name, data.path
    for key, value in changes.items():
        option = known[key]
        if option.kind == "choice" and value not in option.choices:
            raise InputError(Fault(_flag(key), f"is {str(value)[:40]!r}", f"one of {', '.join(option.choices)}"))
        document[option.section][key] = value
    document["boosting"][ANCHOR] = anchor.path if anchor is not None else ""
    config = from_document(document, "the choice")
    faults = problems(config)
    if not name or len(name) > LONGEST_NAME or not RUN_NAME.fullmatch(name):
        expected = f"1 to {LONGEST_NAME} letters, digits, '.', '_' and '-', a letter or digit first"
        faults = [fault for fault in faults if fault.place != "--name"]
        faults.append(Fault("--name", f"is {name[:60]!r}", expected, "it becomes the name of a folder"))
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        raise InputError(errors)
    before, told = asdict(_preset(preset)), [preset, f"--name={name}", f"--data={data.path}"]
    for key, option in known.items():
        value = getattr(getattr(config, option.section), key)
        if value != before[option.section][key]:
            told.append(f"{_flag(key, not value)}" if option.kind == "switch" else f"{_flag(key)}={value}")
    if anchor is not None:
        told.append(f"{_flag(ANCHOR)}={anchor.path}")
    return tuple(told), faults


def _flag(key: str, off: bool = False) -> str:
    return f"--{'no-' if off else ''}{key.replace('_', '-')}"


def _preset(name: str) -> Config:
    if name not in PRESETS:
        raise InputError(Fault(f"preset {name[:60]!r}", "is not known", f"one of {', '.join(PRESETS)}"))
    return PRESETS[name].config


def _is_data(place: Path) -> bool:
    try:
        find_layout(place)
    except (InputError, OSError):
        return False
    return True


def _kind(hint: Any, key: str) -> tuple[Literal["number", "decimal", "switch", "choice"] | None, tuple[str, ...]]:
    if get_origin(hint) is Literal:
        return "choice", tuple(get_args(hint))
    if hint is str:
        return ("choice", WORDS[key]) if key in WORDS else (None, ())
    return ("switch" if hint is bool else "number" if hint is int else "decimal"), ()


@cache
def _texts(section: type) -> dict[str, str]:
    """Field → the docstring under it, of one class of the configuration."""
    (tree,) = ast.parse(inspect.getsource(section)).body
    found = {}
    for field, text in pairwise(tree.body if isinstance(tree, ast.ClassDef) else []):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found
