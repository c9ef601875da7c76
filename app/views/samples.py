"""Samples wherever they appear: ids, rows of a table, columns of a file, cards, and one opened as an anchor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st

from app.ask import Modality, Run, RunSummary, ask, thumbnails
from app.choice import SLICE, Choice, bound, neighbours, put
from app.components import cards, downloads, links, reviewing
from app.components.glossary import tip
from app.components.selection import matching
from app.components.table import Column, SampleCell, picking_table

NO_WORDS = (
    "No caption or file name contains all of these words.",
    "Use fewer words, or clear the field or the slice.",
)
TABLE_PICTURE, CARD_PICTURE = 96, 160


def name_of(modality: Modality, number: int) -> str:
    """ "caption 185", "image 37"."""
    return f"{'caption' if modality == 'text' else 'image'} {number}"


def ids_of(run: RunSummary, split: str, modality: Modality, number: int) -> str:
    """The ids of a sample, see `ids_text`."""
    image = int(ask(Run.image_of_text, run, split)[number]) if modality == "text" else number
    return ids_text(modality, number, image, ask(Run.image_names, run, split)[image])


def ids_text(modality: Modality, number: int, image: int, file: str) -> str:
    """ "caption 185 · image 37 · 37.jpg"; an image imported without an id has only its number."""
    return " · ".join(dict.fromkeys((name_of(modality, number), name_of("image", image), file)))


def of_run(choice: Choice, quantity: str, run: RunSummary) -> str:
    """ "rank in demo" beside another run; "rank" alone."""
    return quantity if choice.second is None else f"{quantity} in {run.name}"


def images_of(run: RunSummary, split: str, modality: Modality, numbers: np.ndarray) -> np.ndarray:
    """The images of captions, or the images themselves."""
    return ask(Run.image_of_text, run, split)[numbers] if modality == "text" else np.asarray(numbers)


def texts_of(run: RunSummary, split: str, modality: Modality, numbers: np.ndarray) -> list[str]:
    """The captions, or the first caption of every image; "" for an image without captions."""
    captions = ask(Run.captions, run, split)
    rows = numbers if modality == "text" else ask(Run.first_captions, run, split)[numbers]
    return [captions[row] if row >= 0 else "" for row in rows.tolist()]


def sample_card(
    run: RunSummary,
    split: str,
    modality: Modality,
    number: int,
    place: int,
    score: float,
    *,
    match: bool = False,
    notes: tuple[str, ...] = (),
    links: tuple[tuple[str, str], ...] = (),
    term: str = "similarity",
    pictured: bool = True,
    review: str = "",
    judged: bool = False,
) -> cards.Result:
    """A card of a sample: an image by its picture, or by its captions where there is none; a caption by its text and,
    with `pictured`, its image's picture."""
    opened = run
    image = int(images_of(opened, split, modality, np.array([number]))[0])
    picture = ask(Run.picture, run, split, image, CARD_PICTURE) if pictured else None
    [first] = texts_of(opened, split, modality, np.array([number]))
    text = first
    if modality == "image":
        captions = ask(Run.captions, opened, split)
        text = (
            ""
            if picture
            else "\n".join(captions[row] for row in ask(Run.captions_of, opened, split, image).tolist())
        )
    ids = ids_of(opened, split, modality, number)
    return cards.Result(
        place, score, match, text, picture, notes, links, term, ids, image, first, review, judged
    )


def sample_columns(run: RunSummary, split: str, modality: Modality, numbers: np.ndarray) -> pd.DataFrame:
    """Columns of a file about samples: ids, picture file, caption (of an image its first)."""
    names = ask(Run.image_names, run, split)
    images = images_of(run, split, modality, numbers)
    columns: dict[str, object] = {"caption id": numbers} if modality == "text" else {}
    columns |= {"image id": images, "file": [names[image] for image in images.tolist()]}
    columns["caption" if modality == "text" else "first caption"] = texts_of(run, split, modality, numbers)
    return pd.DataFrame(columns)


def search_words(key: str, of: str = "of captions and files") -> str:
    """The field that filters a table's rows by words."""
    return str(st.text_input("Filter by words", **bound(key), placeholder=of, width=260) or "")


def holding(choice: Choice, modality: Modality, numbers: np.ndarray, words: str) -> np.ndarray:
    """Positions of the samples of the slice whose caption (of an image: any of them) or file holds every word."""
    inside = choice.inside(modality, numbers)
    if not words.split():
        return np.flatnonzero(inside)
    run = choice.last
    split, names = choice.split, ask(Run.image_names, run, choice.split)
    owner = ask(Run.image_of_text, run, split)
    if modality == "text":
        pairs = zip(ask(Run.captions, run, split), owner.tolist(), strict=True)
        texts = [f"{caption} {names[image]}" for caption, image in pairs]
    else:
        captions: list[list[str]] = [[name] for name in names]
        for image, caption in zip(owner.tolist(), ask(Run.captions, run, split), strict=True):
            captions[image].append(caption)
        texts = [" ".join(parts) for parts in captions]
    return np.flatnonzero(inside & np.isin(numbers, matching(texts, words)))


def note_sample(run: RunSummary, split: str) -> None:
    """Note that a large split is looked at through a sample."""
    sample = ask(Run.sample, run, split)
    if sample is not None:
        cards.note(
            f"This split is large: {len(sample.texts):,} of {sample.of_texts:,} captions, those of "
            f"{len(sample.images):,} random images, are compared with one another."
        )


def say_slice(choice: Choice, modality: Modality) -> None:
    """Note that a page is about the slice, where there is one."""
    if choice.slice:
        total = ask(Run.count, choice.last, choice.split, modality)
        unit = "captions" if modality == "text" else "images"
        cards.note(
            f"Numbers, figures and tables are over the slice: {len(choice.members(modality)):,} of {total:,} "
            f"{unit}. Their candidates are not filtered."
        )


def similar_button(choice: Choice, modality: Modality, number: int, key: str) -> None:
    """A button that makes the samples most similar to this one the slice, for a run that has such."""
    if similar := neighbours(choice, modality, number):
        st.button(
            f"Similar {'captions' if modality == 'text' else 'images'}",
            key=f"{key}-similar",
            type="tertiary",
            icon=":material/join_inner:",
            help=tip("similar"),
            on_click=lambda: put(SLICE, similar),
        )


def sample_table(
    choice: Choice,
    modality: Modality,
    numbers: np.ndarray,
    values: pd.DataFrame,
    columns: Mapping[str, Column],
    *,
    target: str,
    key: str,
    file: str,
    height: int = 420,
) -> np.ndarray:
    """Samples with their numbers, paged, with one download; a click on a row opens the sample.

    Args:
        numbers: the samples. values: one row each, with the columns that `columns` describes; the file has all of
            them, under their labels.
        target: the number widget that opens a sample. key: of the table. file: its name, without ending.

    Returns:
        The samples in the order shown.
    """
    run, split = choice.last, choice.split

    def page(rows: np.ndarray) -> list[SampleCell]:
        samples = numbers[rows]
        images = images_of(run, split, modality, samples)
        pictures = thumbnails(choice.last, split, images, TABLE_PICTURE)
        return [
            SampleCell(
                int(image),
                name_of(modality, int(number)),
                text,
                ids_of(run, split, modality, int(number)),
                cards.data_url(picture),
            )
            for number, image, text, picture in zip(
                samples, images, texts_of(run, split, modality, samples), pictures, strict=True
            )
        ]

    unit = "captions" if modality == "text" else "images"
    values = values.reset_index(drop=True)
    order = picking_table(values, columns, numbers, target, key, unit, height=height, samples=page)
    content = values.rename(columns={name: column.label for name, column in columns.items()})
    content = pd.concat([sample_columns(run, split, modality, numbers), content], axis=1).iloc[order]
    downloads.table(content, file)
    return np.asarray(numbers)[order]


def show_sample(choice: Choice, modality: Modality, number: int, *, here: str = "") -> None:
    """A sample: its picture with all its captions, the query in bold; links to the other pages."""
    run, split = choice.last, choice.split
    opened = run
    image = number if modality == "image" else int(ask(Run.image_of_text, opened, split)[number])
    own, captions = ask(Run.captions_of, opened, split, image), ask(Run.captions, opened, split)
    highlighted = None if modality == "image" else own.tolist().index(number)
    title = f"Image {image}" if modality == "image" else f"Caption {number} of image {image}"
    pages = links.of_sample(choice, modality, number, here=here)
    file = ask(Run.image_names, opened, split)[image]
    title += f" · {file}" if file != f"image {image}" else ""
    cards.sample(
        ask(Run.picture, run, split, image), [captions[j] for j in own], title, highlighted, pages, image
    )
    with reviewing.judge(choice, image, None if modality == "image" else number, "sample"):
        similar_button(choice, modality, number, "sample")
