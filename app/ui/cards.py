"""A picture, its captions, a ranked list, as a person wants to see them: escaped HTML, and the little that draws it.

Captions and names are data: they only ever leave here through `html.escape`.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import streamlit as st

from app.ui.glossary import TERMS

NO_PICTURE = (
    "data:image/svg+xml;base64,"
    + base64.b64encode(
        b"<svg xmlns='http://www.w3.org/2000/svg' width='96' height='96'><rect width='96' height='96' fill='#8a97a4'"
        b" fill-opacity='.25'/><path d='M20 68l18-22 13 15 10-12 15 19z' fill='#8a97a4' fill-opacity='.55'/>"
        b"<circle cx='66' cy='32' r='8' fill='#8a97a4' fill-opacity='.55'/></svg>"
    ).decode()
)


@dataclass(frozen=True)
class Tile:
    """A number with its name; `note` is the small line below, `term` a glossary entry shown on hover."""

    label: str
    value: str
    note: str = ""
    term: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class Result:
    """One ranked candidate: a picture, a caption, or both; `picture` is JPEG bytes, a picture card has `show` set.

    `links` are (label, address) pairs; addresses come from `app.ui.links`.
    """

    place: int
    score: float
    match: bool
    caption: str = ""
    picture: bytes | None = None
    show: bool = False
    notes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    term: str = "similarity"  # what the score is


def data_url(picture: bytes | None) -> str:
    """JPEG bytes as a data URL; a neutral drawing where there is no picture."""
    return NO_PICTURE if picture is None else "data:image/jpeg;base64," + base64.b64encode(picture).decode()


def tiles_html(tiles: Iterable[Tile], compact: bool = False) -> str:
    """A row of numbers; `compact` fits four into half a page."""
    parts = []
    for tile in tiles:
        help_text = html.escape(TERMS.get(tile.term, ""), quote=True)
        tone = {True: " cl-good", False: " cl-bad", None: ""}[tile.good]
        parts.append(
            f'<div class="cl-tile" title="{help_text}"><div class="cl-label{" cl-term" if help_text else ""}">'
            f'{html.escape(tile.label)}</div><div class="cl-value">{html.escape(tile.value)}</div>'
            f'<div class="cl-note{tone}">{html.escape(tile.note)}</div></div>'
        )
    return f'<div class="cl-tiles{" cl-compact" if compact else ""}">{"".join(parts)}</div>'


def results_html(results: Sequence[Result]) -> str:
    """Ranked candidates: pictures as a grid, captions as a list; true matches carry a mark and a green edge."""
    pictures = any(result.show for result in results)
    parts = []
    for result in results:
        mark = '<span class="cl-match">✓ match</span>' if result.match else ""
        notes = "".join(f"<span>{html.escape(note)}</span>" for note in result.notes)
        head = (
            f'<div class="cl-head"><b>{result.place}</b><span title="{html.escape(TERMS[result.term], quote=True)}">'
            f"{result.score:.3f}</span>{notes}{mark}</div>"
        )
        caption = f'<div class="cl-text">{html.escape(result.caption)}</div>' if result.caption else ""
        image = f'<img src="{data_url(result.picture)}" alt="candidate {result.place}">' if result.show else ""
        edge = " cl-is-match" if result.match else ""
        links = links_html(result.links)
        parts.append(f'<div class="cl-card{edge}">{image}<div class="cl-body">{head}{caption}{links}</div></div>')
    return f'<div class="{"cl-grid" if pictures else "cl-list"}">{"".join(parts)}</div>'


def links_html(links: Sequence[tuple[str, str]]) -> str:
    """Where one goes from here: labels with addresses inside the app."""
    shown = "".join(
        f'<a href="{html.escape(address, quote=True)}" target="_self">{html.escape(label)}</a>'
        for label, address in links
    )
    return f'<div class="cl-links">{shown}</div>' if shown else ""


def sample_html(
    picture: bytes | None, captions: Sequence[str], title: str, highlighted: int | None = None,
    links: Sequence[tuple[str, str]] = (),
) -> str:  # fmt: skip
    """One sample: its picture beside its captions; the highlighted caption is the query."""
    lines = "".join(
        f'<li class="{"cl-query" if place == highlighted else ""}">{html.escape(caption)}</li>'
        for place, caption in enumerate(captions)
    )
    return (
        f'<div class="cl-sample"><img src="{data_url(picture)}" alt="the sample">'
        f'<div class="cl-body"><div class="cl-label">{html.escape(title)}</div><ul>{lines}</ul>{links_html(links)}'
        "</div></div>"
    )


def tiles(items: Iterable[Tile], compact: bool = False) -> None:
    st.html(tiles_html(items, compact))


def results(items: Sequence[Result]) -> None:
    st.html(results_html(items))


def sample(
    picture: bytes | None, captions: Sequence[str], title: str, highlighted: int | None = None,
    links: Sequence[tuple[str, str]] = (),
) -> None:  # fmt: skip
    st.html(sample_html(picture, captions, title, highlighted, links))


def note(text: str) -> None:
    """A sentence in small print."""
    st.html(f'<p class="cl-how cl-small">{html.escape(text)}</p>')


def question(title: str, how: str) -> None:
    """The head of every page: the question it answers and how to read its picture."""
    st.title(title, anchor=False)
    st.html(f'<p class="cl-how">{html.escape(how)}</p>')


def heading(text: str, how: str = "") -> None:
    """A section: its name, and one sentence on how to read it."""
    st.subheader(text, anchor=False)
    if how:
        st.html(f'<p class="cl-how cl-small">{html.escape(how)}</p>')


def label(text: str) -> None:
    """A name above a column, as text and nothing else."""
    st.html(f'<div class="cl-name">{html.escape(text)}</div>')


def empty(fact: str, way_out: str) -> None:
    """Nothing to show, and what to do about it."""
    st.html(f'<div class="cl-empty"><b>{html.escape(fact)}</b><br>{html.escape(way_out)}</div>')


def faults(items: Iterable[tuple[str, str]]) -> None:
    """Damaged runs: name and what is wrong with each."""
    lines = "".join(f"<li><b>{html.escape(name)}</b> — {html.escape(fault)}</li>" for name, fault in items)
    st.html(f'<div class="cl-empty cl-warn">These runs cannot be opened:<ul>{lines}</ul></div>')
