"""The Retrieval page: a choice of queries, then one with its results: a sample of the split, a text or a picture."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import judging, questions
from app.address import bound, put, value_of
from app.ask import (
    InputError,
    Modality,
    Run,
    RunSummary,
    ask,
    causes,
    heat_maps,
    keyed,
    likely_matches,
    retrieval,
)
from app.choice import OTHER, QUERIES, Choice
from app.components import cards, links, opened
from app.components.answers import not_ranked, retrieves
from app.components.controls import FIRST, choose_one, row, side_by_side, switch
from app.components.heat_maps import Explained, show_heat_maps
from app.components.reviewing import review_menu
from app.components.run_names import run_label
from app.components.samples import note_slice, sample_card, search_words, step_samples
from app.components.selection import matching
from app.components.table import Column, Table, rows_table
from app.components.workplace import list_and_detail
from app.views.retrieval import hubs
from app.views.retrieval.judged import choose_source, judged_candidates, unlabelled_matches
from app.views.retrieval.lists import Queries, Section
from app.views.retrieval.margins import near_misses
from app.views.retrieval.ranks import compare_runs, ranks_of_runs

RESULTS = 10
BEST = 5  # results shown at first
LIKELY = "likely match (a guess)"
UNJUDGED = "not judged"  # which is not the same as wrong
FORMATS = ["jpg", "jpeg", "png", "webp"]
MOST_MEGABYTES = 10
PICTURE_SIZE = 280
SOURCES = {"split": "From the split", "text": "Free text", "picture": "Picture"}
WITHOUT_TEXT = {source: label for source, label in SOURCES.items() if source != "text"}
Search = Callable[[RunSummary], pd.DataFrame | None]


def question(choice: Choice | None) -> str:
    if choice is None:
        return "Which run?"
    if choice.second is None:
        return f"How well does {choice.first.name} retrieve?"
    if choice.between:
        return f"Which of these {len(choice.runs)} runs retrieves best?"
    return f"Which run retrieves better, {choice.first.name} or {choice.second.name}?"


def answer(choice: Choice) -> str:
    """Say which run retrieves better, by the direction and the rank of the controls below."""
    shown = value_of("direction", "text")  # the widget's value, or its label in the address
    ways = (name for name, text in links.DIRECTIONS.items() if shown in (name, text))
    modality: Modality = next(ways, "text")
    at = value_of("at", "1")
    return retrieves(choice, modality, int(at) if at in FIRST else 1)


def show(choice: Choice) -> None:
    cards.answer(answer(choice))
    controls = row()
    with controls:
        offered = SOURCES if any(_ranks_texts(choice, run) for run in choice.runs) else WITHOUT_TEXT
        source = choose_one("Query", offered, "ask")
        modality = choose_one("Direction", links.DIRECTIONS, "direction") if source == "split" else "text"
    if source == "split":
        query_from_split(choice, modality, controls)
    elif source == "text":
        query_with_text(choice)
    else:
        query_with_picture(choice)


def _ranks_texts(choice: Choice, run: RunSummary) -> bool:
    """True if a run can encode a free text, or has texts that were imported with it."""
    has_model = run.has_best and not run.unknown
    return has_model or "towers" in run.documents or bool(ask(Run.saved_queries, run, choice.split))


def query_from_split(choice: Choice, modality: Modality, controls: DeltaGenerator) -> None:
    """Draw the split's own queries beside one of them in detail, and below them which failed and why."""
    source = choose_source(choice, controls)
    with controls:
        at = int(choose_one("Hit within the first", FIRST, "at", cards.tip("R@K")))
        views = {"ranks": "Rank changes" if len(choice.runs) == 2 else "Ranks", "near": "Near misses"}
        views |= {"hubs": "Hubs"} | ({"judged": "Judgements"} if source is not None else {})
        view = choose_one("View", views, "look", f"{cards.tip('margin')} {cards.tip('hub')}")
        shown = Queries(choice, modality, at)
        section = _section(shown, view, source)
    note_slice(choice, modality)
    failed = choice.ask(Run.ranks)[QUERIES[modality]] >= at
    target = f"query-{modality}"

    def draw_detail(order: np.ndarray) -> None:
        if opened.among(target, order):
            number = step_samples(choice, modality, target, order, failed)
            one_query(shown, number, source)

    list_and_detail(choice, section.draw_list, draw_detail)
    section.draw_figures()


def _section(shown: Queries, view: str, source: judging.Source | None) -> Section:
    if view == "near":
        return near_misses(shown)
    if view == "hubs":
        return hubs.hubs_of_runs(shown)
    if view == "judged" and source is not None:
        return unlabelled_matches(shown, source)
    if len(shown.choice.runs) == 2 and not not_ranked(shown.choice):
        return compare_runs(shown)
    return ranks_of_runs(shown)


def one_query(shown: Queries, number: int, source: judging.Source | None) -> None:
    """Draw why every run misses a sample of the split, its results, and heat maps of the sample with them."""
    choice = shown.choice
    modality = shown.modality
    frames = "Green frames are true matches."
    if source is not None:
        frames += f" Dashed frames are unlabelled matches, judged by {source.label}."
    cards.heading("One query in detail", detail=True, frames=frames)
    ranks = choice.ask_each(Run.rank_of, QUERIES[modality], number)
    notes = {
        name: "match not listed"
        if rank == retrieval.UNLISTED
        else f"match at rank {retrieval.place_in_words(rank)}"
        for name, rank in ranks.items()
    }
    for run in choice.runs:
        if ranks[run.name] >= shown.at:
            notes[run.name] += f" · {_why(shown, run, number)}"
    switch("Mark likely unlabelled matches", "guess", "likely")

    def search(run: RunSummary) -> pd.DataFrame:
        return ask(Run.search, run, number, split=choice.split, modality=modality, top=RESULTS)

    show_results(choice, modality, search, notes, number)
    show_heat_maps(choice, Explained((modality, number), search, match="True match"))


def _why(shown: Queries, run: RunSummary, number: int) -> str:
    """Say why a run misses a sample, or why that is unknown."""
    split = shown.choice.split
    if unknown := ask(causes.why_no_causes, run, split):
        return unknown
    question = judging.asked(run, split, shown.direction, shown.at).question
    known = judging.known_about(run, split)
    misses = keyed(f"{question}", ask(causes.causes_of_run, run, split, question, known))
    sentence = ask(questions.why, run, split, misses, known, number)
    return sentence or "Why is not known: the causes of a large split are found for a sample of its queries."


def show_results(
    choice: Choice, modality: Modality, search: Search, notes: Mapping[str, str], query: int | None = None
) -> None:
    """Draw every run's ten best candidates, pictures in one row per run; `notes` follow the runs' names. `search`
    returns None if it has explained why there are none. If `query`, a sample of the split, is given, its results can
    be judged."""
    pictured = modality == "text"
    places = side_by_side(choice.runs, "small") if not pictured else iter(choice.runs)
    for run in places:
        run_label(choice, run, notes.get(run.name, ""))
        try:
            candidates = search(run)
        except (InputError, OSError, ImportError) as error:
            cards.empty("This run cannot answer this query.", str(error))
            continue
        if candidates is None:
            continue
        items = _result_cards(choice, run, (modality, query), candidates)
        cards.results(items[:BEST])
        if len(items) > BEST:
            with st.expander(f"Ranks {BEST + 1} to {len(items)}"):
                cards.results(items[BEST:])


def _result_cards(
    choice: Choice, run: RunSummary, query: tuple[Modality, int | None], candidates: pd.DataFrame
) -> list[cards.Result]:
    modality, number = query
    judged = judged_candidates(choice, run, modality, number)
    likely = set[int]()
    if number is not None and st.session_state.get("guess"):
        likely = _likely(choice, run, modality, number) - judged

    grades = None
    also_right: Mapping[int, str] = {}
    if number is not None:
        grades = ask(Run.grades, run, choice.split, QUERIES[modality], number)
        also_right = ask(retrieval.also_right, run, choice.split, QUERIES[modality], number)

    items = []
    for result in candidates.to_dict("records"):
        candidate = int(result["candidate"])
        placed = (int(result["place"]), float(result["score"]))
        card = sample_card(choice, run, (OTHER[modality], candidate), placed, pictured=modality == "text")
        marked = replace(
            card,
            match=bool(result["match"]),
            judged=candidate in judged,
            notes=(
                *((also_right[candidate],) if candidate in also_right else ()),
                *((LIKELY,) if candidate in likely else ()),
                *_grade_note(grades, candidate),
            ),
            review=review_menu(choice, modality, number, candidate),
        )
        items.append(marked)

    return items


def _grade_note(grades: Mapping[int, int] | None, candidate: int) -> tuple[str, ...]:
    """Return a note on what the judges of a search log say about a result; none in a split of captions."""
    if grades is None:
        return ()
    return (f"grade {grades[candidate]}",) if candidate in grades else (UNJUDGED,)


def _likely(choice: Choice, run: RunSummary, modality: Modality, query: int) -> set[int]:
    guesses = likely_matches(run, choice.split, QUERIES[modality], query)
    if guesses is None:
        return set()
    best = ask(questions.best_candidates, run, choice.split, modality)[query]
    return set(best[guesses.likely()[query]].tolist())


def query_with_text(choice: Choice) -> None:
    """Rank the split's pictures by a sentence; imported runs answer the sentences saved with them."""
    example = "a dog runs through shallow water"
    icon = ":material/search:"
    query = str(st.text_input("Text query", **bound("text"), placeholder=example, icon=icon) or "").strip()
    saved = [query for queries in choice.ask_each(Run.saved_queries).values() for query in queries]
    if saved:
        _saved_queries(list(dict.fromkeys(saved)), query)
    if not query:
        fix = "Type a sentence and press Enter. Every run then ranks the pictures of the split."
        cards.empty("No query yet.", fix)
        return
    show_results(choice, "text", lambda run: _pictures_of(choice, run, query), {})

    def search(run: RunSummary) -> pd.DataFrame:
        return ask(Run.search, run, query, split=choice.split, modality="text", top=RESULTS)

    show_heat_maps(choice, Explained(("text", query), search))


def _saved_queries(saved: list[str], query: str) -> None:
    """Draw the texts whose embeddings were imported; a click on a row queries with one."""
    cards.heading("Saved queries")
    rows = matching(saved, search_words("query-words", "in the queries"))
    if not len(rows):
        cards.empty("No saved query contains all of these words.", "Use fewer words, or clear the field.")
        return
    table = pd.DataFrame({"query": [saved[row] for row in rows]})
    columns = {"query": Column("query")}
    current = saved.index(query) if query in saved else -1
    listed = Table(table, columns, "saved-queries", "saved queries", rows, height=240)
    rows_table(listed, current, lambda row: put("text", saved[row]))


def _pictures_of(choice: Choice, run: RunSummary, query: str) -> pd.DataFrame:
    """Find the pictures nearest to a text; name the words that the run does not know."""
    saved = query in ask(Run.saved_queries, run, choice.split)
    if not saved:
        ask(heat_maps.load_encoders, run, choice.split)
    candidates = ask(Run.search, run, query, split=choice.split, modality="text", top=RESULTS)
    unknown = [] if saved else ask(Run.unknown_words, run, query)
    if unknown:
        words = ", ".join(unknown)
        cards.note(f"Words that this run does not know: {words}. The ranking ignores their meaning.")
    return candidates


def query_with_picture(choice: Choice) -> None:
    """Rank captions by a picture, if a run can encode it; else by a nearly equal picture of the split, if any."""
    upload = st.file_uploader("Picture", type=FORMATS, key="picture", max_upload_size=MOST_MEGABYTES)
    cards.note("The picture stays on this machine and is not part of a copied link.")
    if upload is None:
        most = f"Choose a JPEG, PNG or WEBP file of at most {MOST_MEGABYTES} MB."
        cards.empty("No picture yet.", f"{most} Every run then ranks the captions.")
        return
    content = upload.getvalue()
    try:
        picture = questions.jpeg(questions.decode(content, upload.name, size=PICTURE_SIZE))
    except InputError as error:
        cards.empty("This file cannot be used.", str(error))
        return
    st.html(cards.sample_html(cards.Sample(upload.name, picture)))
    show_results(choice, "image", lambda run: _captions_of(choice, run, content), {})

    def search(run: RunSummary) -> pd.DataFrame:
        return ask(questions.search_picture, run, choice.split, content, RESULTS)

    show_heat_maps(choice, Explained(("image", content), search))


def _captions_of(choice: Choice, run: RunSummary, content: bytes) -> pd.DataFrame | None:
    """Find the captions nearest to a picture or, if a run cannot encode it, to a nearly equal picture of the split, for
    which no matches are marked. None if there is no such picture."""
    split = choice.split
    if ask(Run.reads_pictures, run, split):
        cards.note("This run encodes the picture from its pixels.")
        ask(heat_maps.load_encoders, run, split, pictures=True)
        return ask(questions.search_picture, run, split, content, RESULTS)

    kind = "imported" if run.imported else "features" if ask(Run.scores, run, split) is None else "scores"
    similar = ask(questions.look_alike, run, split, content)
    reason = cards.HOW_TO_READ[f"picture of {kind}"]
    nearest = cards.HOW_TO_READ["picture nearly equal"].format(similar=similar, alike=retrieval.ALIKE)
    if similar.likeness < retrieval.ALIKE:
        fix = f"{reason} No picture of the split is nearly equal to yours: {nearest}."
        cards.empty("There is no answer.", fix)
        return None

    image = similar.image
    cards.note(f"{reason} Using image {image} as the query instead: {nearest}.")
    title = f"Image {image} · {ask(Run.image_names, run, split)[image]}, used as the query"
    more = cards.opening_html("Open this image", "image", image)
    picture = ask(Run.picture, run, split, image)
    st.html(cards.sample_html(cards.Sample(title, picture, image=image, more=more)))
    return ask(Run.search, run, image, split=split, modality="image", top=RESULTS).assign(match=False)
