"""The form that starts a run: preset, data set, name, changed values, and why they are refused."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from app import judging, training
from app.ask import InputError
from app.choice import attempt, bound, bound_number, linked, put
from app.components import cards
from app.components import words as words_of
from app.views.training import NOT_STARTED

METHODS = ("boosting", "weighting")  # sections with fields of their own
SCENARIO, OFFLINE, START, WEIGHTS = "boosting_scenario", "offline", "boosting_start", "sample_weights"
USUAL = ("epochs", "batch_size", "learning_rate", "seed")
FIELDS = frozenset(
    {"preset", "data", "name", "set", "set-boosting", "set-weighting", "teacher", "use-reviews"}
)
ASKED = "train-asked"
COLUMNS = 4
_FLAG = re.compile(r"--([a-z][a-z0-9-]*)")
DATA_HELP = (
    "The built-in pictures, and the data sets in data/ or in the folders that CODER_DATA named when the app was "
    "started. No other folder can be used from here."
)
Options = dict[str, training.Option]


def value_of(option: training.Option, preset: str) -> Any:
    """The widget of one value. Its key contains the preset, so that another preset starts with its own values."""
    key, label, about = f"{preset}-{option.key}", words(option.key), option.about or None
    if option.kind == "switch":
        return st.toggle(label, bool(option.value), help=about, **bound(key))
    if option.kind == "choice":
        return st.selectbox(
            label, option.choices, option.choices.index(option.value), help=about, **bound(key)
        )
    number: type[int] | type[float] = int if option.kind == "number" else float
    smallest, largest = (
        limit if limit is None else number(limit) for limit in (option.smallest, option.largest)
    )
    steps: dict[str, Any] = {"step": 1} if option.kind == "number" else {"format": "%g"}
    value = st.number_input(
        label, smallest, largest, number(option.value), **steps, help=about, **bound_number(key)
    )
    return number(value)


def words(key: str) -> str:
    """ "learning_rate" → "learning rate"."""
    return key.replace("_", " ")


def in_words(message: str) -> str:
    """A message of the command line with the form's labels in the place of flags."""
    return _FLAG.sub(
        lambda flag: "“Run name”" if flag[1] == "name" else f"“{flag[1].replace('-', ' ')}”", message
    )


def show_form() -> None:
    """Draw the form."""
    data_sets = {data.name: data for data in training.data_sets()}
    wanted = st.query_params.get("preset", "demo")
    fits = [
        number for number, entry in enumerate(data_sets.values()) if wanted in training.presets(entry)
    ] or [0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        data = st.selectbox("Data set", list(data_sets), fits[0], help=DATA_HELP, **bound("data"), width=240)
        presets = training.presets(data_sets[data])
        usual = "demo" if "demo" in presets else next(iter(presets))
        preset = st.selectbox(
            "Preset", list(presets), list(presets).index(usual), **bound("preset"), width=240
        )
        default_name = training.free_name(preset)
        longest = training.LONGEST_NAME
        name = st.text_input(
            "Run name", max_chars=longest, placeholder=default_name, **bound("name"), width=240
        )
    if wanted in training.presets() and wanted not in presets:
        cards.note(
            f"The preset {wanted} needs {training.wanted_data(wanted)}; {data} takes the presets above."
        )
    cards.note(f"{presets[preset][:1].upper()}{presets[preset][1:]}.")
    if missing := training.missing_models(preset):
        cards.empty(
            "A model of this preset is not on this machine.", " ".join(str(fault) for fault in missing)
        )
        return
    options = {option.key: option for option in training.options(preset)}
    keys = [key for key, option in options.items() if option.section not in METHODS]
    changed = st.multiselect(
        "Settings to change",
        keys,
        [key for key in USUAL if key in options],
        format_func=words,
        placeholder="none: all as in the preset",
        help="All other settings stay as in the preset.",
        **bound("set"),
    )
    values = {}
    columns = st.columns(COLUMNS)
    for position, key in enumerate(changed):
        with columns[position % COLUMNS]:
            values[key] = value_of(options[key], preset)
    with st.expander("Boosting and sample weights", icon=":material/exercise:"):
        left, right = st.columns(2, gap="large")
        with left:
            boosting, teacher = _boosting(preset, data_sets[data], values, options)
        with right:
            weights = {WEIGHTS: value_of(options[WEIGHTS], preset)}
            weights |= _section("weighting", "Settings of the weights", preset, options, exclude=(WEIGHTS,))
    judged = _reviews(data_sets[data])
    _offer(
        preset,
        (name or "").strip() or default_name,
        data_sets[data],
        values | boosting | weights,
        teacher,
        judged,
    )


def _reviews(data: training.DataSet) -> Path | None:
    """The file of the data's reviews, where there is one and it is switched on."""
    path = judging.of_data(data.path)
    try:
        judged = len(judging.load(path).verdicts)
    except InputError as error:
        cards.empty("The reviews of this data cannot be used.", str(error))
        return None
    if not judged:
        return None
    label = f"Train with the reviews of this data ({words_of.count(judged, 'pair', 'pairs')} judged)"
    help_text = "Pairs judged wrong are left out, vague ones count half, other matches are added; settings change that."
    return path if st.toggle(label, False, help=help_text, **bound("use-reviews")) else None


def _section(
    name: str, label: str, preset: str, options: Options, exclude: tuple[str, ...]
) -> dict[str, Any]:
    """A picker for the other settings of a section, and their widgets."""
    keys = [key for key, option in options.items() if option.section == name and key not in exclude]
    changed = st.multiselect(
        label, keys, [], format_func=words, placeholder="none: all as in the preset", **bound(f"set-{name}")
    )
    return {key: value_of(options[key], preset) for key in changed}


def _boosting(
    preset: str, data: training.DataSet, values: dict[str, Any], options: Options
) -> tuple[dict[str, Any], training.TeacherRun | None]:
    """The settings of boosting; an offline teacher is one of the finished runs that fit, where there are any."""
    chosen = {"boosting": value_of(options["boosting"], preset)}
    if chosen["boosting"] == "none":
        return chosen, None
    runs = {run.name: run for run in training.teachers(preset, data, values)}
    scenario = options[SCENARIO]
    if not runs:
        scenario = replace(
            scenario, choices=tuple(choice for choice in scenario.choices if choice != OFFLINE)
        )
        cards.note(
            "Offline boosting needs a finished run on this data with the same vocabulary; there is none yet."
        )
    chosen[SCENARIO] = value_of(scenario, preset)
    teacher = None
    if chosen[SCENARIO] == OFFLINE:
        help_text = "Finished runs on this data set with the same vocabulary."
        teacher = runs[st.selectbox("boosting teacher", list(runs), help=help_text, **bound("teacher"))]
        if teacher.same_model:
            chosen[START] = value_of(options[START], preset)
        else:
            cards.note(f"{teacher.name} is a different model, so training starts from scratch.")
            chosen[START] = "scratch"
    exclude = (*chosen, SCENARIO, START)
    return chosen | _section("boosting", "Settings of boosting", preset, options, exclude), teacher


def _offer(
    preset: str,
    name: str,
    data: training.DataSet,
    values: dict[str, Any],
    teacher: training.TeacherRun | None,
    judged: Path | None,
) -> None:
    try:
        arguments, warnings = training.arguments(preset, name, data, values, teacher, judged)
    except InputError as error:
        cards.empty("These settings cannot be trained.", in_words(str(error)))
        return
    if any(entry.name == name for entry in training.training_runs()):
        cards.empty(f"A run called {name} exists already.", "Choose another name, or resume that run below.")
        return
    for warning in warnings:
        cards.note(in_words(str(warning)))
    command = shlex.join(["python", "-m", "coder_core.train", *arguments])
    begin = (preset, name, data, values, teacher, judged)
    asks = _from_link()
    st.button(
        f"Train {cards.literal(name)}",
        type="primary",
        icon=":material/play_arrow:",
        key="train-start",
        on_click=put if asks else _begin,
        args=(ASKED, command) if asks else begin,
    )
    if asks and st.session_state.get(ASKED) == command:
        cards.empty(
            f"A link filled this form. It starts a training of {name} on {data.name} with the preset {preset}.",
            "Read the command below, then start it, or change the form.",
        )
        st.button("Start it", type="primary", key="train-confirm", on_click=_begin, args=begin)
    st.code(command, language=None, wrap_lines=True)


def _from_link() -> bool:
    """True if the address this session began with holds a value of the form; then a click only asks."""
    begins = tuple(f"{preset}-" for preset in training.presets())
    return any(key in FIELDS or key.startswith(begins) for key in linked())


def _begin(*settings: Any) -> None:
    """Start a run with the arguments of `training.start`."""

    def start() -> None:
        training.start(*settings)
        st.session_state.pop(ASKED, None)
        put("watch", settings[1])

    attempt(NOT_STARTED, start)
