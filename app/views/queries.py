"""One query and its results, run beside run: a sample of the split, a free text, a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import judging, questions
from app.ask import (
    Direction,
    InputError,
    Modality,
    Run,
    RunSummary,
    ask,
    ask_both,
    decode,
    has_embeddings,
    heat_maps,
    jpeg,
    likely_matches,
    retrieval,
)
from app.choice import OTHER, QUERIES, Choice, bound, put
from app.components import cards, links
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.reviewing import menu_html
from app.components.selection import matching
from app.components.table import Column, rows_table
from app.views.heat_maps import Pairs, candidate_pairs, show_heat_maps
from app.views.samples import sample_card, search_words

KEY = "judged-by"


def choose_judgements(choice: Choice, controls: DeltaGenerator) -> judging.Source | None:
    """The source of judgements: a control where there is more than one; says which are damaged."""
    sources = judging.sources(choice.last, choice.split)
    sound = [source for source in sources if not source.fault]
    if len(sound) > 1:
        with controls:
            choose_one("Judged by", {source.key: source.label for source in sound}, KEY, tip("judged"))
    if damaged := [(source.label, source.fault) for source in sources if source.fault]:
        cards.faults(damaged)
    return judged_by(choice)


def judged_by(choice: Choice) -> judging.Source | None:
    """The chosen source of judgements; None where no sound one speaks of this split."""
    sound = [source for source in judging.sources(choice.last, choice.split) if not source.fault]
    chosen = st.session_state.get(KEY)
    return next((source for source in sound if source.key == chosen), sound[0] if sound else None)


def judged_candidates(choice: Choice, run: RunSummary, modality: Modality, query: int | None) -> set[int]:
    """The results of a sample that were judged to be matches though no label names them."""
    source = judged_by(choice) if query is not None else None
    if source is None:
        return set()
    direction, analysis = QUERIES[modality], ask(Run.analysis, run, choice.split)
    best = (analysis.text_best if modality == "text" else analysis.image_best)[query]
    return {int(candidate) for candidate in best[judging.judged_results(source, run, direction)[query]]}


def only_judged(choice: Choice, direction: Direction, at: int, queries: pd.DataFrame) -> pd.DataFrame:
    """The queries, or, when asked for, those that the last run answers by the judgements though not by the labels."""
    source = judged_by(choice)
    if source is None or not st.toggle(
        f"Only judged right in {cards.literal(choice.last.name)}",
        False,
        help=tip("judged"),
        **bound("judged"),
    ):
        return queries
    cards.note(
        f"Queries without a labelled match within the first {at}, but with one judged by {source.label}."
    )
    return queries[judged_right(source, choice, direction, at)[queries["query"].to_numpy()]]


def judged_right(source: judging.Source, choice: Choice, direction: Direction, at: int) -> np.ndarray:
    """(Q,) bool: the last run has no label among the first `at` results, but a judged match."""
    judged = judging.judged_results(source, choice.last, direction)
    ranks = ask(Run.ranks, choice.last, choice.split)[direction]
    return np.asarray((ranks >= at) & judged[:, :at].any(1))


RESULTS = 10
LIKELY = "likely match (a guess)"
Search = Callable[[RunSummary], pd.DataFrame | None]


def side_by_side(
    choice: Choice,
    modality: Modality,
    search: Search,
    notes: Mapping[str, str] | None = None,
    query: int | None = None,
) -> None:
    """Every run's ten best candidates; `notes` stand below a run's name. `search` returns None where it has said
    why there are none. Results of a sample of the split, `query`, can be judged."""
    for run, column in zip(choice.runs, st.columns(len(choice.runs), gap="small"), strict=True):
        with column:
            cards.label(run.name, (notes or {}).get(run.name, ""))
            try:
                candidates = search(run)
            except (InputError, OSError, ImportError) as error:
                cards.empty("This run cannot answer this query.", str(error))
                continue
            if candidates is not None:
                results(choice, run, modality, candidates, query)


def results(
    choice: Choice, run: RunSummary, modality: Modality, candidates: pd.DataFrame, query: int | None = None
) -> None:
    """Ranked candidates with links to the other pages; `modality` is the query's."""
    other = OTHER[modality]
    judged = judged_candidates(choice, run, modality, query)
    likely: set[int] = set()
    if query is not None and st.session_state.get("guess"):
        likely = set(_likely(choice, run, modality, query)) - judged
    cards.results(
        [
            sample_card(
                run,
                choice.split,
                other,
                int(row["candidate"]),
                int(row["place"]),
                float(row["score"]),
                match=bool(row["match"]),
                links=links.of_sample(choice, other, int(row["candidate"])),
                pictured=other == "image",
                notes=(LIKELY,) if int(row["candidate"]) in likely else (),
                review=review_menu(choice, modality, query, int(row["candidate"])),
                judged=int(row["candidate"]) in judged,
            )
            for row in candidates.to_dict("records")
        ]
    )


def _likely(choice: Choice, run: RunSummary, modality: Modality, query: int) -> list[int]:
    """The best results of a query that are probably matches although no label names them."""
    guesses = likely_matches(run, choice.split, QUERIES[modality], query)
    if guesses is None:
        return []
    best = ask(questions.best_candidates, run, choice.split, modality)[query]
    return [int(candidate) for candidate in best[guesses.likely()[query]]]


def review_menu(choice: Choice, modality: Modality, query: int | None, candidate: int) -> str:
    """The menu that judges a query with a candidate; nothing without a query of the split."""
    if query is None:
        return ""
    return menu_html(choice, *((candidate, query) if modality == "text" else (query, candidate)))


def rank_change(choice: Choice, direction: Direction, number: int) -> dict[str, str]:
    """Metrics of one query's ranks in the first and the last run; returns a note below every run's name."""
    ranks = {run.name: int(ask(Run.ranks, run, choice.split)[direction][number]) for run in choice.runs}
    notes = {name: "match at rank " + ("–" if rank < 0 else f"{rank + 1:,}") for name, rank in ranks.items()}
    if choice.second is None or min(ranks.values()) < 0:
        return notes
    first, second = ranks[choice.first.name], ranks[choice.second.name]
    changes = ask_both(retrieval.compare, choice.first, choice.second, choice.split, at=1)
    gains = changes["change"].to_numpy()[(changes["direction"] == direction).to_numpy()]
    as_large = int((np.abs(gains) >= abs(first - second)).sum())
    note = "the same rank" if first == second else f"{as_large:,} of {len(gains):,} changed by as much"
    colour = "off" if first == second else "green" if second < first else "red"
    cards.metrics(
        [
            cards.Metric(f"rank in {choice.first.name}", f"{first + 1:,}", "1 is best", "rank"),
            cards.Metric(f"rank in {choice.second.name}", f"{second + 1:,}", "1 is best", "rank"),
            cards.Metric("gain", f"{first - second:+,}", "", "gain", note, colour, "off"),  # type: ignore[arg-type]
        ]
    )
    return notes


FORMATS = ["jpg", "jpeg", "png", "webp"]
MOST_MEGABYTES = 10
PICTURE_SIZE = 280


def query_with_text(choice: Choice) -> None:
    """Rank the split's pictures by a sentence; imported runs answer the sentences saved with them."""
    text = st.text_input(
        "Text query",
        **bound("text"),
        placeholder="a dog runs through shallow water",
        icon=":material/search:",
    )
    query = str(text or "").strip()
    saved = list(dict.fromkeys(q for run in choice.runs for q in ask(Run.saved_queries, run, choice.split)))
    if saved:
        _saved_queries(saved, query)
    if not query:
        cards.empty(
            "No query yet.",
            "Type a sentence and press Enter. Every run then ranks the pictures of the split.",
        )
        return
    side_by_side(choice, "text", lambda run: _pictures_of(choice, run, query))

    def pairs(run: RunSummary) -> Pairs:
        candidates = ask(Run.search, run, query, split=choice.split, modality="text", top=RESULTS)[
            "candidate"
        ].tolist()
        return candidate_pairs(choice, run, "text", query, candidates)

    show_heat_maps(choice, "Result", pairs)


def _saved_queries(saved: list[str], query: str) -> None:
    """The texts whose embeddings were imported; a click on a row asks one."""
    cards.heading(
        "Saved queries", "Their embeddings were imported with the run. Click on a row to ask with it."
    )
    words = search_words("query-words", "of the queries")
    rows = matching(saved, words)
    if not len(rows):
        cards.empty("No saved query contains all of these words.", "Use fewer words, or clear the field.")
        return
    table = pd.DataFrame({"query": [saved[row] for row in rows]})
    current = saved.index(query) if query in saved else -1
    rows_table(
        table,
        {"query": Column("query")},
        rows,
        "saved-queries",
        "saved queries",
        current,
        lambda row: put("text", saved[row]),
        height=240,
    )


def _pictures_of(choice: Choice, run: RunSummary, query: str) -> pd.DataFrame:
    """The pictures nearest to a text, after naming the words that the run does not know."""
    if query not in ask(Run.saved_queries, run, choice.split):
        ask(heat_maps.load_encoders, run, choice.split)
    candidates = ask(Run.search, run, query, split=choice.split, modality="text", top=RESULTS)
    unknown = [] if query in ask(Run.saved_queries, run, choice.split) else ask(Run.unknown_words, run, query)
    if unknown:
        words = ", ".join(unknown)
        cards.note(f"Words this run does not know: {words}. The ranking cannot depend on their meaning.")
    return candidates


def query_with_picture(choice: Choice) -> None:
    """Rank captions by a picture, encoded where a run can; else by a nearly equal picture of the split, if any."""
    upload = st.file_uploader("Picture", type=FORMATS, key="picture", max_upload_size=MOST_MEGABYTES)
    cards.note("The picture stays on this machine and is not part of a copied link.")
    if upload is None:
        cards.empty(
            "No picture yet.",
            f"Choose a JPEG, PNG or WEBP file of at most {MOST_MEGABYTES} MB. Every run then ranks the captions.",
        )
        return
    content = upload.getvalue()
    try:
        picture = jpeg(decode(content, upload.name, size=PICTURE_SIZE))
    except InputError as error:
        cards.empty("This file cannot be used.", str(error))
        return
    cards.sample(picture, [], upload.name)
    side_by_side(choice, "image", lambda run: _captions_of(choice, run, content))

    def pairs(run: RunSummary) -> Pairs:
        candidates = ask(questions.search_picture, run, choice.split, content, RESULTS)["candidate"].tolist()
        return candidate_pairs(choice, run, "image", content, candidates)

    show_heat_maps(choice, "Result", pairs)


def _captions_of(choice: Choice, run: RunSummary, content: bytes) -> pd.DataFrame | None:
    """The captions nearest to a picture; where a run cannot encode one, those nearest to a nearly equal picture of the
    split, which match that picture and not the user's. None where there is no such picture."""
    if ask(Run.reads_pictures, run, choice.split):
        cards.note("This run encodes the picture from its pixels.")
        ask(heat_maps.load_encoders, run, choice.split, pictures=True)
        return ask(questions.search_picture, run, choice.split, content, RESULTS)
    if run.imported:
        reason = "It holds imported embeddings and no model, so it cannot encode a new picture."
    elif has_embeddings(run, choice.split):
        reason = "It reads region features from files, so it cannot encode a new picture."
    else:
        reason = "It scores pairs and stores no captions to score a new picture with."
    similar = ask(questions.look_alike, run, choice.split, content)
    nearest = (
        f"of {similar.of:,} pictures of the split, image {similar.image} is the most similar (likeness "
        f"{similar.likeness:.2f}; {retrieval.ALIKE} is needed, 1 is the same picture)"
    )
    if similar.likeness < retrieval.ALIKE:
        cards.empty(
            "There is no answer.", f"{reason} No picture of the split is nearly equal to yours: {nearest}."
        )
        return None
    cards.note(f"{reason} Using image {similar.image} as the query instead: {nearest}.")
    opened = run
    cards.sample(
        ask(Run.picture, run, choice.split, similar.image),
        [],
        f"Image {similar.image} · {ask(Run.image_names, opened, choice.split)[similar.image]}, used as the query",
        links=links.of_sample(choice, "image", similar.image),
        image=similar.image,
    )
    return ask(Run.search, run, similar.image, split=choice.split, modality="image", top=RESULTS).assign(
        match=False
    )
