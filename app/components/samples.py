"""Samples on all pages: their ids, rows of a table, columns of a file, cards, and the panel of the opened one."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.address import SLICE, bound, put
from app.ask import Direction, Modality, Run, RunSummary, ask, retrieval
from app.choice import UNITS, Choice, neighbours
from app.components import cards, downloads, events, links, opened, own_columns, reviewing
from app.components.controls import Missed, button, step_through
from app.components.selection import matching
from app.components.table import Column, SampleCell, Table, picking_table

Placed = tuple[int, float]  # rank and score of a card
NO_WORDS = "No caption or file name contains all of these words."
FEWER_WORDS = "Use fewer words, or clear the field or the slice."
NO_COMMON_WORDS = "These captions share hardly any words, so the images that each would fit are unknown."
OWN = "column "  # before the title of a user's column, beside columns of a table
TABLE_PICTURE = 96
CARD_PICTURE = 160


def name_of(modality: Modality, number: int) -> str:
    return f"{'caption' if modality == 'text' else 'image'} {number}"


def ids_text(modality: Modality, number: int, image: int, file: str) -> str:
    """Join ids: "caption 185 · image 37 · 37.jpg"; an image imported without an id has only its number."""
    return " · ".join(dict.fromkeys((name_of(modality, number), name_of("image", image), file)))


def of_run(choice: Choice, quantity: str, run: RunSummary) -> str:
    """Label a quantity: "rank in demo" if there is another run, else "rank"."""
    return quantity if choice.second is None else f"{quantity} in {run.name}"


def images_of(run: RunSummary, split: str, modality: Modality, numbers: np.ndarray) -> np.ndarray:
    """Return the images of captions, or the images themselves."""
    return ask(Run.image_of_text, run, split)[numbers] if modality == "text" else np.asarray(numbers)


def texts_of(run: RunSummary, split: str, modality: Modality, numbers: np.ndarray) -> list[str]:
    """Return the captions, or the first caption of every image; "" for an image without captions."""
    captions = ask(Run.captions, run, split)
    rows = numbers if modality == "text" else ask(Run.first_captions, run, split)[numbers]
    return [captions[row] if row >= 0 else "" for row in rows.tolist()]


def sample_card(
    choice: Choice, run: RunSummary, sample: opened.Sample, placed: Placed, *, pictured: bool = True
) -> cards.Result:
    """Return a card of a sample with its rank and score: an image with its picture, or its captions if it has none; a
    caption with its text and, if `pictured`, its image's picture."""
    split = choice.split
    modality, number = sample
    numbers = np.array([number])
    image = int(images_of(run, split, modality, numbers)[0])
    picture = ask(Run.picture, run, split, image, CARD_PICTURE) if pictured else None
    [first] = texts_of(run, split, modality, numbers)
    text = first
    if modality == "image" and not picture:
        captions = ask(Run.captions, run, split)
        text = "\n".join(captions[row] for row in ask(Run.captions_of, run, split, image).tolist())

    rank, score = placed
    return cards.Result(
        rank,
        score,
        picture=picture,
        image=image,
        sample=sample,
        caption=text,
        hover=first,
        ids=ids_text(modality, number, image, ask(Run.image_names, run, split)[image]),
    )


def search_words(key: str, of: str = "in captions and file names", width: int = 200) -> str:
    """Draw a field for words to search for; `of` says where."""
    field = st.text_input(
        "Filter by words",
        placeholder="Filter by words",
        help=f"Rows that contain all of these words {of}.",
        label_visibility="collapsed",
        width=width,
        **bound(key),
    )
    return str(field or "")


def holding(choice: Choice, modality: Modality, numbers: np.ndarray, words: str) -> np.ndarray:
    """Return the positions of samples in the slice whose captions and file name together contain every word."""
    inside = choice.inside(modality, numbers)
    if not words.split():
        return np.flatnonzero(inside)
    names = choice.ask(Run.image_names)
    owner = choice.ask(Run.image_of_text).tolist()
    captions = choice.ask(Run.captions)
    if modality == "text":
        texts = [f"{caption} {names[image]}" for caption, image in zip(captions, owner, strict=True)]
    else:
        parts = [[name] for name in names]
        for image, caption in zip(owner, captions, strict=True):
            parts[image].append(caption)
        texts = [" ".join(of_image) for of_image in parts]
    return np.flatnonzero(inside & np.isin(numbers, matching(texts, words)))


def note_sample(run: RunSummary, split: str, how: str = "compared") -> None:
    """Note that only a sample of a large split is used, with the text for `how` in headings.toml."""
    sample = ask(Run.sample, run, split)
    if sample is not None:
        numbers = vars(sample) | {"images": len(sample.images), "texts": len(sample.texts)}
        cards.note(cards.HOW_TO_READ[f"sample {how}"].format(**numbers))


def note_slice(choice: Choice, modality: Modality) -> None:
    if choice.slice:
        inside = len(choice.members(modality))
        total = choice.ask(Run.count, modality)
        part = f"{inside:,} of {total:,} {UNITS[modality]}"
        cards.note(cards.HOW_TO_READ["page of a slice"].format(part=part))


def similar_button(choice: Choice, modality: Modality, number: int, key: str) -> None:
    """Draw a button that makes the samples most similar to this one the slice, if the run has embeddings."""
    if similar := neighbours(choice, modality, number):
        label = f"Similar {UNITS[modality]}"
        narrow = partial(put, SLICE, similar)
        button(label, f"{key}-similar", "join_inner", narrow, type="tertiary", help=cards.tip("similar"))


def cells_of(run: RunSummary, split: str, rows: Iterable[tuple[Modality, int, int, str]]) -> list[SampleCell]:
    """Return the first cells of a table's rows, from the modality, number, image and text of every sample."""
    cells = []
    names = ask(Run.image_names, run, split)
    for modality, number, image, text in rows:
        picture = cards.data_url(ask(Run.picture, run, split, image, TABLE_PICTURE))
        ids = ids_text(modality, number, image, names[image])
        cells.append(SampleCell(image, name_of(modality, number), text, ids, picture))
    return cells


@dataclass(frozen=True)
class SampleList:
    """Samples (`numbers`) with their values, for a table and its download.

    `columns`: columns of `values` in the download, and in the table if they are among `shown` (None: all). `words`: only
    samples that contain them. `target`: key of the number widget that opens a sample. `file`: name of the download.
    `narrow`: it stands beside what it opens. `nothing`: the notice if none remains, and what to do.
    """

    modality: Modality
    numbers: np.ndarray
    values: pd.DataFrame
    columns: Mapping[str, Column]
    words: str
    target: str
    file: str
    height: int = 560
    narrow: bool = True
    nothing: tuple[str, str] = (NO_WORDS, FEWER_WORDS)
    shown: Sequence[str] | None = None


def sample_table(choice: Choice, listed: SampleList) -> np.ndarray:
    """Draw a table of the samples of the slice that contain the words, with their values and one download of all
    columns under their labels; a click on a row opens the sample. Return the samples in the order shown."""
    run = choice.last
    split = choice.split
    modality = listed.modality
    target = listed.target
    rows = holding(choice, modality, listed.numbers, listed.words)
    if not len(rows):
        fact, remedy = listed.nothing
        cards.empty(fact, remedy)
        return np.zeros(0, dtype=np.int64)
    numbers = np.asarray(listed.numbers)[rows]
    values = listed.values.iloc[rows].reset_index(drop=True)

    def cells(positions: np.ndarray) -> list[SampleCell]:
        samples = numbers[positions]
        images = images_of(run, split, modality, samples)
        texts = texts_of(run, split, modality, samples)
        rows = zip(repeat(modality), samples.tolist(), images.tolist(), texts, strict=False)
        return cells_of(run, split, rows)

    _enter(target, modality)
    opened.among(target, numbers)
    own = own_columns.written(own_columns.values(run, split, modality, numbers))
    chosen = own_columns.choose(run, split, modality, f"{target}-columns")
    added = own[chosen].add_prefix(OWN)
    columns = {
        name: column
        for name, column in listed.columns.items()
        if listed.shown is None or name in listed.shown
    }
    columns |= {f"{OWN}{title}": column for title, column in own_columns.table_columns(own[chosen]).items()}
    shown = pd.concat([values, added], axis=1)
    table = Table(
        shown,
        columns,
        f"{target}-table",
        UNITS[modality],
        numbers,
        listed.height,
        cells,
        narrow=listed.narrow,
    )
    order = picking_table(table, target)
    content = values.rename(columns={name: column.label for name, column in listed.columns.items()})
    content = pd.concat([content, own.add_prefix(OWN if {*own} & {*content} else "")], axis=1)
    file_names = ask(Run.image_names, run, split)
    images = images_of(run, split, modality, numbers)
    ids: dict[str, object] = {"caption id": numbers} if modality == "text" else {}
    ids |= {"image id": images, "file": [file_names[image] for image in images.tolist()]}
    ids["caption" if modality == "text" else "first caption"] = texts_of(run, split, modality, numbers)
    downloads.table(pd.concat([pd.DataFrame(ids), content], axis=1).iloc[order], listed.file)
    return numbers[order]


def _enter(target: str, modality: Modality) -> None:
    """Begin with the opened sample, unless the address or a person put a number into the field."""
    sample = opened.state().shared
    if sample and sample[0] == modality and target not in st.session_state and target not in st.query_params:
        put(target, sample[1])


def step_samples(
    choice: Choice, modality: Modality, target: str, order: np.ndarray, missed: Missed = None
) -> int:
    """Draw the number field `target` with buttons to other samples, and `show_sample`; return the number."""
    _enter(target, modality)
    label = "Caption number" if modality == "text" else "Image number"
    count = choice.ask(Run.count, modality)
    number = step_through(label, target, order, count, missed)
    show_sample(choice, modality, number, target)
    return number


def show_sample(choice: Choice, modality: Modality, number: int, target: str, *, own: bool = True) -> None:
    """Report to the panel the sample that this part of the page is about, by the field `target`; name it here while the
    panel shows another one."""
    opened.tell(target, modality, number, own=own)
    if opened.current() != (modality, number):
        [text] = texts_of(choice.last, choice.split, modality, np.array([number]))
        name = name_of(modality, number).capitalize()
        st.html(cards.opening_html(f"{name}: {text}", modality, number))


def show_opened(choice: Choice, panel: DeltaGenerator) -> None:
    """Fill the panel with the opened sample, after the parts of the page that can open one."""

    def existing(sample: opened.Sample | None) -> opened.Sample | None:
        return sample if sample and sample[1] < choice.ask(Run.count, sample[0]) else None

    def open_clicked(value: Mapping[str, Any]) -> None:
        if sample := existing(opened.parse(value.get("sample"))):
            opened.show(sample)

    events.on_click("open", open_clicked)
    if sample := existing(opened.current()):
        modality, number = sample
        with panel.container(key="opened"):
            _panel(choice, modality, number)
    st.html(links.fresh_html(choice))
    opened.end()


def _panel(choice: Choice, modality: Modality, number: int) -> None:
    """Draw picture, captions with the query first, ranks of query and image in every run, links, and verdicts."""
    image = number if modality == "image" else int(choice.ask(Run.image_of_text)[number])
    numbers = choice.ask(Run.captions_of, image).tolist()
    captions = choice.ask(Run.captions)
    title = f"Image {image}"
    highlighted = None
    ways: dict[str, tuple[Direction, int]] = {"image → captions": ("i2t", image)}
    if modality == "text":
        title = f"Caption {number} of image {image}"
        highlighted = 0
        numbers.sort(key=lambda caption: caption != number)
        ways = {"caption → images": ("t2i", number), **ways}

    file = choice.ask(Run.image_names)[image]
    more = ""
    title += f" · {file}" if file != f"image {image}" else ""
    for label, (way, row) in ways.items():
        ranks = {
            name: retrieval.place_in_words(rank)
            for name, rank in choice.ask_each(Run.rank_of, way, row).items()
        }
        runs = " · ".join(f"{html.escape(name)} <b>{rank}</b>" for name, rank in ranks.items())
        more += f'<div class="cl-rank">Rank, {label}: {runs}</div>'

    values = choice.ask(Run.columns)
    of_caption = {} if modality == "image" else values.of_caption(number)
    more += cards.values_html({**values.of_image(image), **of_caption})
    more += cards.links_html(links.of_sample(choice, modality, number))
    texts = [captions[row] for row in numbers]
    picture = choice.ask(Run.picture, image)
    st.html(cards.sample_html(cards.Sample(title, picture, texts, highlighted, image, more)))
    with reviewing.judge(choice, image, number if modality == "text" else None, "sample"):
        similar_button(choice, modality, number, "sample")
        if opened.current() != opened.state().own:
            button("Close", "close-sample", "close", partial(opened.show, None), type="tertiary")


def describe(run: RunSummary, split: str, modality: Modality, number: int) -> dict[str, str] | None:
    """Return ids, text and picture (data URL, "" for none) of a sample; None if the split has no such sample."""
    if number >= ask(Run.count, run, split, modality):
        return None
    numbers = np.array([number])
    image = int(images_of(run, split, modality, numbers)[0])
    ids = ids_text(modality, number, image, ask(Run.image_names, run, split)[image])
    [text] = texts_of(run, split, modality, numbers)
    return {
        "ids": ids,
        "text": text,
        "picture": cards.data_url(ask(Run.picture, run, split, image, CARD_PICTURE)),
    }
