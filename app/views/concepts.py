"""The sections of the Concepts page: the graph, how many concepts are read, who disagrees, one pair, the readers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.backend import concepts
from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards, downloads, links
from app.ui.controls import choose_one, picking_table, picture_urls, step_through
from app.ui.glossary import tip
from app.ui.selection import selected_points
from app.ui.state import Choice, bound, bound_number, put, theme
from app.views.anchor import show_sample

CONCEPT, CAPTION = "concept", "caption"
MOST_SHOWN, USUAL, ROWS_SHOWN, STRONGEST, READERS = 60, 40, 50, 8, 10
SIDES = {"image": "images", "text": "captions"}
BY = {"captions": "Captions", "edges": "Edges", "read": "Reading"}
KINDS = {"": "All", "object": "Objects", "property": "Properties", "motion": "Motions"}


def chosen_concept(runs: list[RunSummary], split: str) -> str:
    """The picker of a concept, which the graph rings and whose readers are shown."""
    last = concepts.table(runs[-1], split)
    names = concepts.words(runs[-1], split)
    order = np.argsort(-last["read"].to_numpy(), kind="stable").tolist()
    known = dict.fromkeys([names[i] for i in order] + [word for run in runs for word in concepts.words(run, split)])
    return str(st.selectbox("Concept", list(known), **bound(CONCEPT), help=tip("concept"), width=220))


def graphs(runs: list[RunSummary], split: str) -> str:
    """The concept graph of every run, once when they share it; returns the chosen concept."""
    cards.heading(
        "The concept graph",
        "Each mark is a concept, larger when more training captions hold it. An arrow leads to a concept that it reads "
        "from. A click on a mark chooses it (ring): its edges stand out, and its readers are listed below.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        part = choose_one("Show", {"strong": "Strongest", "around": "One neighbourhood"}, "part", tip("concept edge"))
        by, kind = "captions", ""
        if part == "strong":
            by = choose_one("Strongest by", BY, "by", tip("concept strength"))
            kind = choose_one("Kind", KINDS, "kind")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        word = chosen_concept(runs, split)
        count = int(st.number_input("At most", 5, MOST_SHOWN, USUAL, 5, **bound_number("count"), width=120))
    once = len(runs) == 2 and by != "read" and concepts.same_graph(runs[0], runs[1], split)
    shown = runs[-1:] if once else runs
    if once:
        cards.note("Both runs have the same concepts and the same edges: the graph is made from the training captions.")
    for position, (run, column) in enumerate(zip(shown, st.columns(len(shown), gap="large"), strict=True)):
        with column:
            if len(shown) > 1:
                cards.label(run.name)
            _graph(run, split, position, word, part, by, kind, count)
    return word


def _graph(run: RunSummary, split: str, position: int, word: str, part: str, by: str, kind: str, count: int) -> None:
    names = concepts.words(run, split)
    number = names.index(word) if word in names else None
    if part == "around" and number is None:
        cards.empty(f"“{word}” is not a concept of this run.", "Choose another concept.")
        return
    graph, of = concepts.graph(
        run, split, around=number if part == "around" else None, by=by, kind=kind, count=count
    )  # fmt: skip
    key = f"concept-graph-{position}"
    figure = charts.concept_graph(graph.nodes, graph.edges, number, charts.tone(theme()))
    downloads.chart(
        figure, key, f"concept graph {position + 1}", on_select=partial(_picked, key, names), selection_mode="points"
    )
    said = f"{len(graph.nodes):,} of {of:,} concepts and the {len(graph.edges):,} edges among them."
    alone = len(set(graph.nodes["concept"]) - set(graph.edges["concept"]) - set(graph.edges["neighbour"]))
    if alone:
        said += f" The {alone:,} at the bottom have no edge to the others shown."
    if number is not None and number not in set(graph.nodes["concept"]):
        said += f" “{word}” is not among them: One neighbourhood shows it."
    cards.note(said)
    shown = graph.edges.assign(
        concept=[names[i] for i in graph.edges["concept"]], neighbour=[names[i] for i in graph.edges["neighbour"]]
    )
    downloads.table(shown, f"concept-edges-{run.name}-{split}")


def _picked(key: str, names: list[str]) -> None:
    points = selected_points(st.session_state.get(key))
    if points and 0 <= points[0] < len(names):
        put(CONCEPT, names[points[0]])


def amounts(runs: list[RunSummary], split: str) -> None:
    """How many concepts images and captions read, and how far they share them."""
    cards.heading(
        "How many concepts does a sample read?",
        "A bar at 1 holds samples that read a single concept; further right the attention is spread over more of them.",
    )
    for run in runs:
        if len(runs) > 1:
            cards.label(run.name)
        image, text = (concepts.reading(run, split, side) for side in SIDES)
        both, total = concepts.shared(run, split), len(image.mean)
        items = [
            cards.Tile(f"concepts {name} read", f"{np.median(one.perplexity):.1f}", _middle(one), "concepts read")
            for name, one in (("an image", image), ("a caption", text))
        ]
        items += [
            cards.Tile("most read by some image", f"{image.named:,}", f"of {total:,} concepts", "most read"),
            cards.Tile("most read by some caption", f"{text.named:,}", f"of {total:,} concepts", "most read"),
            cards.Tile(
                "shared by caption and image", f"{100 * both.own.mean():.1f} %",
                f"{100 * both.other.mean():.1f} % with any other image", "shared",
            ),
        ]  # fmt: skip
        cards.tiles(items)
        if concepts.strongest_only(run, split):
            cards.note("Only the strongest concepts of every sample were kept; shares are those among them.")
    for (side, name), column in zip(SIDES.items(), st.columns(2, gap="large"), strict=True):
        with column:
            cards.label(name.capitalize())
            numbers = {run.name: concepts.reading(run, split, side).perplexity for run in runs}
            figure = charts.concepts_read(numbers, name, charts.tone(theme()))
            downloads.chart(figure, f"amount-{side}", f"concepts that {name} read")


def _middle(one: concepts.Reading) -> str:
    low, high = np.percentile(one.perplexity, [5, 95])
    return f"median; 90 % from {low:.1f} to {high:.1f}"


def disagreements(runs: list[RunSummary], choice: Choice) -> np.ndarray:
    """The ranked table of captions that share least with their image; returns the order of all."""
    cards.heading(
        "Where an image and its caption disagree",
        "Captions that share the least attention with their image come first, the firmest readings before vague ones. "
        "A click on a row opens the pair below.",
    )
    run = runs[-1]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        if len(runs) > 1:
            name = choose_one("In", {r.name: r.name for r in reversed(runs)}, "pairs-of")
            run = next(r for r in runs if r.name == name)
        ends = choose_one("First", {"least": "Shared least", "most": "Shared most"}, "first", tip("shared"))
    table = concepts.disagreements(run, choice.split)
    table = table if ends == "least" else table.iloc[::-1].reset_index(drop=True)
    top = table.head(ROWS_SHOWN)
    captions = backend.open_summary(run).captions(choice.split)
    shown = pd.DataFrame(
        {
            "picture": picture_urls(backend.thumbnails(run, choice.split, top["image"].to_numpy(), 72)),
            "words": [captions[i] for i in top["caption"].tolist()],
            **{name: top[name] for name in COLUMNS},
        }
    )
    config: dict[str, Any] = {
        "picture": st.column_config.ImageColumn("", width=64),
        "words": st.column_config.TextColumn("caption", width=215),
        "image_reads": st.column_config.TextColumn("image reads most", help=tip("attention"), width=112),
        "caption_reads": st.column_config.TextColumn("caption reads most", help=tip("attention"), width=122),
    }
    for name, (label, digits, term) in COLUMNS.items():
        if digits:
            config[name] = st.column_config.NumberColumn(label, format=digits, help=tip(term), width=68)
    cards.note(f"{len(top):,} of {len(table):,} captions shown.")
    picking_table(shown, top["caption"].to_numpy(), CAPTION, f"disagreements-{ends}", config, 360)
    downloads.table(table, f"concepts-{choice.split}-shared-{run.name}")
    return table["caption"].to_numpy()


COLUMNS = {
    "image_reads": ("", "", ""), "image_share": ("of it, %", "%.0f", "attention"), "caption_reads": ("", "", ""),
    "caption_share": ("of it, %", "%.0f", "attention"), "shared": ("shared, %", "%.1f", "shared"),
    "rank": ("rank", "%d", "rank"),
}  # fmt: skip


def one_pair(runs: list[RunSummary], choice: Choice, order: np.ndarray) -> None:
    """A caption and its image, and what either reads, run beside run."""
    cards.heading(
        "One pair, opened",
        "Bars to the left are what the image reads, bars to the right what the caption reads: a row with both is read "
        "by both.",
    )
    count = len(backend.open_summary(runs[-1]).captions(choice.split))
    number = step_through("Number of the caption", CAPTION, order, count, "The row of the caption in its split.")
    show_sample(choice, "text", number, here="concepts")
    for position, (run, column) in enumerate(zip(runs, st.columns(len(runs), gap="large"), strict=True)):
        with column:
            cards.label(run.name)
            rows, shared, numbers = concepts.pair(run, choice.split, number, STRONGEST)
            rank = int(backend.open_summary(run).ranks(choice.split)["t2i"][number]) + 1
            cards.tiles(
                [
                    cards.Tile("shared", f"{shared:.1f} %", "of the attention", "shared"),
                    cards.Tile("image reads", f"{numbers['image']:.1f}", "concepts", "concepts read"),
                    cards.Tile("caption reads", f"{numbers['text']:.1f}", "concepts", "concepts read"),
                    cards.Tile("rank", f"{rank:,}", "of its image, both branches", "rank"),
                ],
                compact=True,
            )
            figure = charts.side_by_side(rows, charts.tone(theme()))
            downloads.chart(figure, f"pair-{position}", f"concepts of the pair {position + 1}")
            shown = rows[["word", "kind", "image", "text"]]
            downloads.table(shown, f"concepts-caption-{number}-{run.name}")


def readers(runs: list[RunSummary], choice: Choice, word: str) -> None:
    """The samples that read the chosen concept most."""
    cards.heading(f"Who reads “{word}” most", "Place, and the share of the sample’s attention that the concept has.")
    for run in runs:
        names = concepts.words(run, choice.split)
        if len(runs) > 1:
            cards.label(run.name)
        if word not in names:
            cards.note(f"“{word}” is not a concept of this run.")
            continue
        row = concepts.table(run, choice.split).iloc[names.index(word)]
        cards.note(
            f"In {row['count']:,} training captions ({row['forms']}). It has {row['image']:.2f} % of the images’ "
            f"attention and {row['text']:.2f} % of the captions’."
        )
        for side, column in zip(SIDES, st.columns(2, gap="large"), strict=True):
            with column:
                _readers(run, choice, names.index(word), side)


def _readers(run: RunSummary, choice: Choice, concept: int, side: str) -> None:
    found = concepts.readers(run, choice.split, concept, side, READERS)
    if not len(found):
        cards.empty(f"No {'image' if side == 'image' else 'caption'} reads it at all.", "Choose another concept.")
        return
    opened = backend.open_summary(run)
    captions, first = opened.captions(choice.split), opened.first_captions(choice.split)
    items = []
    for place, (sample, share) in enumerate(found[["sample", "attention"]].to_numpy().tolist(), start=1):
        number, pictured = int(sample), side == "image"
        text = int(first[number]) if pictured else number
        here = (("open", links.concepts(choice, text)),) if text >= 0 else ()
        where = here if pictured else here + links.of_sample(choice, side, number, here="concepts")
        picture = backend.thumbnail(run, choice.split, number, 160) if pictured else None
        words = "" if pictured else captions[number]
        items.append(cards.Result(place, float(share), False, words, picture, pictured, (), where, "attention"))
    cards.results(items)


def all_concepts(runs: list[RunSummary], split: str) -> None:
    """Every concept of the last run with what reads it."""
    run = runs[-1]
    cards.heading(
        f"All concepts of {run.name}" if len(runs) > 1 else "All concepts", "A click on a row chooses the concept."
    )
    table = concepts.table(run, split).assign(word=concepts.words(run, split))
    table = table.sort_values("read", ascending=False, kind="stable", ignore_index=True)

    def picked() -> None:
        rows = (st.session_state.get("concepts-table") or {}).get("selection", {}).get("rows", [])
        if rows and 0 <= rows[0] < len(table):
            put(CONCEPT, str(table["word"].iloc[rows[0]]))

    config = {
        "word": st.column_config.TextColumn("concept", width=110),
        "kind": st.column_config.TextColumn("kind", width=80),
        "image": st.column_config.NumberColumn("images’ attention, %", format="%.2f", help=tip("attention"), width=135),
        "text": st.column_config.NumberColumn("captions’, %", format="%.2f", help=tip("attention"), width=95),
        "count": st.column_config.NumberColumn("training captions", format="%d", width=115),
        "reads": st.column_config.NumberColumn("reads", format="%d", help=tip("concept edge"), width=65),
        "read_by": st.column_config.NumberColumn("read by", format="%d", help=tip("concept edge"), width=70),
        "forms": st.column_config.TextColumn("words that stand for it", width=220),
    }
    st.dataframe(
        table[list(config)], hide_index=True, height=330, column_config=config, key="concepts-table",
        on_select=picked, selection_mode="single-row",
    )  # fmt: skip
    downloads.table(table.drop(columns="read"), f"concepts-{run.name}-{split}")
