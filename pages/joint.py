"""Do images and texts share one space?"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app import charts
from app.backend import joint_space as backend_joint
from app.backend import runs as backend
from app.backend.joint_space import Layout, LayoutSettings, Method
from app.ui import cards, downloads, embedded_runs, sidebar
from app.ui.controls import choose_one
from app.ui.glossary import tip
from app.ui.state import Choice, bound, bound_number, theme
from app.views import work as work_view
from app.views.joint_space import explore, point_rows, tables_of

METHODS = {"umap": "UMAP", "tsne": "t-SNE", "pca": "PCA"}
LARGE = 50_000
MINUTES = {"umap": "about a minute", "tsne": "two to four minutes"}


def settings() -> LayoutSettings:
    """Which map; what else it is made with stands behind a button."""
    method: Method = choose_one("Map", METHODS, "map", tip("map"))  # type: ignore[assignment]
    chosen = LayoutSettings(method)
    if method == "pca":
        return chosen
    with st.popover("Settings", icon=":material/tune:", width=140):
        if method == "umap":
            neighbours = int(st.number_input("Neighbours", 2, 200, 15, **bound_number("neighbours"), help=tip("map")))
            distance = float(
                st.number_input("Smallest distance", 0.0, 1.0, 0.1, 0.05, **bound_number("distance"), help=tip("map"))
            )
            chosen = replace(chosen, neighbours=neighbours, min_distance=distance)
        else:
            value = st.number_input("Perplexity", 2, 500, 30, **bound_number("perplexity"), help=tip("perplexity"))
            chosen = replace(chosen, perplexity=float(value))
        return replace(chosen, seed=int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"))))


def take_part(choice: Choice) -> bool:
    """Whether only a random part of the split is looked at; a small split is always looked at whole."""
    sample = backend_joint.points_sample(choice.first, choice.split)
    if sample is None:
        return False
    total, drawn = sample.of_images + sample.of_texts, len(sample.images) + len(sample.texts)
    if st.toggle(f"Look at all {total:,} samples (takes a minute)", False, **bound("everything")):
        return False
    cards.note(
        f"{drawn:,} of {total:,} samples, drawn at random: {len(sample.images):,} of {sample.of_images:,} images, and "
        "their captions. Everything on this page is of these; ranks are those in the whole split, hubness counts only "
        "these queries."
    )
    return True


def numbers(choice: Choice, part: bool) -> None:
    """The gap, and how far matching pairs stand from the others."""
    found = [backend_joint.gap(run, choice.split, part) for run in choice.runs]
    items = []
    for label, term, values in (
        ("modality gap", "modality gap", [one.gap for one in found]),
        ("mean distance", "mean distance", [one.mean_distance for one in found]),
        ("matching pairs", "mean similarity", [one.positive for one in found]),
        ("other pairs", "mean similarity", [one.negative for one in found]),
    ):
        note = f"{values[0]:.3f} in {choice.first.name}" if len(values) == 2 else choice.first.name
        items.append(cards.Tile(label, f"{values[-1]:.3f}", note, term))
    cards.tiles(items)


def similarities(choice: Choice, part: bool) -> None:
    found = [backend_joint.distributions(run, choice.split, part) for run in choice.runs]
    last, told = found[-1], ""
    if last.images < last.of_images:
        captions = "their sample’s captions" if part else "all captions"
        told = f" Counted over {last.images:,} of {last.of_images:,} images, drawn at random, and {captions}."
    cards.heading(
        "How alike are matching pairs, and all others?",
        f"The further apart the filled and the dotted curve, the easier the retrieval.{told}",
    )
    numbers(choice, part)
    names = [run.name for run in choice.runs]
    figure = charts.similarity_curves(
        names, last.edges, [one.positive for one in found], [one.negative for one in found], charts.tone(theme())
    )
    downloads.chart(figure, "similarity-curves", "similarities of matching and other pairs")


def minutes(method: Method, points: int) -> str:
    """How long a map takes, in words."""
    return "many minutes" if points > LARGE else MINUTES[method]


def remark(choice: Choice, layouts: list[Layout]) -> str:
    """How the maps were made, where that was not as asked, and how much they differ."""
    notes = dict.fromkeys(note for one in layouts for note in one.notes)
    parts = [f"{note[0].upper()}{note[1:]}." for note in notes]
    shares, disparity = layouts[0].shares, layouts[-1].disparity
    if shares is not None:
        parts.append(f"The plane holds {100 * sum(shares):.0f} % of the variance of {choice.first.name}.")
    if disparity is not None:
        parts.append(
            f"{choice.runs[-1].name} is laid over {choice.first.name} without bending: {100 * disparity:.0f} % differ."
        )
    if any(backend.open_summary(run).concepts(choice.split) is not None for run in choice.runs):
        parts.append("The map is of the instance embeddings; ranks are those of both branches.")
    return " ".join(parts)


def show(chosen_runs: Choice) -> None:
    choice = embedded_runs.of(chosen_runs)
    if choice is None:
        return
    part = take_part(choice)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        chosen = settings()
    tables = tables_of(choice, part)
    total = sum(len(ranks) for ranks in backend.open_summary(choice.first).ranks(choice.split).values())
    if chosen.method == "tsne" and total > backend_joint.MOST_TSNE:
        cards.empty(
            f"t-SNE takes at most {backend_joint.MOST_TSNE:,} points, and there are {total:,}.",
            "UMAP and PCA take all of them; PCA is shown.",
        )
        chosen = LayoutSettings("pca")
    layouts: list[Layout] = []
    if chosen.method != "pca":
        kept = backend_joint.kept_maps(choice.runs, choice.split, chosen)
        layouts = [one.layout for one in kept if one.layout is not None]
        if len(layouts) < len(choice.runs):
            faults = "; ".join(one.fault for one in kept if one.fault)
            offered = work_view.Work(
                kept[-1].name, backend_joint.map_command(choice.runs, choice.split, chosen),
                f"Compute the {METHODS[chosen.method]} map",
                f"There is none yet. {total:,} points take {minutes(chosen.method, total)} a run; it is kept beside "
                "the run. PCA is shown meanwhile.",
            )  # fmt: skip
            work_view.show(offered, faults)
            layouts = []
    if not layouts:
        layouts = backend_joint.principal_maps(choice.runs, choice.split, part)
    planes = [one.plane for one in layouts]
    if len(planes[0]) > len(tables[0]):  # a kept map is of all points
        planes = [plane[point_rows(choice, tables[0])] for plane in planes]
    explore(choice, planes, tables, remark(choice, layouts))
    similarities(choice, part)


choice = sidebar.choose()
cards.question(
    "Do images and texts share one space?",
    "Neighbours look alike to the model. Where diamonds (images) and dots (captions) lie mixed, the two modalities "
    "share a space; where they form two islands, there is a gap between them.",
)
sidebar.answer(choice, show)
