"""The form that starts a run: preset, data set, name, changed values, and the reasons for a refusal."""

import re
import shlex
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from app import judging, training
from app.address import bound, bound_number, linked, put
from app.ask import InputError, all_runs
from app.components import cards
from app.components.controls import button, pick
from app.components.refusals import attempt
from app.components.training_offers import (
    METHODS,
    SCENARIO,
    START,
    USUAL,
    WEIGHTS,
    Scorers,
    scorers_among,
    words,
)
from app.training import NOT_STARTED, starting

OFFLINE = "offline"
FIELDS = {"preset", "data", "name", "set", "set-boosting", "set-weighting"}
FIELDS |= {"teacher", "use-reviews", "reviewed", "scorers"}
ASKED = "train-asked"
COLUMNS = 4
# what scores the train pairs, by the setting clean_by
SCORERS = {
    "auto": "a regression, or two new runs",
    "halves": "two new runs",
    "small-loss": "one new run",
    "regression": "a regression",
}
NONE_CHANGED = "none: all as in the preset"
_FLAG = re.compile(r"--([a-z][a-z0-9-]*)")


def in_words(message: str) -> str:
    """Return a message of the command line with the form's labels instead of flags."""

    def label(flag: re.Match[str]) -> str:
        return "“Run name”" if flag[1] == "name" else f"“{flag[1].replace('-', ' ')}”"

    return _FLAG.sub(label, message)


@dataclass
class Form:
    """The settings of a run that are chosen so far: `values` are those with a field in the form."""

    preset: str
    name: str
    data: starting.DataSet
    values: dict[str, Any] = field(default_factory=dict)
    teacher: starting.TeacherRun | None = None
    reviews: Path | None = None
    scorers: Scorers = ()

    def __post_init__(self) -> None:
        self.options = {option.key: option for option in starting.options(self.preset)}

    @property
    def settings(self) -> tuple[Any, ...]:
        supervision = starting.Supervision(self.teacher, self.reviews, self.scorers)
        return self.preset, self.name, self.data, self.values, supervision

    def choose(self, key: str, option: starting.Option | None = None) -> None:
        """Draw the widget of one value. Its key contains the preset, so that each preset starts with its own values."""
        option = option or self.options[key]
        label = words(key)
        of_preset = f"{self.preset}-{key}"
        about = option.about or None
        if option.kind == "switch":
            self.values[key] = st.toggle(label, bool(option.value), help=about, **bound(of_preset))
        elif option.kind == "choice":
            start = option.choices.index(option.value)
            self.values[key] = pick(label, option.choices, of_preset, index=start, help=about)
        elif option.kind == "number":
            low = None if option.smallest is None else int(option.smallest)
            high = None if option.largest is None else int(option.largest)
            whole = st.number_input(
                label, low, high, int(option.value), 1, help=about, **bound_number(of_preset)
            )
            self.values[key] = int(whole)
        else:
            least = None if option.smallest is None else float(option.smallest)
            most = None if option.largest is None else float(option.largest)
            start_value = float(option.value)
            value = st.number_input(
                label, least, most, start_value, format="%g", help=about, **bound_number(of_preset)
            )
            self.values[key] = float(value)

    def choose_section(self, name: str, label: str) -> None:
        """Draw a picker for the settings of a section that have no field yet, and the widgets of the picked ones."""
        apart = (*self.values, SCENARIO, START)
        keys = [key for key, option in self.options.items() if option.section == name and key not in apart]
        bind = bound(f"set-{name}")
        for key in st.multiselect(label, keys, [], format_func=words, placeholder=NONE_CHANGED, **bind):
            self.choose(key)


def show_form() -> None:
    form = _begin_form()
    if missing := starting.missing_models(form.preset):
        faults = " ".join(str(fault) for fault in missing)
        cards.empty("This preset needs a model that is not on this machine.", faults)
        return

    keys = [key for key, option in form.options.items() if option.section not in METHODS]
    usual = [key for key in USUAL if key in form.options]
    changed = st.multiselect(
        "Settings to change",
        keys,
        usual,
        format_func=words,
        placeholder=NONE_CHANGED,
        help="All other settings stay as in the preset.",
        **bound("set"),
    )
    columns = st.columns(COLUMNS)
    for position, key in enumerate(changed):
        with columns[position % COLUMNS]:
            form.choose(key)
    with st.expander("Boosting and sample weights", icon=":material/exercise:"):
        left, right = st.columns(2, gap="large")
        with left:
            _boosting(form)
        with right:
            form.choose(WEIGHTS)
            form.choose_section("weighting", "Settings of the weights")

    form.reviews = _reviews(form.data)
    if form.values.get("clean"):
        pairs = scorers_among(run for run in all_runs() if judging.same_data(form.data, judging.data_of(run)))
        help_text = "They score the train pairs: new ones, or two runs that trained on complementary halves of this data."
        by = str(form.values.get("clean_by", form.options["clean_by"].value))
        form.scorers = pairs.get(pick("Scored by", [SCORERS[by], *pairs], "scorers", 480, help=help_text), ())

    _offer(form)


def _begin_form() -> Form:
    data_sets = {data.name: data for data in training.data_sets()}
    linked_preset = st.query_params.get("preset", "demo")
    fits = [i for i, data in enumerate(data_sets.values()) if linked_preset in starting.presets(data)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        start = fits[0] if fits else 0
        name_of_data = pick("Data set", data_sets, "data", 240, index=start, help=cards.tip("data set"))
        data = data_sets[name_of_data]
        presets = starting.presets(data)
        names = list(presets)
        preset = pick("Preset", names, "preset", 240, index=names.index("demo") if "demo" in names else 0)
        free = training.free_name(preset)
        longest = starting.LONGEST_NAME
        name = st.text_input("Run name", max_chars=longest, placeholder=free, **bound("name"), width=240)

    if linked_preset in starting.presets() and linked_preset not in presets:
        needed = starting.wanted_data(linked_preset)
        cards.note(f"The preset {linked_preset} needs {needed}; {data.name} works with the presets above.")

    cards.note(f"{presets[preset][:1].upper()}{presets[preset][1:]}.")
    return Form(preset, (name or "").strip() or free, data)


def _reviews(data: starting.DataSet) -> Path | None:
    same = [run for run in all_runs() if judging.same_data(data, judging.data_of(run))]
    reviewed = next((run for run in same if run.name == st.query_params.get("reviewed")), None)
    path = judging.file_of(reviewed) if reviewed else judging.of_data(data.path)
    try:
        judged = len(judging.load(path).verdicts)
    except InputError as error:
        cards.empty("The reviews of this data cannot be used.", str(error))
        return None
    if not judged:
        return None
    concern = judging.verdicts_on_train(data.path, path)
    whose = reviewed.name if reviewed else "this data"
    label = f"Train with the reviews of {whose} ({concern} of {judged} verdicts concern train)"
    help_text = "Pairs judged wrong are left out, vague ones count half, other matches are added; settings can change this."
    return path if st.toggle(label, False, help=help_text, **bound("use-reviews")) else None


def _boosting(form: Form) -> None:
    """Draw the settings of boosting; an offline teacher is one of the finished runs that fit, if there are any."""
    runs = {run.name: run for run in starting.teacher_runs(all_runs(), form.preset, form.data, form.values)}
    form.choose("boosting")
    if form.values["boosting"] == "none":
        return

    scenario = form.options[SCENARIO]
    if not runs:
        scenarios = tuple(choice for choice in scenario.choices if choice != OFFLINE)
        scenario = replace(scenario, choices=scenarios)
        cards.note("Offline boosting needs a finished run on this data with the same vocabulary: none yet.")

    form.choose(SCENARIO, scenario)
    if form.values[SCENARIO] == OFFLINE:
        help_text = "Finished runs on this data set with the same vocabulary."
        form.teacher = teacher = runs[pick("boosting teacher", runs, "teacher", help=help_text)]
        if teacher.same_model:
            form.choose(START)
        else:
            cards.note(f"{teacher.name} is a different model, so training starts from scratch.")
            form.values[START] = "scratch"

    form.choose_section("boosting", "Settings of boosting")


def _offer(form: Form) -> None:
    """Draw the command and the button that starts it, or the reason that these settings cannot be trained."""
    name = form.name
    try:
        arguments, warnings = starting.arguments(*form.settings)
    except InputError as error:
        cards.empty("These settings cannot be trained.", in_words(str(error)))
        return

    if any(entry.name == name for entry in training.training_runs()):
        cards.empty(f"A run called {name} exists already.", "Choose another name, or resume that run below.")
        return
    for warning in warnings:
        cards.note(in_words(str(warning)))

    command = shlex.join(["coder-lab", "train", *arguments])
    begins = tuple(f"{preset}-" for preset in starting.presets())
    asks = any(key in FIELDS or key.startswith(begins) for key in linked())  # a link starts no training
    begin = partial(_begin, form)
    action = partial(put, ASKED, command) if asks else begin
    button(f"Train {cards.literal(name)}", "train-start", "play_arrow", action, type="primary")
    if asks and st.session_state.get(ASKED) == command:
        trains = f"The button below trains {name} on {form.data.name} with the preset {form.preset}"
        fix = "Read the command below, then start it, or change the form."
        cards.empty(f"A link filled in this form. {trains}.", fix)
        button("Start it", "train-confirm", "", begin, type="primary")

    st.code(command, language=None, wrap_lines=True)


def _begin(form: Form) -> None:
    def start() -> None:
        training.start(*form.settings)
        st.session_state.pop(ASKED, None)
        put("watch", form.name)
        put("name", "")  # the form offers another one

    attempt(NOT_STARTED, start)
