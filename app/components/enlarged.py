"""The large picture of a sample: a click on any thumbnail opens it, with the image's ranks and captions."""

import html
from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.ask import Run, ask, retrieval
from app.choice import Choice
from app.components import cards, events, reviewing
from app.components.table import ENLARGED

SIZE = 1000


def open_clicked(choice: Choice) -> None:
    """Open the picture whose thumbnail was clicked, here or in a table. Called at the end of a page."""

    def enlarge(value: Mapping[str, Any]) -> None:
        if events.is_index(value.get("image"), ask(Run.count, choice.last, choice.split, "image")):
            st.session_state[ENLARGED] = value["image"]

    events.on_click("image", enlarge)
    image = st.session_state.pop(ENLARGED, None)
    if image is not None:
        name = ask(Run.image_names, choice.last, choice.split)[image]
        st.dialog(cards.literal(f"Image {image} · {name}"), width="large")(show_image)(choice, image)


def show_image(choice: Choice, image: int) -> None:
    """Draw the picture, with ranks and captions in every run; the image and its captions can be opened in the panel."""
    run = choice.last
    split = choice.split
    numbers = ask(Run.captions_of, run, split, image)
    captions = ask(Run.captions, run, split)
    picture = ask(Run.picture, run, split, image, SIZE)
    if picture is None:
        cards.note("This run has no readable picture of the image.")
    else:
        first = captions[numbers[0]] if len(numbers) else f"image {image}"
        st.html(f'<div class="cl-large">{cards.picture_html(picture, None, first)}</div>')

    st.html(cards.opening_html("Open this image", "image", image))
    if len(numbers):
        table = captions_html(choice, image)
        st.html(f'<div class="{"cl-wide" if choice.between else "cl-two"}">{table}</div>')
    else:
        cards.note("The image has no caption.")


def captions_html(choice: Choice, image: int) -> str:
    """Return a table of the image and each of its captions with rank and score in every run."""
    split = choice.split
    last = choice.last
    numbers = ask(Run.captions_of, last, split, image)
    captions = ask(Run.captions, last, split)
    heads = "<td>query</td>"
    columns = []
    for run in choice.runs:
        has_scores = ask(Run.lists, run, split) is None
        scores = ask(Run.similarity, run, [image], numbers, split=split)[0] if has_scores else None
        name = html.escape(run.name)
        heads += f"<th scope=col>rank in {name}</th><th scope=col>similarity in {name}</th>"
        of_captions = [ask(Run.rank_of, run, split, "t2i", caption) for caption in numbers.tolist()]
        positions = [ask(Run.rank_of, run, split, "i2t", image), *of_captions]
        columns.append([retrieval.place_in_words(rank) for rank in positions])
        of_pairs = ["–"] * len(positions) if scores is None else [f"{s:.4f}" for s in (scores.max(), *scores)]
        columns.append(of_pairs)

    names = ["the image, by its best caption"]
    for caption in numbers.tolist():
        text = cards.opening_html(captions[caption], "text", caption)
        menu = reviewing.menu_html(choice, image, caption, enlarged=True)
        names.append(f"{text} <small>caption {caption}</small>{menu}")

    rows = zip(names, *columns, strict=True)
    lines = (f"<th scope=row>{name}</th><td>{'</td><td>'.join(cells)}</td>" for name, *cells in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table class="cl-own"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
