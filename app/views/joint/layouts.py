"""The map that is shown: its method and settings, and the layouts of all runs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import jobs, questions
from app.address import bound_number, set_value
from app.ask import BOTH, Run, ask_all, joint_space, opened_run
from app.choice import Choice
from app.components import cards
from app.components.controls import advanced, choose_one, show_work
from app.components.words import count, duration
from app.views.joint.points import AREA, Shown

METHODS: dict[joint_space.Method, str] = {"umap": "UMAP", "tsne": "t-SNE", "pca": "PCA"}
MODALITIES: dict[joint_space.Modalities, str] = {"both": "Both", "images": "Images", "captions": "Captions"}
MODALITIES |= {"centred": "Both, centred"}
Layouts = list[joint_space.PlaneLayout]


@dataclass(frozen=True)
class ChosenMap:
    """The points of a map with their places; a `remark` on how it was made; `offer`, which draws a button that computes
    the map that was asked for, while another one is shown; and the `menu` of its rare settings."""

    shown: Shown
    remark: str
    offer: Callable[[], None] | None
    menu: DeltaGenerator


def choose_map(choice: Choice) -> ChosenMap:
    """Draw the choice of a map. While it is not computed, return the PCA map instead."""
    settings, menu = choose_settings()
    images, captions = (choice.ask(Run.count, modality) for modality in BOTH)
    total = {"images": images, "captions": captions}.get(settings.modalities, images + captions)
    layouts: Layouts = []
    offer: Callable[[], None] | None = None
    if fact := why_not(settings.method, total):
        offer = partial(cards.empty, fact, "Choose PCA, which has no limit. PCA is shown.")
    elif settings.method != "pca":
        layouts, offer = stored_layouts(choice, settings, total)
    if not layouts:
        layouts = ask_all(questions.principal_maps, choice.runs, choice.split, settings.modalities)
    shown = Shown(choice, [layout.plane for layout in layouts], settings.modalities)
    return ChosenMap(shown, remark(choice, layouts), offer, menu)


def choose_settings() -> tuple[joint_space.LayoutSettings, DeltaGenerator]:
    """Draw the choice of modalities (one alone, both, or both centred) and of the map's method, whose parameters are in
    a menu; return the settings and the menu. A selection belongs to one map, so a change of either clears it."""
    clear = partial(set_value, AREA, "")
    modalities = choose_one("Points", MODALITIES, "modalities", cards.tip("modalities"), on_change=clear)
    method = choose_one("Map", METHODS, "map", cards.tip("map"), on_change=clear)
    settings = joint_space.LayoutSettings(method, modalities=modalities)
    menu = advanced()
    if method == "pca":
        return settings, menu

    with menu:
        if method == "umap":
            help_text = cards.tip("map")
            neighbours = st.number_input(
                "Neighbours", 2, 200, 15, help=help_text, **bound_number("neighbours")
            )
            distance = st.number_input("Minimum distance", 0.0, 1.0, 0.1, 0.05, **bound_number("distance"))
            settings = replace(settings, neighbours=int(neighbours), min_distance=float(distance))
        else:
            help_text = cards.tip("perplexity")
            value = st.number_input("Perplexity", 2, 500, 30, help=help_text, **bound_number("perplexity"))
            settings = replace(settings, perplexity=float(value))
        seed = int(st.number_input("Seed", 0, 9999, 0, **bound_number("map-seed")))

    return replace(settings, seed=seed), menu


def remark(choice: Choice, layouts: Layouts) -> str:
    notes = dict.fromkeys(note for layout in layouts for note in layout.notes)
    parts = [f"{note[0].upper()}{note[1:]}." for note in notes]
    shares = layouts[0].shares
    disparity = layouts[-1].disparity
    if shares is not None:
        parts.append(f"The map shows {100 * sum(shares):.0f} % of the variance of {choice.first.name}.")
    if disparity is not None:
        names = {"last": choice.last.name, "first": choice.first.name}
        parts.append(cards.HOW_TO_READ["map aligned"].format(share=100 * disparity, **names))
    if any(concepts is not None for concepts in choice.ask_each(Run.concepts).values()):
        parts.append("The map shows the instance embeddings; ranks use both branches.")
    return " ".join(parts)


def stored_layouts(
    choice: Choice, settings: joint_space.LayoutSettings, points: int
) -> tuple[Layouts, Callable[[], None] | None]:
    """Return the stored maps of all runs; if one is missing, none, and what draws a button that computes them."""
    first, *others = (opened_run(run) for run in choice.runs)
    layouts_of = joint_space.stored_layout  # every byte is checked; the second map is aligned to the first
    stored = [layouts_of(first, choice.split, settings)]
    stored += [layouts_of(run, choice.split, settings, first) for run in others]
    layouts = [item.value for item in stored if item.value is not None]
    missing = len(stored) - len(layouts)
    if not missing:
        return layouts, None

    values = {"split": choice.split, **asdict(settings)}
    flags = [text for name, value in values.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    method = settings.method
    time = duration(missing * joint_space.layout_seconds(settings.method, points))
    compiling = "; the first UMAP takes longer" if method == "umap" else ""
    offer = partial(
        show_work,
        stored[-1].name,
        jobs.module_command("coder_core.project", *(str(run.path) for run in choice.runs), *flags),
        f"Compute the {METHODS[method]} map",
        f"Not computed yet. {points:,} points of {count(missing, 'run')} take {time} on a two-core machine{compiling}; "
        "the result is stored in the run’s folder. PCA is shown until then.",
        "; ".join(item.fault for item in stored if item.fault),
    )
    return [], offer


def why_not(method: joint_space.Method, points: int) -> str:
    """Explain why this method cannot lay out so few points; "" if it can."""
    if method != "pca" and points < joint_space.FEWEST:
        return f"{METHODS[method]} needs at least {joint_space.FEWEST} points, and this map has {points:,}."
    return ""
