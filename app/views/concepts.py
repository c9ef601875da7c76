"""The Concepts page: the graph, numbers of concepts per sample, disagreements, one pair, top readers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, questions
from app.address import put
from app.ask import BOTH, Modality, Run, RunSummary, ask, concept_attention, concepts
from app.choice import UNITS, Choice
from app.components import cards, downloads
from app.components.controls import choose_one, choose_run, pick, row, side_by_side, whole_number
from app.components.run_names import run_label
from app.components.samples import (
    SampleList,
    note_sample,
    note_slice,
    sample_card,
    sample_table,
    step_samples,
)
from app.components.selection import selected_points
from app.components.table import Table, columns_of, plain_table, rows_table
from app.components.theme import tone
from app.components.unavailable import runs_with

CONCEPT = "concept"
CAPTION = "concept-caption"
LOOK = "concepts-of"
LOOKS = {"words": "Concepts", "pairs": "Images and captions"}
MOST_SHOWN = 60
USUAL = 40
STRONGEST = 8
READERS = 5
LITTLE = 2.0  # percentage points of shared attention above chance
AT_CHANCE = "these concepts do not tell pairs apart"
PARTS = {"strong": "Strongest concepts", "around": "One neighbourhood"}
BY: dict[concepts.Strength, str] = {"captions": "Captions", "edges": "Edges", "read": "Attention"}
KINDS = {"": "All", "object": "Objects", "property": "Properties", "motion": "Motions"}
DISAGREEMENTS = columns_of("disagreements")
COLUMNS = columns_of("concepts")
AMOUNTS = columns_of("concepts attended to")
PAIR = columns_of("concepts of a pair")


def show(choice: Choice) -> None:
    lacking = cards.HOW_TO_READ["without concepts"]
    runs = runs_with(choice, lambda run, split: ask(Run.concepts, run, split) is not None, lacking)
    if not runs:
        return
    note_sample(runs[-1], choice.split, "attended")
    amounts(runs, choice)
    linked = "pairs" if CAPTION in st.query_params else "words"
    if choose_one("Look at", LOOKS, LOOK, default=linked) == "pairs":
        one_pair(runs, choice, disagreements(runs, choice))
    else:
        readers(runs, choice, graphs(runs, choice))
        all_concepts(runs, choice.split)


def names_of(run: RunSummary, split: str) -> list[str]:
    return ask(concept_attention.view_of, run, split).names


def graphs(runs: Sequence[RunSummary], choice: Choice) -> str:
    """Draw the concept graph of every run, once if they share it; return the chosen concept."""
    split = choice.split
    cards.heading("Concept graph")
    by: concepts.Strength = "captions"
    kind = ""
    with row():
        part = choose_one("Show", PARTS, "part", cards.tip("concept edge"))
        if part == "strong":
            by = choose_one("Strongest by", BY, "by", cards.tip("concept strength"))
            kind = choose_one("Kind", KINDS, "kind")

    with row():
        last = ask(questions.concept_table, runs[-1], split)
        ordered = [names_of(runs[-1], split)[i] for i in np.argsort(-last["read"].to_numpy(), kind="stable")]
        options = dict.fromkeys(ordered + [word for run in runs for word in names_of(run, split)])
        word = pick("Concept", options, CONCEPT, 220, help=cards.tip("concept"))
        count = whole_number("At most", (5, MOST_SHOWN), USUAL, "count", 120, step=5)

    views = [ask(concept_attention.view_of, run, split) for run in runs]
    same = all(view.words == views[0].words and view.edges().equals(views[0].edges()) for view in views)
    if len(runs) == 2 and by != "read" and same:
        cards.note("Both runs have the same graph, because it is built from the training captions.")
        runs = runs[-1:]

    for position, run in enumerate(side_by_side(runs)):
        if len(runs) > 1:
            run_label(choice, run)
        names = names_of(run, split)
        number = names.index(word) if word in names else None
        if part == "around" and number is None:
            cards.empty(f"“{word}” is not a concept of this run.", "Choose another concept.")
            continue
        shown = questions.GraphPart(number, part == "around", by, kind, count)
        _graph(run, split, shown, position)

    return word


def _graph(run: RunSummary, split: str, part: questions.GraphPart, position: int) -> None:
    names = names_of(run, split)
    number = part.concept
    graph, total = ask(questions.concept_graph, run, split, part)
    key = f"concept-graph-{position}"
    figure = charts.concept_graph(graph.nodes, graph.edges, number, tone())
    alt = f"concept graph {position + 1}"
    downloads.chart(figure, key, alt, on_select=partial(_pick, key, names), selection_mode="points")
    nodes = set(graph.nodes["concept"])
    isolated = len(nodes - set(graph.edges["concept"]) - set(graph.edges["neighbour"]))
    note = f"{len(nodes):,} of {total:,} concepts and the {len(graph.edges):,} edges between them."
    if isolated:
        note += f" The {isolated:,} at the bottom have no edge to the others shown."
    if number is not None and number not in nodes:
        note += f" “{names[number]}” is not among them; “{PARTS['around']}” shows it."

    cards.note(note)
    words = {end: [names[i] for i in graph.edges[end]] for end in ("concept", "neighbour")}
    downloads.table(graph.edges.assign(**words), f"concept-edges-{run.name}-{split}")


def _pick(key: str, names: list[str]) -> None:
    points = selected_points(st.session_state.get(key))
    if points and 0 <= points[0] < len(names):
        put(CONCEPT, names[points[0]])


def amounts(runs: Sequence[RunSummary], choice: Choice) -> None:
    """Draw the number of concepts that images and captions (of the slice) attend to, and the attention they share."""

    def attention(run: RunSummary, side: Modality) -> concepts.AttentionSummary:
        whole = ask(concept_attention.attention_of, run, choice.split, side)
        rows = choice.inside(side, whole.samples)
        of_samples = ("samples", "perplexity", "first", "share")
        return replace(whole, **{name: getattr(whole, name)[rows] for name in of_samples})

    note_slice(choice, "text")
    if not all(len(attention(runs[-1], side).samples) for side in BOTH):
        fact = "The slice contains none of these captions"
        cards.missing(fact, "clear it, or write another one in the sidebar")
        return
    amounts_of = []
    notes = [cards.HOW_TO_READ["concepts of a sample"]]
    for run in runs:
        image, text = (attention(run, side) for side in BOTH)
        shared = ask(concept_attention.shared_attention_of, run, choice.split)
        total = len(image.mean)
        rows = choice.inside("text", shared.texts)
        share, by_chance = (100 * values[rows].mean() for values in (shared.own, shared.other))
        named = (image.named, text.named, total)
        amounts_of.append((run.name, _typical(image), _typical(text), *named, share, by_chance))
        if share - by_chance < LITTLE:
            alike = f"an image shares {share:.1f}% of its attention with its own captions, {by_chance:.1f}% with others"
            cards.answer(f"{run.name}: {AT_CHANCE}: {alike}")
            notes.append(f"{run.name}: {cards.HOW_TO_READ['concepts at chance']}")
        if not ask(concept_attention.view_of, run, choice.split).whole:
            notes.append("Only the strongest concepts of every sample are stored; shares refer to these.")
    name, *_, share, by_chance = amounts_of[-1]
    with_own = f"shares {share:.0f}% of its attention with its own captions, {by_chance:.0f}% with others"
    cards.answer(f"In {name} an image {with_own}")
    numbers = {UNITS[side]: {run.name: attention(run, side).perplexity for run in runs} for side in BOTH}
    figures = charts.concepts_read(numbers, tone())
    for side, figure in side_by_side(zip(BOTH, figures, strict=True)):
        cards.label(UNITS[side].capitalize())
        downloads.chart(figure, f"amount-{side}", f"concepts that {UNITS[side]} attend to")
    plain_table(pd.DataFrame(amounts_of, columns=list(AMOUNTS)), AMOUNTS, "concept-amounts", "runs")
    cards.note(" ".join(notes))


def _typical(attention: concepts.AttentionSummary) -> str:
    return "{1:.1f} ({0:.1f} to {2:.1f})".format(*np.percentile(attention.perplexity, [5, 50, 95]))


def disagreements(runs: Sequence[RunSummary], choice: Choice) -> np.ndarray:
    """Draw captions ranked by the attention they share with their image; return the order of all captions."""
    cards.heading("Where an image and its caption disagree")
    with row():
        run = choose_run("Run", runs, "pairs-of")
        orders = {"least": "Least shared", "most": "Most shared"}
        first = choose_one("Order", orders, "first", cards.tip("shared"))

    table = ask(concept_attention.disagreements, run, choice.split)
    table = table if first == "least" else table.iloc[::-1]
    captions = table["caption"].to_numpy()
    values = table.drop(columns=["caption", "image"])
    file = f"concepts-{choice.split}-shared-{run.name}"
    nothing = ("The slice contains no caption.", "Clear the slice in the sidebar.")
    of_run = choice.alone(run)
    listed = SampleList(
        "text", captions, values, DISAGREEMENTS, "", CAPTION, file, 420, narrow=False, nothing=nothing
    )
    return sample_table(of_run, listed)


def one_pair(runs: Sequence[RunSummary], choice: Choice, order: np.ndarray) -> None:
    how = "Bars to the left are concepts that the image attends to, bars to the right those of the caption."
    cards.heading("One pair in detail", how, detail=True)
    number = step_samples(choice, "text", CAPTION, order)
    for position, run in enumerate(side_by_side(runs)):
        run_label(choice, run)
        rows, shared, perplexity = ask(concept_attention.pair_concepts, run, choice.split, number, STRONGEST)
        rank = ask(Run.rank_of, run, choice.split, "t2i", number) + 1
        numbers = pd.DataFrame([{"shared": shared, **perplexity, "rank": rank}])
        plain_table(numbers, PAIR, f"pair-numbers-{position}", "numbers of the pair")
        figure = charts.side_by_side(rows, tone())
        downloads.chart(figure, f"pair-{position}", f"concepts of the pair {position + 1}")
        downloads.table(rows[["word", "kind", "image", "text"]], f"concepts-caption-{number}-{run.name}")


def readers(runs: Sequence[RunSummary], choice: Choice, word: str) -> None:
    cards.heading(f"Top readers of “{word}”", "Rank, and the concept’s share of the sample’s attention.")
    for run in runs:
        names = names_of(run, choice.split)
        if len(runs) > 1:
            run_label(choice, run)
        if word not in names:
            cards.note(f"“{word}” is not a concept of this run.")
            continue
        concept = ask(questions.concept_table, run, choice.split).iloc[names.index(word)]
        cards.note(cards.HOW_TO_READ["one concept"].format(concept=concept))
        for side in side_by_side(BOTH, "small"):
            _readers(run, choice, names.index(word), side)


def _readers(run: RunSummary, choice: Choice, concept: int, side: Modality) -> None:
    view = ask(concept_attention.view_of, run, choice.split)
    table = view.readers(concept, side, top=READERS, within=choice.samples(side))
    table = table[table["attention"] > 0]
    if not len(table):
        reader = f"{'image' if side == 'image' else 'caption'}{' of the slice' if choice.slice else ''}"
        cards.empty(f"No {reader} attends to this concept.", "Choose another concept.")
        return
    items = []
    shares = table[["sample", "attention"]].to_numpy().tolist()
    for rank, (sample, share) in enumerate(shares, start=1):
        card = sample_card(choice, run, (side, int(sample)), (rank, share), pictured=side == "image")
        items.append(replace(card, term="attention"))
    cards.results(items)


def all_concepts(runs: Sequence[RunSummary], split: str) -> None:
    run = runs[-1]
    heading = f"All concepts of {run.name}" if len(runs) > 1 else "All concepts"
    cards.heading(heading)
    table = ask(questions.concept_table, run, split).assign(word=names_of(run, split))
    table = table.sort_values("read", ascending=False, kind="stable", ignore_index=True)
    words = table["word"].tolist()
    word = st.session_state.get(CONCEPT)
    current = words.index(word) if word in words else None
    listed = Table(table, COLUMNS, "concepts-table", "concepts", height=260)
    rows_table(listed, current, lambda row: put(CONCEPT, words[row]))
    downloads.table(table.drop(columns="read"), f"concepts-{run.name}-{split}")
