"""Joint space page: maps, modality gap, similarities."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import streamlit as st

from app import charts, jobs, questions
from app.ask import Run, Sample, ask, ask_all, ask_all_now, joint_space
from app.choice import Choice, bound, bound_number, theme
from app.components import cards, downloads
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.words import count, duration, number
from app.components.work import Work, show_work
from app.frame import sidebar
from app.frame import unavailable as missing
from app.views.joint_space import choose_modalities, clear_area, explore, point_rows, points_shown, tables_of

METHODS = {"umap": "UMAP", "tsne": "t-SNE", "pca": "PCA"}


def settings(modalities: joint_space.Modalities) -> joint_space.LayoutSettings:
    """The method of the map; its parameters are in a popover."""
    method = cast(joint_space.Method, choose_one("Map", METHODS, "map", tip("map"), on_change=clear_area))
    chosen = joint_space.LayoutSettings(method, modalities=modalities)
    if method == "pca":
        return chosen
    with st.popover("Settings", icon=":material/tune:", width=140):
        if method == "umap":
            neighbours = int(
                st.number_input("Neighbours", 2, 200, 15, **bound_number("neighbours"), help=tip("map"))
            )
            distance = st.number_input("Minimum distance", 0.0, 1.0, 0.1, 0.05, **bound_number("distance"))
            chosen = replace(chosen, neighbours=neighbours, min_distance=float(distance))
        else:
            value = st.number_input(
                "Perplexity", 2, 500, 30, **bound_number("perplexity"), help=tip("perplexity")
            )
            chosen = replace(chosen, perplexity=float(value))
        return replace(chosen, seed=int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"))))


def drawn_sample(choice: Choice) -> Sample | None:
    """The random sample that the page shows; None for the complete split."""
    sample = ask(Run.points_sample, choice.first, choice.split)
    if sample is None:
        return None
    total, drawn = sample.of_images + sample.of_texts, len(sample.images) + len(sample.texts)
    if st.toggle(f"Use all {total:,} samples (takes a minute)", False, **bound("everything")):
        return None
    cards.note(
        f"{drawn:,} of {total:,} samples, drawn at random: {len(sample.images):,} of {sample.of_images:,} images with "
        "their captions. This page shows only these; ranks are over the whole split, hubness counts only these queries."
    )
    return sample


def numbers(choice: Choice, sample: Sample | None) -> None:
    """The modality gap and the separation of matching from other pairs."""
    gaps = [ask(joint_space.modality_gap, run, choice.split, sample=sample) for run in choice.runs]
    items = []
    for label, term, values in (
        ("modality gap", "modality gap", [one.gap for one in gaps]),
        ("mean distance", "mean distance", [one.mean_distance for one in gaps]),
        ("matching pairs", "mean similarity", [one.positive for one in gaps]),
        ("other pairs", "mean similarity", [one.negative for one in gaps]),
    ):
        note = f"{choice.first.name} {number(values[0])}" if len(values) == 2 else ""
        items.append(cards.Metric(label, number(values[-1]), note, term))
    cards.metrics(items)


def similarities(choice: Choice, sample: Sample | None) -> None:
    """Similarity distributions of matching and other pairs."""
    distributions = [ask(joint_space.distributions, run, choice.split, sample=sample) for run in choice.runs]
    last, note = distributions[-1], ""
    if last.images < last.of_images:
        captions = "the sample’s captions" if sample is not None else "all captions"
        note = f" Counted over {last.images:,} of {last.of_images:,} random images and {captions}."
    cards.heading(
        "How similar are matching pairs, and all others?",
        f"The further apart the filled and the dotted curve, the easier the retrieval.{note}",
    )
    numbers(choice, sample)
    positive, negative = [one.positive for one in distributions], [one.negative for one in distributions]
    names = [run.name for run in choice.runs]
    figure = charts.similarity_curves(names, last.edges, positive, negative, charts.tone(theme()))
    downloads.chart(figure, "similarity-curves", "similarities of matching and other pairs")


def remark(choice: Choice, layouts: list[joint_space.Layout]) -> str:
    """Remarks on the maps: differences from the settings, and how much the maps differ."""
    notes = dict.fromkeys(note for layout in layouts for note in layout.notes)
    parts = [f"{note[0].upper()}{note[1:]}." for note in notes]
    shares, disparity = layouts[0].shares, layouts[-1].disparity
    if shares is not None:
        parts.append(f"The map shows {100 * sum(shares):.0f} % of the variance of {choice.first.name}.")
    if disparity is not None:
        parts.append(
            f"The map of {choice.last.name} is turned, mirrored and shifted to lie as close as possible to that of "
            f"{choice.first.name}, at the same size; {100 * disparity:.0f} % of the variance still differs."
        )
    if any(ask(Run.concepts, run, choice.split) is not None for run in choice.runs):
        parts.append("The map shows the instance embeddings; ranks use both branches.")
    return " ".join(parts)


def command(choice: Choice, chosen: joint_space.LayoutSettings) -> tuple[str, ...]:
    """The command that computes these maps of every run."""
    values = {
        "split": choice.split,
        "method": chosen.method,
        "neighbours": str(chosen.neighbours),
        "min-distance": repr(chosen.min_distance),
        "perplexity": repr(chosen.perplexity),
        "seed": str(chosen.seed),
        "modalities": chosen.modalities,
    }
    flags = [text for name, value in values.items() for text in (f"--{name}", value)]
    return jobs.module_command("coder_core.project", *(str(run.path) for run in choice.runs), *flags)


def stored_layouts(
    choice: Choice, chosen: joint_space.LayoutSettings, points: int
) -> list[joint_space.Layout]:
    """The stored maps of all runs; while one is missing, none, and a button that computes them."""
    stored = ask_all_now(questions.stored_maps, choice.runs, choice.split, chosen)
    layouts = [item.value for item in stored if item.value is not None]
    if len(layouts) == len(choice.runs):
        return layouts
    missing_maps = len(stored) - len(layouts)
    time = duration(missing_maps * joint_space.layout_seconds(chosen.method, points))
    compiling = ", and half a minute more the first time, to compile UMAP" if chosen.method == "umap" else ""
    work = Work(
        stored[-1].name,
        command(choice, chosen),
        f"Compute the {METHODS[chosen.method]} map",
        f"Not computed yet. {points:,} points of {count(missing_maps, 'run')} take {time} on a two-core "
        f"machine{compiling}; the result is stored in the run’s folder. PCA is shown until then.",
    )
    show_work(work, "; ".join(item.fault for item in stored if item.fault))
    return []


def why_not(method: joint_space.Method, points: int) -> str:
    """Why this method cannot lay out so many points; "" where it can."""
    if method == "tsne" and points > joint_space.MOST_TSNE:
        return f"t-SNE takes at most {joint_space.MOST_TSNE:,} points, and this map has {points:,}."
    if method != "pca" and points < joint_space.FEWEST:
        return f"{METHODS[method]} needs at least {joint_space.FEWEST} points, and this map has {points:,}."
    return ""


def show(chosen_runs: Choice) -> None:
    choice = missing.embedded(chosen_runs)
    if choice is None:
        return
    sample = drawn_sample(choice)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        modalities = choose_modalities()
        chosen = settings(modalities)
    tables = tables_of(choice, sample)
    ranks = ask(Run.ranks, choice.first, choice.split)
    images, captions = len(ranks["i2t"]), len(ranks["t2i"])
    total = {"images": images, "captions": captions}.get(modalities, images + captions)
    layouts: list[joint_space.Layout] = []
    if fact := why_not(chosen.method, total):
        cards.empty(fact, "Choose PCA, which has no limit. PCA is shown.")
    elif chosen.method != "pca":
        layouts = stored_layouts(choice, chosen, total)
    layouts = layouts or ask_all(questions.principal_maps, choice.runs, choice.split, sample, modalities)
    planes = [layout.plane for layout in layouts]
    rows = point_rows(choice, tables[0].iloc[points_shown(tables[0], modalities)])
    if len(planes[0]) > len(rows):  # a stored map has all points
        planes = [plane[rows - (images if modalities == "captions" else 0)] for plane in planes]
    explore(choice, planes, tables, modalities, remark(choice, layouts))
    similarities(choice, sample)


sidebar.page(
    "Do images and texts share one space?",
    "Neighbours have similar embeddings. Where diamonds (images) and dots (captions) mix, the two modalities share a "
    "space. Two separate islands are a modality gap.",
    show,
    of_two=True,
    whole="where points lie, the modality gap and the curves of similarities",
)
