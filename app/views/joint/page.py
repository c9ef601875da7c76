"""The Joint space page: the choice of a map, its computation, and the modality gap."""

from dataclasses import asdict, replace
from functools import partial

import streamlit as st

from app import jobs, questions
from app.address import bound_number, set_value
from app.ask import BOTH, Run, Sample, ask, ask_all, joint_space, opened_run
from app.choice import Choice
from app.components import cards
from app.components.controls import advanced, choose_one, row, show_work, switch
from app.components.words import count, duration
from app.views.joint.maps import AREA, explore, point_rows, points_shown, tables_of

METHODS: dict[joint_space.Method, str] = {"umap": "UMAP", "tsne": "t-SNE", "pca": "PCA"}
MODALITIES: dict[joint_space.Modalities, str] = {"both": "Both", "images": "Images", "captions": "Captions"}
MODALITIES |= {"centred": "Both, centred"}
Layouts = list[joint_space.PlaneLayout]


def show(choice: Choice) -> None:
    sample = drawn_sample(choice)
    gaps = choice.ask_each(joint_space.modality_gap, sample=sample)
    cards.answer(answer(gaps))
    with row():
        settings = choose_settings()
    tables = tables_of(choice, sample)
    images, captions = (choice.ask(Run.count, modality) for modality in BOTH)
    total = {"images": images, "captions": captions}.get(settings.modalities, images + captions)
    layouts: Layouts = []
    if fact := why_not(settings.method, total):
        cards.empty(fact, "Choose PCA, which has no limit. PCA is shown.")
    elif settings.method != "pca":
        layouts = stored_layouts(choice, settings, total)
    if not layouts:
        layouts = ask_all(questions.principal_maps, choice.runs, choice.split, sample, settings.modalities)
    planes = [layout.plane for layout in layouts]
    points = point_rows(choice, tables[0].iloc[points_shown(tables[0], settings.modalities)])
    if len(planes[0]) > len(points):  # a stored map has all points
        planes = [plane[points - (images if settings.modalities == "captions" else 0)] for plane in planes]
    explore(choice, planes, tables, settings.modalities, remark(choice, layouts))
    cards.heading("How far apart are images and texts?")
    term = "modality gap"
    cards.metrics(cards.Metric(f"{term} of {name}", f"{gap:.3f}", "", term) for name, gap in gaps.items())


def answer(gaps: dict[str, float]) -> str:
    """State the distance between images and texts in every run."""
    names = list(gaps)
    last = f"The means of images and texts are {gaps[names[-1]]:.2f} apart in {names[-1]}"
    return last if len(names) == 1 else f"{last}, {gaps[names[0]]:.2f} in {names[0]}"


def drawn_sample(choice: Choice) -> Sample | None:
    sample = ask(Run.points_sample, choice.first, choice.split)
    if sample is None:
        return None
    total = sample.of_images + sample.of_texts
    drawn = len(sample.images) + len(sample.texts)
    if switch(f"Use all {total:,} samples (takes a minute)", "everything"):
        return None
    numbers = {"drawn": drawn, "total": total, "images": len(sample.images), "of_images": sample.of_images}
    cards.note(cards.HOW_TO_READ["sample drawn"].format(**numbers))
    return sample


def choose_settings() -> joint_space.LayoutSettings:
    """Draw the choice of modalities (one alone, both, or both centred) and of the map's method, whose parameters are in
    a popover; return the settings. A selection belongs to one map, so a change of either clears it."""
    clear = partial(set_value, AREA, "")
    modalities = choose_one("Points", MODALITIES, "modalities", cards.tip("modalities"), on_change=clear)
    method = choose_one("Map", METHODS, "map", cards.tip("map"), on_change=clear)
    settings = joint_space.LayoutSettings(method, modalities=modalities)
    if method == "pca":
        return settings
    with advanced():
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
        return replace(settings, seed=int(st.number_input("Seed", 0, 9999, 0, **bound_number("map-seed"))))


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


def stored_layouts(choice: Choice, settings: joint_space.LayoutSettings, points: int) -> Layouts:
    """Return the stored maps of all runs; if one is missing, draw a button that computes them, and return none."""
    first, *others = (opened_run(run) for run in choice.runs)
    layouts_of = joint_space.stored_layout  # every byte is checked; the second map is aligned to the first
    stored = [layouts_of(first, choice.split, settings)]
    stored += [layouts_of(run, choice.split, settings, first) for run in others]
    layouts = [item.value for item in stored if item.value is not None]
    missing = len(stored) - len(layouts)
    if not missing:
        return layouts
    values = {"split": choice.split, **asdict(settings)}
    flags = [text for name, value in values.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    method = settings.method
    time = duration(missing * joint_space.layout_seconds(settings.method, points))
    compiling = "; the first UMAP takes longer" if method == "umap" else ""
    show_work(
        stored[-1].name,
        jobs.module_command("coder_core.project", *(str(run.path) for run in choice.runs), *flags),
        f"Compute the {METHODS[method]} map",
        f"Not computed yet. {points:,} points of {count(missing, 'run')} take {time} on a two-core machine{compiling}; "
        "the result is stored in the run’s folder. PCA is shown until then.",
        "; ".join(item.fault for item in stored if item.fault),
    )
    return []


def why_not(method: joint_space.Method, points: int) -> str:
    """Explain why this method cannot lay out so many points; "" if it can."""
    if method == "tsne" and points > joint_space.MOST_TSNE:
        return f"t-SNE takes at most {joint_space.MOST_TSNE:,} points, and this map has {points:,}."
    if method != "pca" and points < joint_space.FEWEST:
        return f"{METHODS[method]} needs at least {joint_space.FEWEST} points, and this map has {points:,}."
    return ""
