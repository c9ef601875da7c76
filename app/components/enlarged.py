"""The large picture of a sample: a click on any thumbnail opens it, with everything known of the image."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.ask import Run, ask
from app.choice import Choice, neighbours
from app.components import cards, events, links, reviewing
from app.components.table import ENLARGED

SIZE, CONFUSED = 1000, 12


def open_clicked(choice: Choice) -> None:
    """At the end of a page: open the picture whose thumbnail was clicked, here or in a table."""

    def enlarge(value: Mapping[str, Any]) -> None:
        if events.is_index(value.get("image"), ask(Run.count, choice.last, choice.split, "image")):
            st.session_state[ENLARGED] = value["image"]

    events.on_click("image", enlarge)
    image = st.session_state.pop(ENLARGED, None)
    if image is not None:
        name = ask(Run.image_names, choice.last, choice.split)[image]
        st.dialog(cards.literal(f"Image {image} · {name}"), width="large")(show_image)(choice, image)


def show_image(choice: Choice, image: int) -> None:
    """The picture, its ranks and captions in every run, and where to go from there."""
    last = choice.last
    run, split = last, choice.split
    own, captions = ask(Run.captions_of, run, split, image), ask(Run.captions, run, split)
    picture = ask(Run.picture, last, split, image, SIZE)
    if picture is None:
        cards.note("This run has no readable picture of the image.")
    else:
        first = captions[own[0]] if len(own) else f"image {image}"
        st.html(f'<div class="cl-large">{cards.picture_html(picture, None, first)}</div>')
    st.html(f"<p>{cards.links_html(links.of_sample(choice, 'image', image))}</p>")
    if len(own):
        st.html(
            f'<div class="cl-wide">{captions_html(choice, image)}</div>'
            if choice.between
            else captions_html(choice, image)
        )
    else:
        cards.note("The image has no caption.")


def _confused(choice: Choice, caption: int) -> str:
    """The Similarity page with a caption, its image, and the first captions of the images most similar to it."""
    run, split = choice.last, choice.split
    best = ask(Run.search, run, caption, split=split, modality="text", top=CONFUSED)["candidate"].to_numpy()
    own = ask(Run.image_of_text, run, split)[caption]
    others = ask(Run.first_captions, run, split)[best[best != own]]
    return links.similarity(choice, int(own), [caption, *others[others >= 0].tolist()])


def _similar(choice: Choice, caption: int) -> tuple[tuple[str, str], ...]:
    """This page with the captions most similar to one as the slice, for a run that has such."""
    similar = neighbours(choice, "text", caption)
    return (("similar captions", links.address("", replace(choice, slice=similar))),) if similar else ()


def captions_html(choice: Choice, image: int) -> str:
    """A table: the image and each of its captions with rank and score in every run, and links to the other pages."""
    split, last = choice.split, choice.last
    own, captions = ask(Run.captions_of, last, split, image), ask(Run.captions, last, split)
    heads, columns, firsts = [], [], []
    for summary in choice.runs:
        run = summary
        ranks, scores = ask(Run.ranks, run, split), ask(Run.similarity, run, [image], own, split=split)[0]
        for quantity in ("rank", "similarity"):
            heads.append(f'<th scope="col">{html.escape(f"{quantity} in {summary.name}")}</th>')
        columns += [
            [f"{rank + 1:,}" for rank in ranks["t2i"][own].tolist()],
            [f"{score:.4f}" for score in scores],
        ]
        firsts += [f"{int(ranks['i2t'][image]) + 1:,}", f"{scores.max():.4f}"]
    values = "".join(f"<td>{value}</td>" for value in firsts)
    lines = [f'<tr><th scope="row">the image, by its best caption</th>{values}</tr>']
    for position, caption in enumerate(own.tolist()):
        values = "".join(f"<td>{column[position]}</td>" for column in columns)
        text = f"{html.escape(captions[caption])} <small>caption {caption}</small>"
        matrix = ("similarity", _confused(choice, caption))
        pages = cards.links_html(
            (*links.of_sample(choice, "text", caption), matrix, *_similar(choice, caption))
        )
        menu = reviewing.menu_html(choice, image, caption, enlarged=True)
        lines.append(f'<tr><th scope="row">{text}{pages}{menu}</th>{values}</tr>')
    head = f'<tr><th scope="col">query</th>{"".join(heads)}</tr>'
    return f'<table class="cl-own"><thead>{head}</thead><tbody>{"".join(lines)}</tbody></table>'
