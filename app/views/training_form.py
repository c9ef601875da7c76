"""The form that starts a run: preset, data set, name, changed values, and what is wrong with them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import streamlit as st

from app.backend import runs as backend
from app.backend import training as backend_training
from app.backend.training import AnchorRun, DataSet, Option
from app.ui import cards
from app.ui.state import bound, bound_number, put

METHODS = ("boosting", "weighting")  # sections with fields of their own
SCENARIO, OFFLINE, START, WEIGHTS = "boosting_scenario", "offline", "boosting_start", "sample_weights"
USUAL = ("epochs", "batch_size", "learning_rate", "seed")
COLUMNS = 4


def value_of(option: Option, preset: str) -> Any:
    """The widget of one value. Its key holds the preset, so that another preset begins with its own values."""
    key, label, about = f"{preset}-{option.key}", words(option.key), option.about or None
    if option.kind == "switch":
        return st.toggle(label, bool(option.value), help=about, **bound(key))
    if option.kind == "choice":
        return st.selectbox(label, option.choices, option.choices.index(option.value), help=about, **bound(key))
    if option.kind == "number":
        return int(st.number_input(label, value=int(option.value), step=1, help=about, **bound_number(key)))
    return float(st.number_input(label, value=float(option.value), format="%g", help=about, **bound_number(key)))


def words(key: str) -> str:
    """ "learning_rate" → "learning rate"."""
    return key.replace("_", " ")


def show() -> None:
    """Draw the form."""
    presets, sets = backend_training.presets(), {data.name: data for data in backend_training.data_sets()}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        preset = st.selectbox("Preset", list(presets), list(presets).index("demo"), **bound("preset"), width=240)
        data = st.selectbox("Data set", list(sets), help=WHERE, **bound("data"), width=240)
        free = backend_training.free_name(preset)
        name = st.text_input("Name of the run", max_chars=60, placeholder=free, **bound("name"), width=240)
    cards.note(f"{presets[preset][:1].upper()}{presets[preset][1:]}.")
    choices = {option.key: option for option in backend_training.options(preset)}
    usual = [key for key in USUAL if key in choices]
    free_values = [key for key, option in choices.items() if option.section not in METHODS]
    changed = st.multiselect(
        "Values to set", free_values, usual, format_func=words, placeholder="all as in the preset",
        help="Everything else stays as the preset has it.", **bound("set"),
    )  # fmt: skip
    values = {}
    columns = st.columns(COLUMNS)
    for place, key in enumerate(changed):
        with columns[place % COLUMNS]:
            values[key] = value_of(choices[key], preset)
    anchor = None
    with st.expander("Boosting and sample weights", icon=":material/exercise:"):
        left, right = st.columns(2, gap="large")
        with left:
            boosting, anchor = _boosting(preset, sets[data], values, choices)
        with right:
            values |= boosting | _weights(preset, choices)
    _offer(preset, (name or "").strip() or free, sets[data], values, anchor)


def _boosting(
    preset: str, data: DataSet, values: dict[str, Any], choices: dict[str, Option]
) -> tuple[dict[str, Any], AnchorRun | None]:
    """The form of boosting and what belongs to it; an offline anchor is one of the runs that fit, or is not offered."""
    found = {"boosting": value_of(choices["boosting"], preset)}
    if found["boosting"] == "none":
        return found, None
    runs = {run.name: run for run in backend_training.anchors(preset, data, values)}
    scenario = choices[SCENARIO]
    if not runs:
        scenario = replace(scenario, choices=tuple(one for one in scenario.choices if one != OFFLINE))
        cards.note(
            "A finished run as anchor (offline) is offered once one was trained on this data with the same words."
        )
    found[SCENARIO] = value_of(scenario, preset)
    anchor = None
    if found[SCENARIO] == OFFLINE:
        anchor = runs[st.selectbox("boosting anchor", list(runs), help=ANCHORS, **bound("anchor"))]
        if anchor.same_model:
            found[START] = value_of(choices[START], preset)
        else:
            cards.note(f"{anchor.name} is another model, so training starts from scratch.")
            found[START] = "scratch"
    rest = [key for key, one in choices.items() if one.section == "boosting" and key not in (*found, SCENARIO, START)]
    shown = st.multiselect(
        "Values of boosting", rest, [], format_func=words, placeholder="all as in the preset", **bound("set-boosting")
    )
    return found | {key: value_of(choices[key], preset) for key in shown}, anchor


def _weights(preset: str, choices: dict[str, Option]) -> dict[str, Any]:
    """What weighs the pairs, and the values that belong to it."""
    found = {WEIGHTS: value_of(choices[WEIGHTS], preset)}
    rest = [key for key, one in choices.items() if one.section == "weighting" and key != WEIGHTS]
    shown = st.multiselect(
        "Values of the weights", rest, [], format_func=words, placeholder="all as in the preset",
        **bound("set-weighting"),
    )  # fmt: skip
    return found | {key: value_of(choices[key], preset) for key in shown}


ANCHORS = "Finished runs on this data set that read the same words."
WHERE = (
    "The built-in pictures, and the data sets in data/ or in the folders that CODER_DATA named when the app was "
    "started. No other place can be reached from here."
)


def _offer(preset: str, name: str, data: DataSet, values: dict[str, Any], anchor: AnchorRun | None) -> None:
    try:
        told, warnings = backend_training.arguments(preset, name, data, values, anchor)
    except backend.InputError as error:
        cards.empty("This cannot be started.", str(error))
        return
    if any(one.name == name for one in backend_training.watched()):
        cards.empty(f"There is a run called {name} already.", "Choose another name, or resume that run below.")
        return
    for warning in warnings:
        cards.note(str(warning))
    st.button(
        f"Train {name}", type="primary", icon=":material/play_arrow:", key="train-start", on_click=_begin,
        args=(preset, name, data, values, anchor),
    )  # fmt: skip
    st.code(shlex.join(["python", "-m", "coder_core.train", *told]), language=None, wrap_lines=True)


def _begin(preset: str, name: str, data: DataSet, values: dict[str, Any], anchor: AnchorRun | None) -> None:
    try:
        backend_training.start(preset, name, data, values, anchor)
    except (OSError, backend.InputError) as error:
        st.session_state["train-fault"] = str(error)
        return
    put("watch", name)
