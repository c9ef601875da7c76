"""Heat maps: the regions that each word of a text attends to, over the picture and as a table."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts, questions
from app.address import bound
from app.ask import InputError, Modality, Run, RunSummary, ask, heat_maps, masked_maps
from app.choice import Choice
from app.components import cards, downloads
from app.components.controls import choose_one, row, side_by_side, switch
from app.components.run_names import run_label
from app.components.table import Column, plain_table
from app.components.theme import tone

MOST_WORDS = 60
FAITHFUL = "faithful"
LABELS = {
    FAITHFUL: "The more faithful",
    "cosine": "Cosine",
    "masking": "Masking",
    "attention": "Scorer’s attention",
    "tower": "Tower’s attention",
}
UNITS = {"cosine": "cosine", "masking": "interaction"}
Pair = tuple[str, int | bytes]  # a text, and the number of an image or an uploaded picture


@dataclass(frozen=True)
class Drawn:
    """A run's heat map: its pair, its values, the way of measuring them, its words, made unique, and how faithful the
    ways of the run are, if that was measured."""

    pair: Pair
    heat: heat_maps.HeatMap
    way: heat_maps.Way
    words: list[str]
    masked: masked_maps.MaskMap | None = None

    @property
    def ends(self) -> charts.Ends:
        """The smallest and the largest value of all words, so that words can be compared."""
        return float(np.nanmin(self.heat.values)), float(np.nanmax(self.heat.values))


Pairs = Mapping[str, Pair]
Search = Callable[[RunSummary], pd.DataFrame]
Query = tuple[Modality, str | int | bytes]  # a sample's number, a free text, or an uploaded picture


@dataclass(frozen=True)
class Explained:
    """A query, and the results of every run that heat maps explain. `label`: the name of a result; `match`: that of the
    true match, "" to leave it out. `page` begins the names of the controls."""

    query: Query
    search: Search
    label: str = "Result"
    match: str = ""
    page: str = ""


def _pairs(choice: Choice, run: RunSummary, explained: Explained) -> Pairs:
    """Pair the query with each of a run's results, by rank from 1; first the true match, if it has a name."""
    modality, content = explained.query
    match = explained.match
    candidates = explained.search(run)["candidate"].tolist()
    captions = ask(Run.captions, run, choice.split)
    numbers = {str(rank): candidate for rank, candidate in enumerate(candidates, start=1)}
    if match and isinstance(content, int):
        if modality == "text":
            numbers = {match: int(ask(Run.image_of_text, run, choice.split)[content])} | numbers
        elif len(texts := choice.ask(Run.captions_of, content)):
            best = ask(Run.similarity, choice.last, [content], texts, split=choice.split)[0].argmax()
            numbers = {match: int(texts[best])} | numbers  # its best caption in the last run
    if modality == "text":
        text = captions[content] if isinstance(content, int) else str(content)
        return {label: (text, image) for label, image in numbers.items()}
    return {label: (captions[caption], content) for label, caption in numbers.items()}  # type: ignore[misc]


def show_heat_maps(choice: Choice, explained: Explained) -> None:
    """Draw, side by side, every run's heat map of one word and one of the results, or the true match."""
    if not any(choice.ask_each(heat_maps.heat_map_ways).values()):
        return

    cards.heading("Which regions does each word attend to?")
    if not switch("Show heat maps", f"{explained.page}heat", "heat map"):
        return

    pairs = dict[str, Pairs]()
    reasons = dict[str, str]()
    for run in choice.runs:
        try:
            pairs[run.name] = _pairs(choice, run, explained)
        except (InputError, OSError, ImportError) as error:
            reasons[run.name] = str(error)

    maps = _maps(choice, explained, pairs, reasons)
    word = _choose_word(list(maps.values()), f"{explained.page}word")
    ends = [drawn.ends for drawn in maps.values()]
    note = ""
    if len({drawn.way for drawn in maps.values()}) == 1:  # different ways have no common scale
        ends, note = charts.common_ends(ends)

    scales = dict(zip(maps, ends, strict=True))
    for position, run in enumerate(side_by_side(choice.runs, "small")):
        run_label(choice, run)
        if run.name in maps:
            drawn = maps[run.name]
            figure = _figure(choice, run, drawn, word, (scales[run.name], note))
            if figure is not None:
                downloads.chart(figure, f"heat-{position}", f"heat map {position + 1}")
                _describe(drawn, word)
                _values(drawn, position)
        else:
            cards.empty("There is no heat map of this run.", reasons.get(run.name, ""))


def _maps(
    choice: Choice, explained: Explained, pairs: dict[str, Pairs], reasons: dict[str, str]
) -> dict[str, Drawn]:
    """Let the user choose a pair and a measure; return the map of every run that has one, and add to `reasons`."""
    labels = list(dict.fromkeys(name for named in pairs.values() for name in named))
    if not labels:
        return {}

    ways = choice.ask_each(heat_maps.heat_map_ways)
    offered: list[str] = list(dict.fromkeys(way for ways_of_run in ways.values() for way in ways_of_run))
    if "masking" in offered and len(offered) > 1:
        offered.insert(0, FAITHFUL)

    chosen = offered[0] if offered else ""
    maps = {}
    with row():
        candidate = choose_one(explained.label, {name: name for name in labels}, f"{explained.page}pair")
        if len(offered) > 1:
            options = {way: LABELS[way] for way in offered}
            chosen = choose_one(
                "Map", options, f"{explained.page}heat-map", cards.HOW_TO_READ["faithful map"]
            )

    for run in choice.runs:
        pair = pairs.get(run.name, {}).get(candidate)
        if pair is None:
            reasons.setdefault(run.name, "The chosen result is not among the results of this run.")
            continue
        try:
            maps[run.name] = _map_of(choice, run, pair, chosen, ways[run.name])
        except (InputError, OSError, ImportError) as error:
            reasons[run.name] = str(error)

    return maps


def _map_of(
    choice: Choice, run: RunSummary, pair: Pair, chosen: str, ways: tuple[heat_maps.Way, ...]
) -> Drawn:
    """Return a run's map of a pair in the `chosen` way or, if the run does not have it, in the first of its `ways`."""
    text, image = pair
    masked = None
    way: heat_maps.Way = next((way for way in ways if way == chosen), [*ways, "cosine"][0])
    if "masking" in ways and chosen in (FAITHFUL, "masking"):
        masked = ask(questions.masked_regions, run, choice.split, text, image)
        way = masked.better if chosen == FAITHFUL else "masking"
    if masked is not None and way == "masking":
        heat = masked.heat
    else:
        heat = ask(questions.word_regions, run, choice.split, text, image, way)
    return Drawn(pair, heat, way, numbered(heat.words), masked)


def numbered(words: list[str]) -> list[str]:
    """Make repeated words unique by their count: "a", "a (2)"."""
    seen: Counter[str] = Counter()
    names = []
    for word in words:
        seen[word] += 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return names


def _choose_word(maps: list[Drawn], key: str) -> str:
    """Let the user choose one of all runs' words; the first one is the last run's first content word."""
    options = list(dict.fromkeys(name for drawn in maps for name in drawn.words[:MOST_WORDS]))
    if not options:
        return ""
    if st.session_state.get(key) not in (None, *options):
        del st.session_state[key]
    first = maps[-1].words[min(maps[-1].heat.first_content_word(), MOST_WORDS - 1)]
    if any(len(drawn.words) > MOST_WORDS for drawn in maps):
        cards.note(f"The first {MOST_WORDS} words can be picked; the table below has all.")
    bind = bound(key)
    return str(st.pills("Word", options, default=first, required=True, format_func=cards.literal, **bind))


def _row_of(drawn: Drawn, word: str) -> int | None:
    """Return the row of a word in a map; None if the run splits the text into other words."""
    if word in drawn.words:
        return drawn.words.index(word)
    return 0 if drawn.way == "tower" else None


def _unit(drawn: Drawn) -> str:
    return UNITS.get(drawn.way, "attention")


def _figure(
    choice: Choice, run: RunSummary, drawn: Drawn, word: str, scale: tuple[charts.Ends, str]
) -> go.Figure | None:
    """Make the map of a word on `scale`: its ends, and a note about them; None, after an explanation, without one."""
    row_of_word = _row_of(drawn, word)
    if row_of_word is None:
        cards.empty(f"“{word}” is not a single word of this run.", "Pick another word.")
        return None
    heat = drawn.heat
    values = heat.values[row_of_word]
    strongest = int(heat.strongest()[row_of_word])
    picture = ask(questions.picture_of, run, choice.split, drawn.pair[1])
    if heat.boxes is None or picture is None:
        cards.note(heat.unknown or "This run has no readable picture of the image.")
        return charts.region_bars(values, _unit(drawn), scale, tone())
    laid = heat_maps.lay_over(values, heat.boxes)
    shown = (cards.data_url(picture[0]), picture[1])
    return charts.regions_over_picture(laid, shown, heat.boxes[strongest], _unit(drawn), scale, tone())


def _describe(drawn: Drawn, word: str) -> None:
    """Name the region that the word attends to most."""
    row_of_word = _row_of(drawn, word)
    assert row_of_word is not None
    strongest = int(drawn.heat.strongest()[row_of_word])
    value = drawn.heat.values[row_of_word][strongest]
    verb = "depends most on cell" if drawn.way == "masking" else "attends most to region"
    fact = f"“{drawn.words[row_of_word]}” {verb} {strongest + 1} ({_unit(drawn)} {value:.3f})."
    cards.note(f"{fact} {cards.HOW_TO_READ.get(f'map of {drawn.way}', '')}")
    if drawn.masked is not None:
        areas = drawn.masked.areas
        measured = " · ".join(f"{LABELS[way].lower()} {area:+.3f}" for way, area in areas.items())
        cards.note(f"Faithfulness: {measured} (an order at random: 0; {drawn.masked.encoded} encodings).")


def _values(drawn: Drawn, position: int) -> None:
    """Draw the value of every word and region as a table."""
    heat = drawn.heat
    with st.expander("All words and regions as a table"):
        regions = [str(region) for region in range(1, heat.values.shape[1] + 1)]
        frame = pd.DataFrame(heat.values, columns=regions)
        frame = frame.assign(word=drawn.words, strongest=heat.strongest() + 1)
        columns = {"word": Column("word"), "strongest": Column("strongest region", "d")}
        columns |= {region: Column(region, ".2f") for region in regions}
        label = f"words, {_unit(drawn)} of each with each region"
        plain_table(frame, columns, f"heat-values-{position}", label)
        downloads.table(_long(drawn.words, heat), f"heat-map-{position}")


def _long(words: list[str], heat: heat_maps.HeatMap) -> pd.DataFrame:
    count = heat.values.shape[1]
    regions = np.tile(np.arange(1, count + 1), len(words))
    frame = pd.DataFrame({"word": np.repeat(words, count), "region": regions, "value": heat.values.ravel()})
    if heat.boxes is not None:
        for side, column in enumerate(("left", "top", "right", "bottom")):
            frame[column] = np.tile(heat.boxes[:, side], len(words))
    return frame
