"""Sections of the judging.Reviews page: a queue of pairs to judge, what was judged, what it changes, how reviewers agree."""

from __future__ import annotations

from urllib.parse import urlencode

import numpy as np
import pandas as pd
import streamlit as st

from app import judging, training
from app.ask import Modality, Run, ask, read_each
from app.choice import Choice, attempt, bound
from app.components import cards, downloads, links, reviewing
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.selection import matching
from app.components.table import Column, SampleCell, plain_table, rows_table
from app.components.words import count, gain_cell
from app.views.samples import TABLE_PICTURE, ids_text, note_sample, search_words, similar_button

SKIPPED = "review-skipped"
WORDS = {
    "wrong-caption": "wrong caption",
    "also-matches": "also matches",
    "too-vague": "too vague",
    "duplicate": "duplicate",
    "label-right": "label is right",
    "none": "remark",
}
HOW = {
    "ambiguous": "Captions with the lowest diversity, each with its own image.",
    "near": "Captions that miss their image by the smallest margin, each with the image ranked above it.",
    "likely": "Unlabelled results whose captions suggest a match. A guess.",
}
DIRECTION = {"i2t": "image → text", "t2i": "text → image"}


def show_queue(choice: Choice) -> None:
    """The next pair of the chosen queue that this reviewer has not judged; a verdict brings the one after it."""
    run, of_slice = choice.last, " in the slice" if choice.slice else ""
    cards.heading(
        "Judge",
        f"Each verdict shows the next pair. Shortcuts are on the buttons. Pairs of {run.name}{of_slice}.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind = choose_one("Queue", judging.QUEUES, "queue", tip("queue"))
        reviewing.reviewer_field()
    cards.note(HOW[kind])
    if kind != "likely":
        note_sample(run, choice.split)
    elif (sample := ask(Run.query_sample, run, choice.split)) is not None:
        cards.note(f"From a random sample of {len(sample.texts):,} of {sample.of_texts:,} captions.")
    pairs = judging.queue(run, choice.split, kind, choice.captions)
    skipped: list[tuple[int, int]] = st.session_state.setdefault(f"{SKIPPED}-{run.name}-{choice.split}", [])
    remaining = [pair for pair in pairs if pair not in skipped and not _is_judged(choice, *pair)]
    done = len(pairs) - len(remaining)
    st.progress(done / max(len(pairs), 1), f"{done} of {len(pairs)} judged or skipped")
    _undo_last(choice)
    if not remaining:
        cards.empty("This queue is finished." if pairs else "No such pair exists.", "Choose another queue.")
        return
    image, caption = remaining[0]
    _show_pair(choice, image, caption)
    with reviewing.judge(choice, image, caption, "queue", undo=False):
        similar_button(choice, "text", caption, "queue")
    st.button("Skip", key="queue-skip", on_click=skipped.append, args=((image, caption),), shortcut="S")


def _is_judged(choice: Choice, image: int, caption: int) -> bool:
    """This reviewer has judged the pair, or the caption as wrong or too vague."""
    split = judging.reviewed_split(choice.last, choice.split)
    given = judging.own_verdicts(choice.last, reviewing.reviewer())
    of_caption = given.get(split.pair(int(split.image_of_text[caption]), caption))
    pair = given.get(split.pair(image, caption))
    judged = pair is not None and pair.verdict != "none"
    return judged or (of_caption is not None and of_caption.verdict in reviewing.OF_CAPTION)


def _undo_last(choice: Choice) -> None:
    """The last verdict of this reviewer, and a button that takes it back."""
    run = choice.last
    given = list(judging.own_verdicts(run, reviewing.reviewer()).values())
    if not given:
        return
    last = given[-1]

    def undo() -> None:
        attempt(reviewing.NOT_RECORDED, judging.undo, run, last)

    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Undo the last", key="queue-undo-last", on_click=undo, icon=":material/undo:", shortcut="U")
        cards.note(f"{WORDS[last.verdict]}: {last.caption[:200] or last.image[:200]}")


def _show_pair(choice: Choice, image: int, caption: int) -> None:
    """The caption with the image to judge; beside it, where that is another one, the caption's own image."""
    run, opened = choice.last, choice.last
    captions, owner = (
        ask(Run.captions, opened, choice.split),
        int(ask(Run.image_of_text, opened, choice.split)[caption]),
    )
    shown = {image: "The pair"}
    if owner != image:
        shown = {image: "Does the caption match this image?", owner: "Its own image"}
    for (row, title), column in zip(shown.items(), st.columns(len(shown), gap="small"), strict=True):
        own = [captions[text] for text in ask(Run.captions_of, opened, choice.split, row) if text != caption]
        pages = (
            links.of_sample(choice, "image", row)
            if row != owner
            else links.of_sample(choice, "text", caption)
        )
        name = f"{title} · {ids_text('text', caption, row, ask(Run.image_names, opened, choice.split)[row])}"
        with column:
            cards.sample(
                ask(Run.picture, run, choice.split, row), [captions[caption], *own], name, 0, pages, row
            )


def show_judged(choice: Choice, said: judging.Reviews) -> None:
    """Every standing verdict, filtered, with a file of them."""
    run = choice.last
    of_slice = " with a caption of the slice, or an image that one describes" if choice.slice else ""
    cards.heading("Verdicts", f"The last verdict of every reviewer on every pair{of_slice}, newest first.")
    standing = said.standing[::-1]
    if not standing:
        cards.empty(
            "Nothing is judged yet.", "Judge pairs above, or on the cards of Retrieval and Diversity."
        )
        return
    if choice.slice:
        pairs = judging.reviewed_split(run, choice.split).rows([review.pair for review in standing])
        captions, images = (set(choice.members(kind).tolist()) for kind in ("text", "image"))
        inside = [
            pair is not None and (pair[1] in captions or (pair[1] < 0 and pair[0] in images))
            for pair in pairs
        ]
        standing = tuple(review for review, chosen in zip(standing, inside, strict=True) if chosen)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        verdicts = [
            "all",
            *(verdict for verdict in WORDS if any(review.verdict == verdict for review in standing)),
        ]
        verdict = st.selectbox(
            "Verdict",
            verdicts,
            format_func=lambda value: WORDS.get(value, value),
            **bound("verdict"),
            width=180,
        )
        reviewers = ["all", *dict.fromkeys(cards.literal(review.reviewer) for review in standing)]
        by = st.selectbox("By", reviewers, **bound("by"), width=180)
        words = search_words("words", "of captions, tags and notes")
    texts = [f"{review.caption} {review.image} {' '.join(review.tags)} {review.note}" for review in standing]
    rows = [
        row
        for row in (matching(texts, words) if words.split() else range(len(standing)))
        if verdict in ("all", standing[row].verdict) and by in ("all", cards.literal(standing[row].reviewer))
    ]
    chosen = [standing[row] for row in rows]
    if not chosen:
        cards.empty("No verdict fits.", "Choose others, or clear the field.")
        return
    places = judging.reviewed_split(run, choice.split).rows([review.pair for review in chosen])
    frame = pd.DataFrame(
        {
            "verdict": [WORDS[review.verdict] for review in chosen],
            "reviewer": [review.reviewer for review in chosen],
            "tags": [", ".join(review.tags) for review in chosen],
            "note": [review.note for review in chosen],
            "time": [review.time for review in chosen],
        }
    )
    names = ask(Run.image_names, run, choice.split)

    def samples(positions: np.ndarray) -> list[SampleCell]:
        shown = []
        for position in positions.tolist():
            place, review = places[position], chosen[position]
            image, text = place or (-1, -1)
            kind: Modality = "text" if text >= 0 else "image"
            number = text if text >= 0 else image
            small = ids_text(kind, number, image, names[image]) if place else "elsewhere"
            picture = (
                cards.data_url(ask(Run.picture, run, choice.split, image, TABLE_PICTURE)) if place else ""
            )
            shown.append(
                SampleCell(
                    image, "the pair", review.caption or f"all captions of {review.image}", small, picture
                )
            )
        return shown

    columns = {str(name): Column(str(name)) for name in frame}
    rows_table(frame, columns, np.arange(len(frame)), "judged", "verdicts", None, None, samples=samples)
    content = frame.assign(
        image=[review.image for review in chosen], caption=[review.caption for review in chosen]
    )
    downloads.table(content, "reviews")


def show_recall(choice: Choice, said: judging.Reviews) -> None:
    """R@K of the chosen runs by the labels and by the reviewed labels."""
    of_slice = " Queries are those of the slice." if choice.slice else ""
    cards.heading(
        "Recall with and without the verdicts",
        "Reviewed: labels judged wrong no longer count, other matches do. A query whose labels are all wrong is left "
        f"out.{of_slice}",
    )
    within = choice.captions
    tables, faults = read_each(choice.runs, lambda run: judging.reviewed_recall(run, choice.split, within))
    if faults:
        cards.faults(faults)
    if not tables:
        return
    parts = []
    for name, table in tables.items():
        table = table[(table["queries"] == "all") | (table["count"] > 0)]
        changes = zip(table["reviewed_1"] - table["labels_1"], table["low_1"], table["high_1"], strict=True)
        cells = [gain_cell(*change) for change in changes]
        parts.append(table.assign(run=name, direction=table["direction"].map(DIRECTION), change=cells))
    frame = pd.concat(parts)
    columns = {
        "run": Column("run"),
        "direction": Column("direction"),
        "queries": Column("queries", term="changed queries"),
        "count": Column("number", ",d"),
    }
    for k in (1, 5, 10):
        columns[f"labels_{k}"] = Column(f"R@{k} labels", ".1f", "R@K")
        columns[f"reviewed_{k}"] = Column(f"R@{k} reviewed", ".1f", "reviewed")
        if k == 1:
            columns["change"] = Column("change of R@1", term="change of recall", right=True)
    plain_table(frame.reset_index(drop=True), columns, "reviewed-recall", "rows")
    ends = {f"{end}_{k}": f"R@{k} change, {end} end" for end in ("low", "high") for k in (1, 5, 10)}
    labelled = frame.drop(columns="change").rename(
        columns=ends | {name: one.label for name, one in columns.items()}
    )
    downloads.table(labelled, "reviewed-recall", paper=True)
    cards.note(f"Fingerprint of the verdicts that count: {said.fingerprint()[:12]}.")


def show_agreement(said: judging.Reviews) -> None:
    """Cohen's kappa of every two reviewers with pairs in common."""
    cards.heading("Do the reviewers agree?", "On the pairs that both judged.")
    table = judging.agreement(said)
    if not len(table):
        cards.empty(
            "No two reviewers have judged the same pair.",
            "Give another name above and judge the queue again; files of two people are joined by "
            "python -m coder_core.reviews merge.",
        )
        return
    columns = {
        "first": Column("reviewer"),
        "second": Column("and"),
        "pairs": Column("pairs", ",d"),
        "same": Column("same verdict", ".1f", "", " %"),
        "kappa": Column("Cohen’s κ", ".2f", "kappa"),
    }
    plain_table(table, columns, "agreement", "pairs of reviewers")


def show_training(choice: Choice, said: judging.Reviews) -> None:
    """The way to a training with these verdicts."""
    run = choice.last
    cards.heading(
        "Use them",
        "Verdicts on pairs of train change training, those on dev and test correct the evaluation. To judge train, "
        "evaluate the run with --split train and choose that split.",
    )
    path, data = judging.file_of(run), str(run.config.get("data", {}).get("data", ""))
    cards.note(f"{count(len(said.verdicts), 'pair', 'pairs')} judged; the verdicts are in {path}.")
    name = next((entry.name for entry in training.data_sets() if data and judging.same_data(entry, data)), "")
    if name and path.exists():
        address = f"train?{urlencode({'data': name, 'use-reviews': 'true'})}"
        st.html(cards.links_html([("Train with these verdicts", address)]))
    evaluated = f"python -m coder_core.evaluate {run.path} --split {choice.split} --reviews {path}"
    st.code(evaluated, language=None, wrap_lines=True)
