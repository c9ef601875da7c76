"""Judge pairs of a caption and an image: buttons with keys below a sample, a menu on every card, undo, tags and notes."""

import getpass
import html
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import judging
from app.address import REVIEWER, reviewer_name
from app.ask import InputError, Modality
from app.choice import Choice
from app.components import cards, events, opened
from app.components.controls import button
from app.components.refusals import attempt
from app.components.table import ENLARGED

LONGEST_REVIEWER = judging.LONGEST["reviewer"]
NOT_RECORDED = "The verdict was not recorded."
# Verdict → its label on a labelled pair, on any other pair, and its key. Streamlit itself uses C and R.
LABELS: dict[str, tuple[str, str, str]] = {
    "also-matches": ("", "Also matches", "M"),
    "wrong-caption": ("Wrong caption", "Wrong caption", "W"),
    "too-vague": ("Too vague", "Too vague", "V"),
    "duplicate": ("Duplicate", "Duplicate", "D"),
    "label-right": ("Label is right", "No match", "L"),
}
WORDS = {verdict: verdict.replace("-", " ") for verdict in LABELS}
WORDS |= {"label-right": "label is right", "none": "remark"}
OF_CAPTION = ("wrong-caption", "too-vague")
UNDO = "undo"
# page, time, run and review; style.css hides it sooner
GIVEN = "verdict-given"
_NEW = "verdict-is-new"
TOAST_SECONDS = 20
Review = judging.Review


def login() -> str:
    """Return the login name of the person who started the app: the reviewer until another name is given."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()[:LONGEST_REVIEWER]
    return "reviewer"


def reviewer() -> str:
    """Return the reviewer's name: from the field, the address, or the login name."""
    return reviewer_name().strip()[:LONGEST_REVIEWER] or login()


def reviewer_field() -> None:
    """Draw the field for the reviewer's name, which the address keeps from page to page."""
    help_text = "Stored with every verdict. The default is the login name of the person who started the app."
    limit = LONGEST_REVIEWER
    st.text_input("Reviewer", max_chars=limit, help=help_text, placeholder=login(), width=220, key=REVIEWER)


def offered(choice: Choice, image: int, caption: int | None) -> dict[str, str]:
    """Return the possible verdicts on a pair and their labels; an image with all its captions is a labelled pair."""
    owner = choice.ask(judging.ReviewedSplit.of).image_of_text
    column = 0 if caption is None or int(owner[caption]) == image else 1
    return {verdict: labels[column] for verdict, labels in LABELS.items() if labels[column]}


def current(choice: Choice, image: int, caption: int | None) -> Review | None:
    """Return this reviewer's current verdict on a pair. InputError: the file of reviews cannot be read."""
    run = choice.last
    pair = choice.ask(judging.ReviewedSplit.of).pair(image, caption)
    return judging.own_verdicts(run, reviewer()).get(pair)


def give(
    choice: Choice, pair: tuple[int, int | None], verdict: str, tags: tuple[str, ...] = (), note: str = ""
) -> None:
    """Record a verdict on an image and a caption (None: all of its captions), or undo the current one. "Wrong caption"
    and "too vague" are about a caption with its own image, whatever image it is shown with."""
    image, caption = pair
    run = choice.last
    split = choice.ask(judging.ReviewedSplit.of)
    if verdict == UNDO:
        if (review := current(choice, image, caption)) is not None:
            attempt(NOT_RECORDED, judging.undo, run, review)
            st.session_state[_NEW] = True
        return
    if verdict in OF_CAPTION and caption is not None:
        image = int(split.image_of_text[caption])
    image_key, text = split.pair(image, caption)
    review = Review(image_key, text, verdict, reviewer(), tags, note)  # type: ignore[arg-type]
    attempt(NOT_RECORDED, judging.give, run, review)
    st.session_state[GIVEN] = opened.state().page, time.monotonic(), run, review
    st.session_state[_NEW] = True


def is_new() -> bool:
    """True if a verdict was given or undone since the whole page ran."""
    return bool(st.session_state.get(_NEW))


def in_words(review: Review) -> str:
    """Describe a verdict with its caption or image, such as "wrong caption: a dog runs"."""
    return f"{WORDS[review.verdict]}: {review.caption or review.image}"


def show_toast() -> None:
    """Show the last verdict on this page in the corner of the window, with an undo button, unless it was undone."""
    st.session_state.pop(_NEW, None)
    page, given, run, review = st.session_state.get(GIVEN, ("", 0.0, None, None))
    if page != opened.state().page or time.monotonic() - given > TOAST_SECONDS:
        st.session_state.pop(GIVEN, None)
    elif judging.own_verdicts(run, review.reviewer).get(review.pair) == review:
        with st.container(key=f"toast-{review.id}", horizontal=True, vertical_alignment="center"):
            words = in_words(review)
            st.html(f'<p class="cl-text" role="status">{html.escape(words[0].upper() + words[1:])}</p>')
            undo = partial(attempt, NOT_RECORDED, judging.undo, run, review)
            button("Undo", "undo-given", "undo", undo)


def judge(choice: Choice, image: int, caption: int | None, key: str, *, keys: bool = False) -> DeltaGenerator:
    """Draw buttons for verdicts on a pair (without a caption: on the image with all its captions), an undo, tags and a
    note. Return their row, for more buttons. `key` is that of the widgets. `keys` adds shortcuts for the verdicts, only
    on the Reviews page, which has its own undo."""
    try:
        review = current(choice, image, caption)
    except InputError as error:
        cards.empty("Verdicts cannot be given here.", str(error))
        return st.container()

    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}-review")
    with row:
        for verdict, label in offered(choice, image, caption).items():
            given = review is not None and review.verdict == verdict
            button(
                label,
                f"{key}-{verdict}",
                "check" if given else "",
                partial(give, choice, (image, caption), verdict),
                shortcut=LABELS[verdict][2] if keys else None,
                type="primary" if given else "secondary",
            )
        if review is not None and not keys:
            undo = partial(give, choice, (image, caption), UNDO)
            button("Undo", f"{key}-undo", "undo", undo, type="tertiary")
        _remarks(choice, image, caption, review, key)

    if review is not None and (review.tags or review.note):
        cards.note(" · ".join(part for part in (", ".join(review.tags), review.note) if part))

    return row


def _remarks(choice: Choice, image: int, caption: int | None, review: Review | None, key: str) -> None:
    def save() -> None:
        words = str(st.session_state.get(f"{key}-tags", "")).split(",")
        tags = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
        verdict = "none" if review is None else review.verdict
        note = str(st.session_state.get(f"{key}-note", "")).strip()
        give(choice, (image, caption), verdict, tags, note)

    tags, note = (", ".join(review.tags), review.note) if review else ("", "")
    longest = judging.MOST_TAGS * (judging.LONGEST_TAG + 2)
    with st.popover("Tags and note", icon=":material/edit_note:"):
        st.text_input("Tags, separated by commas", tags, key=f"{key}-tags", max_chars=longest)
        st.text_area("Note", note, key=f"{key}-note", max_chars=judging.LONGEST["note"])
        button("Save", f"{key}-save", "", save)
        cards.note(f"Reviewer: {reviewer()}. Change the name on the Reviews page.")


def menu_html(choice: Choice, image: int, caption: int, *, enlarged: bool = False) -> str:
    """Return the same verdicts as a menu on a card, with Undo if one was given; `enlarged`: in the dialog of the large
    picture, which stays open."""
    try:
        review = current(choice, image, caption)
    except InputError:
        return ""
    labels = offered(choice, image, caption)
    present = "" if review is None else labels.get(review.verdict, "remark")
    start = '<button type="button" data-review='
    pair = f'data-pair="{image} {caption} {int(enlarged)}"'
    labels |= {UNDO: "Undo"} if present else {}
    buttons = "".join(f'{start}"{name}" {pair}>{html.escape(text)}</button>' for name, text in labels.items())
    summary = f"✓ {html.escape(present)}" if present else "Judge"
    given = " cl-given" if present else ""
    return f'<details class="cl-review{given}"><summary>{summary}</summary><div>{buttons}</div></details>'


def review_menu(choice: Choice, modality: Modality, query: int | None, candidate: int) -> str:
    """Return the menu that judges a query with a candidate; "" without a query of the split."""
    if query is None:
        return ""
    image, caption = (candidate, query) if modality == "text" else (query, candidate)
    return menu_html(choice, image, caption)


def record_clicked(choice: Choice) -> None:
    """Record the verdict that a card's menu reports. Called at the end of a page."""

    def report(value: Mapping[str, Any]) -> None:
        verdict = value.get("verdict")
        pair = value.get("pair")
        split = choice.ask(judging.ReviewedSplit.of)
        if verdict not in (*LABELS, UNDO) or not isinstance(pair, list) or len(pair) != 3:
            return
        if events.is_index(pair[0], len(split.keys)) and events.is_index(pair[1], len(split.captions)):
            give(choice, (pair[0], pair[1]), str(verdict))
            if pair[2] == 1:
                st.session_state[ENLARGED] = pair[0]

    events.on_click("verdict", report)
