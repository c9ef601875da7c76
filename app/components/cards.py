"""Cards, notes and metrics.

Captions, names and messages are data: they are drawn only through `html.escape`, or through `literal` in labels,
headings and options, which Streamlit renders as Markdown. A metric's value is a number.
"""

import base64
import html
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components import opened
from app.components.refusals import refused

Links = Sequence[tuple[str, str]]  # label and address
_FILES = [Path(__file__).with_name(f"{name}.toml") for name in ("glossary", "headings")]
TERMS, HOW_TO_READ = (tomllib.loads(file.read_text(encoding="utf-8")) for file in _FILES)
# letters in a line of the narrowest card, and lines before a box scrolls
SHORT_LINE = 16
LINES_SHOWN = 5
LONGEST_VALUE = 500  # characters of a value of the user's columns
_MARKS = re.compile(r"[\\`*\[\]()<>:$~!#|&]|_(?![^\W_])|(?<![^\W_])_")
_HEAD = "head-of-the-page"
_SKIP = '<button type="button" class="cl-skip">Skip to the list</button>'  # see frame/history.js
DETAIL = "detail"  # key of the part of a page to which the links of a sample lead
_LIST = re.compile(r"^(\d*)([-+.)])(?=\s)")
_ADDRESS = re.compile(r":(?=\S)|www(?=\.)", re.IGNORECASE)


@dataclass(frozen=True)
class Metric:
    """A number for `metrics`; `note` is the small line below it, `term` a glossary entry shown on hover."""

    label: str
    value: str
    note: str = ""
    term: str = ""
    delta: str | None = None
    colour: Literal["normal", "inverse", "green", "red", "off"] = "normal"
    arrow: Literal["auto", "off"] = "auto"


@dataclass(frozen=True)
class Result:
    """One ranked candidate: a picture (JPEG bytes), a text, or both. Its ids are shown on hover, and without a picture
    in small print.

    `match`: a labelled match; `judged`: a match judged by people. A click on the picture enlarges `image`, which
    `hover` describes. A click on the text opens `sample`. `term` names the score. `review` is HTML from
    `app.components.reviewing`.
    """

    rank: int
    score: float
    match: bool = False
    caption: str = ""
    picture: bytes | None = None
    notes: tuple[str, ...] = ()
    sample: opened.Sample | tuple[()] = ()
    term: str = "similarity"
    ids: str = ""
    image: int | None = None
    hover: str = ""
    review: str = ""
    judged: bool = False


@dataclass
class _Head:
    """The head of a page, until its title is drawn."""

    place: DeltaGenerator
    question: str
    how: str
    runs: str = ""  # HTML: their names in their colours
    is_drawn: bool = False


def tip(term: str) -> str:
    """Return the explanation of a term, which must be in the glossary."""
    return str(TERMS[term])


def data_url(picture: bytes | None) -> str:
    """Convert JPEG bytes to a data URL; "" if there is no picture."""
    return "" if picture is None else "data:image/jpeg;base64," + base64.b64encode(picture).decode()


def results_html(results: Sequence[Result]) -> str:
    """Return ranked candidates as HTML: pictures as a grid, texts as a list; matches have a mark and a green edge."""
    tips = [
        f'<details class="cl-tip"><summary>Score: {html.escape(term)}</summary>{html.escape(TERMS[term])}</details>'
        for term in dict.fromkeys(result.term for result in results)
    ]
    layout = "cl-grid" if any(result.picture is not None for result in results) else "cl-list"
    return f'{"".join(tips)}<div class="cl-results"><div class="{layout}">{"".join(map(_card, results))}</div></div>'


def _card(result: Result) -> str:
    word = "match" if result.match else "judged" if result.judged else ""
    kind, mark = (f" cl-is-{word}", f'<span class="cl-match">✓ {word}</span>') if word else ("", "")
    notes = "".join(f"<span>{html.escape(note)}</span>" for note in result.notes)
    head = f'<div class="cl-head"><b>{result.rank}</b><span>{result.score:.3f}</span>{notes}{mark}</div>'
    caption = opening_html(result.caption or result.ids, *result.sample)
    escaped = html.escape(result.ids, quote=True)
    picture = picture_html(result.picture, result.image, result.hover or result.ids)
    ids = "" if picture or not (result.ids and result.caption) else f'<div class="cl-ids">{escaped}</div>'
    body = f'<div class="cl-body">{head}{caption}{ids}{result.review}</div>'
    return f'<div class="cl-card{kind}" title="{escaped}">{picture}{body}</div>'


def opening_html(text: str, *sample: Any) -> str:
    """Return a text cut to a few lines; with a modality and a number, as a button that opens that sample."""
    title = html.escape(text, quote=True)
    shown = f'<span class="cl-text">{title.replace("_", "_<wbr>")}</span>'  # long file names break there
    if not sample:
        return shown
    return f'<button type="button" class="cl-open" data-open="{opened.name_of(*sample)}" title="{title}">{shown}</button>'


def _scrolls(texts: Sequence[str]) -> str:
    """Return the attribute that lets the keyboard scroll a box with these texts, if they may not fit into it."""
    lines = sum(1 + len(line) // SHORT_LINE for text in texts for line in text.splitlines())
    return ' tabindex="0"' if lines > LINES_SHOWN else ""


def picture_html(picture: bytes | None, image: int | None, description: str) -> str:
    """Return a picture, or ""; with an image number, as a button that enlarges it (`app.components.enlarged`)."""
    if picture is None:
        return ""
    text = html.escape(description, quote=True)
    drawn = f'<img src="{data_url(picture)}" alt="{text}" title="{text}">'
    if image is None:
        return drawn
    return f'<button type="button" class="cl-zoom" data-image="{int(image)}">{drawn}</button>'


def links_html(links: Links) -> str:
    """Return links to other pages of the app: labels with addresses from `app.components.links`."""
    texts = [(html.escape(address, quote=True), html.escape(label)) for label, address in links]
    anchors = "".join(f'<a href="{address}" target="_self">{label}</a>' for address, label in texts)
    return f'<div class="cl-links">{anchors}</div>' if anchors else ""


@dataclass(frozen=True)
class Sample:
    """A picture, if there is one, and its captions. `highlighted`: position of the caption in bold; `image`: number of
    the image that a click on the picture enlarges; `more`: HTML beside them."""

    title: str
    picture: bytes | None
    captions: Sequence[str] = ()
    highlighted: int | None = None
    image: int | None = None
    more: str = ""


def sample_html(sample: Sample) -> str:
    """Return a sample's picture beside its captions."""
    captions = sample.captions
    lines = ""
    for position, caption in enumerate(captions):
        kind = "cl-query" if position == sample.highlighted else ""
        lines += f'<li class="{kind}">{html.escape(caption)}</li>'
    description = captions[sample.highlighted or 0] if captions else sample.title
    shown = picture_html(sample.picture, sample.image, description)
    label = f'<div class="cl-label">{html.escape(sample.title)}</div>'
    body = f'<div class="cl-body">{label}<ul{_scrolls(captions)}>{lines}</ul></div>'
    return f'<div class="cl-sample">{shown}{body}<div class="cl-body">{sample.more}</div></div>'


def metrics(items: Iterable[Metric]) -> None:
    """Draw a row of numbers."""
    shown = list(items)
    for item, column in zip(shown, st.columns(len(shown), gap="small"), strict=True):
        column.metric(
            literal(item.label),
            item.value,
            item.delta,
            item.colour,
            delta_arrow=item.arrow,
            delta_description=literal(item.note) or None,
            help=TERMS.get(item.term),
            height="stretch",
            border=True,
        )


def results(items: Sequence[Result]) -> None:
    st.html(results_html(items))


def note(text: str) -> None:
    """Draw a sentence in small print."""
    st.html(f'<p class="cl-how cl-small">{html.escape(text)}</p>')


def note_with_links(text: str, links: Links) -> None:
    """Draw a sentence in small print, with links below it."""
    st.html(f'<p class="cl-how cl-small">{html.escape(text)}</p>{links_html(links)}')


def values_html(values: Mapping[str, object]) -> str:
    """Return the HTML of a sample's own values, by title; "" without any."""
    rows = [
        f"<dt>{html.escape(title)}</dt><dd>{html.escape(value_text(value))}</dd>"
        for title, value in values.items()
    ]
    return f'<dl class="cl-columns">{"".join(rows)}</dl>' if rows else ""


def value_text(value: object) -> str:
    """Write a value of the user's column: a number, a date, a text, or tags."""
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def bars_html(counts: Sequence[int]) -> str:
    """Return the HTML of a small histogram; screen readers skip it."""
    most = max([*counts, 1])
    bars = [f'<span style="height:{100 * count / most:.0f}%"></span>' for count in counts]
    return f'<div class="cl-bars" aria-hidden="true">{"".join(bars)}</div>'


def begin_page(question: str, how: str = "") -> None:
    """Make room for the head of a page: its question and how to read it, as in `heading`."""
    how = how or HOW_TO_READ.get(question, "")
    st.session_state[_HEAD] = _Head(st.container(), question, how)


def name_runs(names: Iterable[str]) -> None:
    """Name the runs that the answer is about beside the question. `names`: HTML."""
    head: _Head = st.session_state[_HEAD]
    head.runs = "".join(names)


def answer(text: str) -> None:
    """Draw the answer to the page's question as its title, with the question and the runs in their colours in a small
    line above it, which explains the page on hover."""
    head: _Head = st.session_state[_HEAD]
    if head.is_drawn or not text:
        return
    head.is_drawn = True
    with head.place:
        hover = html.escape(head.how, quote=True)
        question = f'<p class="cl-question" title="{hover}">{html.escape(head.question)}</p>'
        st.html(f'<div class="cl-asked">{question}{head.runs}</div>{_SKIP}')
        st.title(literal(text), anchor=False)


def missing(fact: str, fix: str, details: str = "") -> None:
    """Answer the page's question with what is missing and what to do about it, both without a period; below a title that
    is drawn already, as `empty` does. `details`: sentences below it."""
    head: _Head = st.session_state[_HEAD]
    if head.is_drawn:
        empty(f"{fact}.", details or f"{fix[:1].upper()}{fix[1:]}.")
        return
    answer(f"{fact}: {fix}")
    if details:
        st.html(f'<div class="cl-empty">{html.escape(details)}</div>')


def heading(text: str, how: str = "", *, detail: bool = False, **values: object) -> None:
    """Draw a section's name, and how to read it: `how`, or its text in headings.toml, filled in with `values`. The
    links of a sample lead to the section of a page that is marked as `detail`."""
    with st.container(key=DETAIL) if detail else nullcontext():
        st.header(literal(text), anchor=False)
    if how := how or HOW_TO_READ.get(text, "").format(**values):
        note(how)


def literal(text: str) -> str:
    """Escape text for a heading, a label, an option or a button, where Streamlit renders Markdown.

    An underscore inside a word is not escaped, so usual names stay as they are, also in the URL. After Markdown,
    Streamlit converts addresses and `:icons:` in plain text; an invisible joiner after the colon prevents it.
    """
    line = _LIST.sub(r"\1\\\2", _MARKS.sub(r"\\\g<0>", " ".join(text.split())))
    return _ADDRESS.sub("\\g<0>\u2060", line)


def label(text: str, note: str = "") -> None:
    """Draw a name above a column, never rendered as Markdown; with a `note` below it, the name is cut to one line."""
    if not note:
        st.html(f'<div class="cl-name">{html.escape(text)}</div>')
        return
    name = html.escape(text, quote=True)
    st.html(f'<div class="cl-name"><div class="cl-cut" title="{name}">{name}</div>{html.escape(note)}</div>')


def empty(fact: str, fix: str) -> None:
    """Explain why there is nothing to show, and what to do about it."""
    st.html(f'<div class="cl-empty"><b>{html.escape(fact)}</b><br>{html.escape(fix)}</div>')


def refusal() -> None:
    """Report what the last click did not do, and why."""
    if reason := refused():
        empty(*reason)


def warning(text: str) -> None:
    """Draw a sentence that should not be overlooked."""
    st.html(f'<div class="cl-empty cl-warn">{html.escape(text)}</div>')


def faults(items: Iterable[tuple[str, str]]) -> None:
    """List damaged runs, if there are any: name and what is wrong with each."""
    lines = "".join(f"<li><b>{html.escape(name)}</b> — {html.escape(fault)}</li>" for name, fault in items)
    if not lines:
        return
    st.html(f'<div class="cl-empty cl-warn">These are damaged and were left out:<ul>{lines}</ul></div>')
