"""Sections of the Concepts page: the graph, how many concepts are read, disagreements, one pair, top readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import streamlit as st

from app import charts, questions
from app.ask import Modality, Run, RunSummary, ask, ask_both, concepts
from app.choice import Choice, bound, bound_number, put, theme
from app.components import cards, downloads, links
from app.components.controls import choose_one, step_through
from app.components.glossary import tip
from app.components.selection import selected_points
from app.components.table import Column, rows_table
from app.views.samples import holding, sample_card, sample_table, say_slice, show_sample

CONCEPT, CAPTION = "concept", "caption"
MOST_SHOWN, USUAL, STRONGEST, READERS = 60, 40, 8, 10
SIDES: dict[Modality, str] = {"image": "images", "text": "captions"}
PARTS = {"strong": "Strongest concepts", "around": "One neighbourhood"}
Strength = Literal["captions", "edges", "read"]
BY: dict[Strength, str] = {"captions": "Captions", "edges": "Edges", "read": "Attention"}
KINDS = {"": "All", "object": "Objects", "property": "Properties", "motion": "Motions"}


def choose_concept(runs: Sequence[RunSummary], split: str) -> str:
    """The picker of a concept, which the graph marks and whose readers are shown."""
    last, names = ask(questions.concept_table, runs[-1], split), ask(questions.view_of, runs[-1], split).names
    order = np.argsort(-last["read"].to_numpy(), kind="stable").tolist()
    others = [word for run in runs for word in ask(questions.view_of, run, split).names]
    options = dict.fromkeys([names[i] for i in order] + others)
    return str(st.selectbox("Concept", list(options), **bound(CONCEPT), help=tip("concept"), width=220))


def graphs(runs: Sequence[RunSummary], split: str) -> str:
    """The concept graph of every run, once when they share it; returns the chosen concept."""
    cards.heading(
        "Concept graph",
        "A larger mark is in more training captions. An arrow leads to a concept that this one reads from. Click on a "
        "mark to choose the concept: a ring surrounds it, its edges stand out, and its readers are listed below.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        part = choose_one("Show", PARTS, "part", tip("concept edge"))
        by: Strength = "captions"
        kind = ""
        if part == "strong":
            by = choose_one("Strongest by", BY, "by", tip("concept strength"))
            kind = choose_one("Kind", KINDS, "kind")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        word = choose_concept(runs, split)
        count = int(st.number_input("At most", 5, MOST_SHOWN, USUAL, 5, **bound_number("count"), width=120))
    if len(runs) == 2 and by != "read" and ask_both(questions.same_graph, runs[0], runs[1], split):
        cards.note("Both runs have the same graph, because it is built from the training captions.")
        runs = runs[-1:]
    for position, (run, column) in enumerate(zip(runs, st.columns(len(runs), gap="large"), strict=True)):
        with column:
            if len(runs) > 1:
                cards.label(run.name)
            _graph(run, split, position, word, part, by, kind, count)
    return word


def _graph(
    run: RunSummary, split: str, position: int, word: str, part: str, by: Strength, kind: str, count: int
) -> None:
    names = ask(questions.view_of, run, split).names
    number = names.index(word) if word in names else None
    if part == "around" and number is None:
        cards.empty(f"“{word}” is not a concept of this run.", "Choose another concept.")
        return
    around = number if part == "around" else None
    graph, total = ask(questions.concept_graph, run, split, around=around, by=by, kind=kind, count=count)
    key = f"concept-graph-{position}"
    figure = charts.concept_graph(graph.nodes, graph.edges, number, charts.tone(theme()))
    downloads.chart(
        figure,
        key,
        f"concept graph {position + 1}",
        on_select=partial(_pick, key, names),
        selection_mode="points",
    )
    nodes = set(graph.nodes["concept"])
    isolated = len(nodes - set(graph.edges["concept"]) - set(graph.edges["neighbour"]))
    note = f"{len(nodes):,} of {total:,} concepts and the {len(graph.edges):,} edges between them."
    if isolated:
        note += f" The {isolated:,} at the bottom have no edge to the others shown."
    if number is not None and number not in nodes:
        note += f" “{word}” is not among them; “{PARTS['around']}” shows it."
    cards.note(note)
    edges = graph.edges.assign(
        concept=[names[i] for i in graph.edges["concept"]],
        neighbour=[names[i] for i in graph.edges["neighbour"]],
    )
    downloads.table(edges, f"concept-edges-{run.name}-{split}")


def _pick(key: str, names: list[str]) -> None:
    points = selected_points(st.session_state.get(key))
    if points and 0 <= points[0] < len(names):
        put(CONCEPT, names[points[0]])


def amounts(runs: Sequence[RunSummary], choice: Choice) -> None:
    """Number of concepts that images and captions (of the slice) read, and the attention they share."""
    split = choice.split
    cards.heading(
        "How many concepts does a sample read?",
        "Effective number of concepts: at 1 a sample attends to a single concept, further right to more of them.",
    )
    inside = {
        side: choice.inside(side, ask(questions.attention_of, runs[-1], split, side).samples)
        for side in SIDES
    }
    if choice.slice:
        say_slice(choice, "text")
    if not all(rows.any() for rows in inside.values()):
        cards.empty(
            "The slice holds none of these captions.", "Clear it, or write another one in the sidebar."
        )
        return
    for run in runs:
        if len(runs) > 1:
            cards.label(run.name)
        image, text = (_part(ask(questions.attention_of, run, split, side), inside[side]) for side in SIDES)
        shared, total = ask(questions.shared_attention, run, split), len(image.mean)
        medians = [f"{np.median(attention.perplexity):.1f}" for attention in (image, text)]
        cards.metrics(
            [
                cards.Metric("per image", medians[0], _range(image), "concepts read"),
                cards.Metric("per caption", medians[1], _range(text), "concepts read"),
                cards.Metric("top, images", f"{image.named:,}", f"of {total:,}", "top concepts"),
                cards.Metric("top, captions", f"{text.named:,}", f"of {total:,}", "top concepts"),
                cards.Metric(
                    "shared attention",
                    f"{100 * shared.own[inside['text']].mean():.1f} %",
                    f"{100 * shared.other[inside['text']].mean():.1f} % by chance",
                    "shared",
                ),
            ]
        )
        if not ask(questions.view_of, run, split).whole:
            cards.note(
                "The analysis stores only the strongest concepts of every sample; shares are of those."
            )
    for (side, name), column in zip(SIDES.items(), st.columns(2, gap="large"), strict=True):
        with column:
            cards.label(name.capitalize())
            numbers = {
                run.name: ask(questions.attention_of, run, split, side).perplexity[inside[side]]
                for run in runs
            }
            figure = charts.concepts_read(numbers, name, charts.tone(theme()))
            downloads.chart(figure, f"amount-{side}", f"concepts that {name} read")


def _part(attention: concepts.AttentionSummary, rows: np.ndarray) -> concepts.AttentionSummary:
    """The part of these samples; the mean attention of a concept stays that of all."""
    parts = {name: getattr(attention, name)[rows] for name in ("samples", "perplexity", "first", "share")}
    return replace(attention, **parts)


def _range(attention: concepts.AttentionSummary) -> str:
    low, high = np.percentile(attention.perplexity, [5, 95])
    return f"5–95 %: {low:.1f}–{high:.1f}"


NUMBERS = {
    "image_share": ("image’s share, %", ".0f", "attention"),
    "caption_share": ("caption’s share, %", ".0f", "attention"),
    "shared": ("shared, %", ".1f", "shared"),
    "rank": ("rank", ",d", "rank"),
}


def disagreements(runs: Sequence[RunSummary], choice: Choice) -> np.ndarray:
    """Captions ranked by the attention they share with their image; returns the order of all captions."""
    cards.heading(
        "Where an image and its caption disagree",
        "Captions that share the least attention with their image first; among equal ones the most confident first. "
        "Click on a row to open the pair below.",
    )
    run = runs[-1]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        if len(runs) > 1:
            name = choose_one("Run", {r.name: r.name for r in reversed(runs)}, "pairs-of")
            run = next(r for r in runs if r.name == name)
        first = choose_one("First", {"least": "Least shared", "most": "Most shared"}, "first", tip("shared"))
    table = ask(questions.disagreements, run, choice.split)
    table = table if first == "least" else table.iloc[::-1]
    alone = replace(choice, first=run, second=None)
    table = table.iloc[holding(alone, "text", table["caption"].to_numpy(), "")].reset_index(drop=True)
    if not len(table):
        cards.empty("The slice holds no caption.", "Clear the slice in the sidebar.")
        return np.zeros(0, dtype=np.int64)
    numbers = table["caption"].to_numpy()
    columns = {
        "image_reads": Column("image’s top concept", "", "attention"),
        "caption_reads": Column("caption’s top concept", "", "attention"),
    } | {name: Column(label, digits, term) for name, (label, digits, term) in NUMBERS.items()}
    return sample_table(
        alone,
        "text",
        numbers,
        table.drop(columns=["caption", "image"]),
        columns,
        target=CAPTION,
        key=f"disagreements-{first}",
        file=f"concepts-{choice.split}-shared-{run.name}",
    )


def one_pair(runs: Sequence[RunSummary], choice: Choice, order: np.ndarray) -> None:
    """A caption and its image with the concepts either reads, run beside run."""
    cards.heading(
        "One pair in detail",
        "Bars to the left are concepts the image reads, bars to the right those the caption reads.",
    )
    count = len(ask(Run.captions, runs[-1], choice.split))
    number = step_through("Caption number", CAPTION, order, count, "The row of the caption in its split.")
    show_sample(choice, "text", number, here="concepts")
    for position, (run, column) in enumerate(zip(runs, st.columns(len(runs), gap="large"), strict=True)):
        with column:
            cards.label(run.name)
            rows, shared, perplexity = ask(questions.pair_concepts, run, choice.split, number, STRONGEST)
            rank = int(ask(Run.ranks, run, choice.split)["t2i"][number]) + 1
            cards.metrics(
                [
                    cards.Metric("shared", f"{shared:.1f} %", "of the attention", "shared"),
                    cards.Metric("image reads", f"{perplexity['image']:.1f}", "concepts", "concepts read"),
                    cards.Metric("caption reads", f"{perplexity['text']:.1f}", "concepts", "concepts read"),
                    cards.Metric("rank", f"{rank:,}", "both branches", "rank"),
                ],
                compact=True,
            )
            figure = charts.side_by_side(rows, charts.tone(theme()))
            downloads.chart(figure, f"pair-{position}", f"concepts of the pair {position + 1}")
            downloads.table(rows[["word", "kind", "image", "text"]], f"concepts-caption-{number}-{run.name}")


def readers(runs: Sequence[RunSummary], choice: Choice, word: str) -> None:
    """The samples that read the chosen concept most."""
    cards.heading(f"Top readers of “{word}”", "Rank, and the concept’s share of the sample’s attention.")
    for run in runs:
        names = ask(questions.view_of, run, choice.split).names
        if len(runs) > 1:
            cards.label(run.name)
        if word not in names:
            cards.note(f"“{word}” is not a concept of this run.")
            continue
        row = ask(questions.concept_table, run, choice.split).iloc[names.index(word)]
        cards.note(
            f"In {row['count']:,} training captions ({row['forms']}). It has {row['image']:.2f} % of the images’ "
            f"attention and {row['text']:.2f} % of the captions’."
        )
        for side, column in zip(SIDES, st.columns(2, gap="small"), strict=True):
            with column:
                _readers(run, choice, names.index(word), side)


def _readers(run: RunSummary, choice: Choice, concept: int, side: Modality) -> None:
    within = choice.samples(side)
    table = ask(questions.top_readers, run, choice.split, concept, side, READERS, within)
    if not len(table):
        of_slice = " of the slice" if choice.slice else ""
        cards.empty(
            f"No {'image' if side == 'image' else 'caption'}{of_slice} reads it at all.",
            "Choose another concept.",
        )
        return
    pictured, first = side == "image", ask(Run.first_captions, run, choice.split)
    items = []
    for place, (sample, share) in enumerate(table[["sample", "attention"]].to_numpy().tolist(), start=1):
        number = int(sample)
        text = int(first[number]) if pictured else number
        pages: tuple[tuple[str, str], ...] = (("open", links.concepts(choice, text)),) if text >= 0 else ()
        if not pictured:
            pages += links.of_sample(choice, side, number, here="concepts")
        items.append(
            sample_card(
                run,
                choice.split,
                side,
                number,
                place,
                float(share),
                links=pages,
                term="attention",
                pictured=pictured,
            )
        )
    cards.results(items)


def all_concepts(runs: Sequence[RunSummary], split: str) -> None:
    """Every concept of the last run with the attention it gets."""
    run = runs[-1]
    cards.heading(
        f"All concepts of {run.name}" if len(runs) > 1 else "All concepts",
        "Click on a row to choose the concept.",
    )
    table = ask(questions.concept_table, run, split).assign(word=ask(questions.view_of, run, split).names)
    table = table.sort_values("read", ascending=False, kind="stable", ignore_index=True)

    columns = {
        "word": Column("concept"),
        "kind": Column("kind"),
        "image": Column("images’ attention, %", ".2f", "attention"),
        "text": Column("captions’ attention, %", ".2f", "attention"),
        "count": Column("training captions", ",d"),
        "reads": Column("reads", ",d", "concept edge"),
        "read_by": Column("read by", ",d", "concept edge"),
        "forms": Column("word forms"),
    }
    words = table["word"].tolist()
    chosen = st.session_state.get(CONCEPT)
    rows_table(
        table,
        columns,
        np.arange(len(table)),
        "concepts-table",
        "concepts",
        words.index(chosen) if chosen in words else None,
        lambda row: put(CONCEPT, words[row]),
        height=330,
    )
    downloads.table(table.drop(columns="read"), f"concepts-{run.name}-{split}")
